#pragma once

#include <cstdint>
#include <string>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/implicit_operand.h"
#include "codegen/contraction/plan.h"
#include "codegen/kernel.h"

/// A factor that slides, read element by element where it lies while its tiles are multiplied, in place of planes that
/// were packed before: a warpgroup reads a stage's strips, rounds or splits what it read and writes them to shared
/// memory as copies of packed planes would leave them (see Im2col). Each element is read once for each strip that has
/// it, which costs less than writing and reading planes where tiles have all rows of the other factor.
///
/// Elements are multiplied by one power of two, as nobody has seen them before. Each image's largest magnitude is
/// noted; what follows in case (see is_unusual_text()) packs planes after all. Pure; thread-safe.
namespace planish::codegen::contraction {

/// Whether the factor is a load of fp32 and nothing else, of whose places channels and coordinates are sums.
bool can_read_strips(const Kernel& kernel, const Contraction& contraction, const ImplicitOperand& implicit);

/// Functions of one of the producer's 128 threads:
///
/// - `find_places(place, valid, later, product, first, thread)`: where its chunks of a tile's stages lie that begins at
/// the
///   position `first`, and which strips have elements there. `later`: a bit for each chunk that is of the next image.
/// - `ask_strip(v, from, place, valid, strip, thread)`: asks for its chunks of a stage, whose first strip has the
/// number
///   `strip`.
/// - `drop_strip(to, v, later, top, thread)`: writes them, rounded or split, to the stage at the address `to`, and
/// raises
///   the largest magnitudes of both images.
/// - `tell_magnitudes(notes, product, first, top)`: notes these, for a whole warp, and forgets them; behind the notes
/// of all
///   images `images` it sets a number where one is not finite.
///
/// `v`, `place` and `valid` are arrays of plan.rounds. Expects parting_text(), splitting_text() and strip_text().
std::string print_strip_reader(const Kernel& kernel, const Contraction& contraction, const ImplicitOperand& implicit,
                               const Problem& problem, const TilePlan& plan, std::int64_t images);

/// Whether number `i` of the notes `name` is that of an image that has to be scaled otherwise, or says that some result
/// is not finite.
std::string is_unusual_text(const std::string& name, std::int64_t images);

}  // namespace planish::codegen::contraction
