#pragma once

#include <cstdint>
#include <optional>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/implicit_operand.h"
#include "codegen/contraction/place_writer.h"

/// Results that leave in whole sectors of memory. Where one row's results of a tile end within a sector of 32 bytes,
/// another block writes the rest of it, and memory is read before either half can be written: runs of 256 results that
/// begin anywhere leave at 2.45 TB/s of an H100, those that begin and end with sectors at 3.0 (docs/decisions/0106).
/// So tiles overlap by some columns, and what lies in a sector belongs to the tile that has its first result: rows
/// begin and end their runs where memory has them do so. Pure; thread-safe.
namespace planish::codegen::contraction {

/// How a row's results follow each other in memory, along what slides.
struct Sectors {
  int elements = 8;      ///< of the first output, in 32 bytes
  int overlap = 0;       ///< columns that a tile has of the next one's
  int phase = -1;        ///< the variable of rows through which memory runs before the next column, if there is one
  int next = -1;         ///< the variable of columns that moves from a line to the next one, if there is one
  bool crosses = false;  ///< a line's last results and the next one's first lie beside each other
  ir::IndexExpr row;     ///< what rows say of a result's place; what columns and the phase say is added
  ir::IndexExpr column;
};

/// Nothing where tiles end between sectors anyway, or where a row's results do not follow each other so.
std::optional<Sectors> sectors_of(const Kernel& kernel, const Contraction& contraction,
                                  const ImplicitOperand* implicit);

/// Prints `edge_of(position, mask)`: what a column, which may be none, says of a place; `mask` is 0 where not all
/// results that follow it in its sector are among those that the tile before has too, else the elements of a sector
/// less one.
void print_edge(PlaceWriter& writer, const Sectors& sectors, const Kernel& kernel, const ImplicitOperand& implicit);

}  // namespace planish::codegen::contraction
