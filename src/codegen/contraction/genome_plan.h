#pragma once

#include <cstdint>
#include <vector>

#include "codegen/contraction/plan.h"
#include "codegen/contraction/product.h"
#include "codegen/genome.h"

/// What genes of contractions say. Pure; thread-safe.
namespace planish::codegen::contraction {

/// The tile plan of a genome, legal or not.
TilePlan plan_of(const Product& product, const Genome& genome, const Device& device);

/// Columns that tiles may have; `wide`: of a product whose sums leave registers for more.
std::vector<std::int64_t> tile_widths(const Problem& problem, bool wide);

/// The same genome with all factors packed.
Genome with_all_packed(Genome genome);

/// Whether the first factor can come as fp32 and be split by those who multiply.
bool can_split_in_registers(const Product& product);
/// Whether strips of the second factor can be read where they lie.
bool can_read_strips(const Product& product);

/// Of the gene `direct`: tensor maps bring what is not packed.
constexpr std::int64_t by_maps = 2;
/// Of a product's ways the one that the genome takes: with its factors exchanged, in boxes, or as it is.
const Product& way_of(const Product& product, const Genome& genome);

}  // namespace planish::codegen::contraction
