#include "search/cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "backend/backend.h"

namespace planish::search {
namespace {

constexpr std::int64_t kib = 1024;
/// Arithmetic instructions for each one that moves data, from where on a kernel is called compute-bound: a fused
/// multiply-add counts two operations, so this is some 4 operations a byte of 32-bit data, past the ridge of no device.
constexpr std::int64_t much_arithmetic = 12;

std::uint8_t step(std::int64_t value, std::int64_t one, std::int64_t two) {
  return value > two ? 2 : value > one ? 1 : 0;
}

class CudaCells : public Cells {
 public:
  Cell of(const KernelReport& kernel, const LaunchReport& launch, std::size_t launches) const override;
  Names names() const override {
    return {{"memory-bound", "compute-bound", "fused", "tensor cores"},
            {"up to 1 KiB shared", "up to 48 KiB shared", "more shared"},
            {"several waves", "all blocks resident", "cooperating blocks"}};
  }
};

class CpuCells : public Cells {
 public:
  Cell of(const KernelReport& kernel, const LaunchReport& launch, std::size_t launches) const override;
  Names names() const override {
    return {{"scalar", "128-bit vectors", "256-bit vectors", "512-bit vectors"},
            {"frame up to 1 KiB", "frame up to 32 KiB", "larger frame"},
            {"one thread", "independent threads", "waiting threads"}};
  }
};

Cell CudaCells::of(const KernelReport& kernel, const LaunchReport& launch, std::size_t launches) const {
  Cell out;
  const std::int64_t memory = kernel.instruction("global") + kernel.instruction("async_copy");
  if (kernel.instruction("tensor") > 0) {
    out.strategy = 3;
  } else if (kernel.instruction("barrier") > 0) {
    out.strategy = 2;
  } else if (kernel.instruction("arithmetic") >= much_arithmetic * std::max<std::int64_t>(memory, 1)) {
    out.strategy = 1;
  }
  out.footprint = step(kernel.shared_bytes + launch.shared_bytes, kib, 48 * kib);
  const bool together = launch.cluster > 1 || launches > 1 || kernel.instruction("atomic") > 0;
  out.structure = together ? 2 : launch.waves <= 1 ? 1 : 0;
  return out;
}

Cell CpuCells::of(const KernelReport& kernel, const LaunchReport&, std::size_t) const {
  Cell out;
  const std::array<const char*, 3> widths{"vector_128", "vector_256", "vector_512"};
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (kernel.instruction(widths[i]) > 0) out.strategy = static_cast<std::uint8_t>(i + 1);
  }
  out.footprint = step(kernel.local_bytes, kib, 32 * kib);
  if (kernel.instruction("parallel") > 0) {
    const bool waits = kernel.instruction("barrier") > 0 || kernel.instruction("atomic") > 0;
    out.structure = waits || kernel.instruction("parallel") > 1 ? 2 : 1;
  }
  return out;
}

const Cells* cells_of(const std::string& target) {
  [[maybe_unused]] static const bool built_in = [] {
    backend::cuda().parts.give<Cells>(std::make_shared<const CudaCells>());
    backend::cpu().parts.give<Cells>(std::make_shared<const CpuCells>());
    return true;
  }();
  return backend::named(target).parts.get<Cells>();
}

}  // namespace

Cell Cell::at(int index) {
  Cell out;
  out.strategy = static_cast<std::uint8_t>(index / 9);
  out.footprint = static_cast<std::uint8_t>(index / 3 % 3);
  out.structure = static_cast<std::uint8_t>(index % 3);
  return out;
}

std::optional<Cell> cell_of(const Evaluation& evaluation, const std::string& target) {
  const Cells* cells = cells_of(target);
  if (cells == nullptr || !evaluation.compile || evaluation.compile->kernels.empty()) return std::nullopt;
  const auto& kernels = evaluation.compile->kernels;
  const LaunchReport* main = nullptr;
  for (const LaunchReport& launch : evaluation.compile->launches) {
    if (launch.kernel < 0 || static_cast<std::size_t>(launch.kernel) >= kernels.size()) continue;
    if (main == nullptr || launch.blocks * launch.threads > main->blocks * main->threads) main = &launch;
  }
  if (main == nullptr) return std::nullopt;
  const KernelReport& kernel = kernels[static_cast<std::size_t>(main->kernel)];
  return cells->of(kernel, *main, evaluation.compile->launches.size());
}

std::string text(Cell cell, const std::string& target) {
  const Cells* cells = cells_of(target);
  if (cells == nullptr) return fmt::format("cell {}", cell.index());
  const Cells::Names names = cells->names();
  return fmt::format("{}, {}, {}", names.strategies[cell.strategy], names.footprints[cell.footprint],
                     names.structures[cell.structure]);
}

}  // namespace planish::search
