#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evaluate/evaluation.h"

namespace planish::search {

/// A cell of the archive: strategy × on-chip footprint of a block × parallel structure, 4 × 3 × 3 = 36.
///
/// Everything is read from the compiled code and from the launch (`compile.kernels` and `compile.launches` of the
/// evaluation document), never from what a genome or a coder claims. Of several launches the one that takes most of the
/// work (threads × grid) speaks for the program.
///
/// | axis | CUDA | CPU |
/// |---|---|---|
/// | strategy | 0 memory-bound, 1 compute-bound (arithmetic per access to memory), 2 fused (barriers between passes), 3
/// tensor cores | widest vectors in the machine code: 0 none, 1 128, 2 256, 3 512 bits | | footprint | shared bytes a
/// block: 0 at most 1 KiB, 1 at most 48 KiB, 2 more | bytes of frame and of static data: 0 at most 1 KiB, 1 at most 32
/// KiB (a first-level cache), 2 more | | structure | 0 independent blocks in several waves, 1 all blocks resident at
/// once, 2 cooperating (clusters, several launches, atomics) | 0 one thread, 1 independent threads, 2 threads that wait
/// for each other |
struct Cell {
  std::uint8_t strategy = 0, footprint = 0, structure = 0;
  static constexpr int count = 36;
  int index() const { return (strategy * 3 + footprint) * 3 + structure; }
  static Cell at(int index);
  auto operator<=>(const Cell&) const = default;
};

/// A target's part of the archive: what the axes mean there.
class Cells {
 public:
  struct Names {
    std::array<std::string_view, 4> strategies;
    std::array<std::string_view, 3> footprints, structures;
  };
  virtual ~Cells() = default;
  /// `launch` is the one that takes most of the work, of `launches`; `kernel` what it launches.
  virtual Cell of(const KernelReport& kernel, const LaunchReport& launch, std::size_t launches) const = 0;
  virtual Names names() const = 0;
};

/// The cell of a program that was compiled and launched; nothing where the document does not say, or the target has no
/// cells.
std::optional<Cell> cell_of(const Evaluation& evaluation, const std::string& target);
/// "fused, up to 48 KiB shared, several waves".
std::string text(Cell cell, const std::string& target);

}  // namespace planish::search
