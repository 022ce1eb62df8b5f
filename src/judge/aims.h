#pragma once

#include <cstdint>
#include <vector>

#include "codegen/genome.h"
#include "judge/verdict.h"

namespace planish::judge {

/// What would have to change for an issue to go away. Issues name aims; one table says which genes serve which aim, so
/// that a new gene is one more line there.
enum class Aim : std::uint8_t {
  fewer_registers,    ///< a thread, so that more blocks are resident
  more_registers,     ///< room for the compiler, so that nothing is spilled
  less_shared,        ///< bytes a block
  more_in_flight,     ///< bytes asked for before anything is waited for
  more_blocks,        ///< independent pieces of work
  even_waves,         ///< the last wave of blocks as full as the others
  less_traffic,       ///< the same bytes moved fewer times
  wider_access,       ///< bytes of one access
  less_arithmetic,    ///< instructions for the same result
  less_coordination,  ///< threads or blocks that wait for each other
  more_exact,         ///< rounding as the task has it
  inside_bounds,      ///< fewer pieces that reach over the end of the data
};

/// The moves that serve the aim and exist: the gene is in `genes`, and the genome's value has a neighbour in that
/// direction (for 0: any other choice). `worth` is the gain when the aim is reached; a move gets the part of it that
/// this gene usually brings. Largest first; equal gains in the table's order.
std::vector<Move> moves_for(Aim aim, double worth, const codegen::Genome& genome,
                            const std::vector<codegen::Gene>& genes);

}  // namespace planish::judge
