#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/genome.h"
#include "codegen/partition/partition.h"
#include "program/program.h"

/// Regions and what was emitted for them → programs. Every result passes program::validate.
namespace planish::codegen {

/// What runs a region: an emitted kernel, or (null) its original `aten` nodes.
using Choice = std::optional<Emitted>;

/// Whether what brings parameters and inputs into the form that products read, and zeros in scratch memory, run
/// together before all else (joint_packing.h, joint_zeros.h), or each where it is needed.
enum class Packings : std::uint8_t { together, apart };

/// The whole task; one choice a region, in the order of Partition::regions. Error kind `bad_argument` where the counts
/// differ.
Result<program::Program> compose(const ir::Graph& graph, const Partition& partition, const std::vector<Choice>& choices,
                                 const Device& device, Packings packings = Packings::together);
/// One region by itself: inputs are user leaves 0…n-1 in the order of Region::inputs, outputs in that of
/// Region::outputs.
Result<program::Program> region_program(const ir::Graph& graph, const Region& region, const Emitted& emitted,
                                        const Device& device);
/// The same, from the region's original nodes.
Result<program::Program> region_aten_program(const ir::Graph& graph, const Region& region, const Device& device);
/// The whole task as `aten` steps alone.
Result<program::Program> aten_program(const ir::Graph& graph, const Device& device);

}  // namespace planish::codegen
