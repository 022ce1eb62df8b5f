#include "codegen/emit/cpp_kind.h"

namespace planish::codegen::cpp {

CppKind cpp_kind(const Kernel& kernel) {
  const bool rows = kernel.has_rows(), scans = !kernel.scans.empty(), across = kernel.across > 0,
             parts = kernel.parts > 0, plain = rows && !scans && !across && !parts;
  CppKind out;
  out.lanes = scans ? Lanes::rows_or_last : across || parts ? Lanes::neighbours : Lanes::anywhere;
  out.chunks = !rows;
  out.splits = rows && !across;
  out.buffers = rows && !across;
  out.panels = plain;
  out.in_order = scans;
  out.column_states = across;
  out.early_stores = plain;
  return out;
}

}  // namespace planish::codegen::cpp
