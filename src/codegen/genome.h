#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "codegen/gene.h"
#include "codegen/kernel.h"
#include "ir/graph.h"

/// The schedule genome of one kernel: a flat, typed record of decisions. Search sees genes and choices, never code.
namespace planish::codegen {

/// What emission must know of the device. Filled from the evaluator's `device` document, never probed here.
struct Device {
  const backend::Backend* target = &backend::cpu();  ///< never null
  std::string arch;                                  ///< "sm_90a", or the -march value
  int sms = 132;                       ///< what works side by side: multiprocessors, or a processor's cores
  std::int64_t shared_bytes = 232448;  ///< opt-in shared memory a block
  std::int64_t l2_bytes = 50 << 20;    ///< last-level cache
  double bandwidth_gbs = 4300;         ///< streaming copy, read + written
  /// Products of 16-bit numbers on tensor cores in the time of one fp32 operation without them; 0: there are none.
  double tensor_rate = 0;
  int max_cluster = 16;
  bool triton = false;  ///< a Triton that can compile for it is there
};

/// Operations as the units for fp32 would have to do them in the same time: products go at the rate of the tensor cores
/// where there are some.
double operations(const Cost& cost, const Device& device);
/// Bytes that take as long to move as what is to be done, moving or computing: roughly, for devices of today.
double bytes_worth(const Cost& cost, const Device& device);

/// Genes of the kernel's template on this device, with choices already narrowed to what can make sense.
std::vector<Gene> genes(const Kernel& kernel, const Device& device);
/// Why the kernel has no legal genome on this device; empty where it has one. Finds no genes: it may be asked of every
/// kernel that might be.
std::string schedule_lacks(const Kernel& kernel, const Device& device);
/// Loops by which tensor cores of this device compute the kernel's products, the slower first: one that is printed for
/// the kernel, or a device file.
enum class TensorLoop : std::uint8_t { none, printed, file };
TensorLoop tensor_loop(const Kernel& kernel, const Device& device);
/// Empty if legal, else the reason. Checks shared memory, register estimate, vector alignment, grid limits, index
/// width.
std::string illegal(const Kernel& kernel, const Device& device, const Genome& genome);
/// Good first guesses from the roofline, best first; every one is legal; never empty for a kernel that can be emitted.
std::vector<Genome> seeds(const Kernel& kernel, const Device& device);
/// A uniformly drawn legal genome (rejection sampling; gives a seed when a thousand draws fail). Always of the first
/// `language`: the others are tried as seeds, and stay where they do well.
Genome random_genome(const Kernel& kernel, const Device& device, std::mt19937_64& rng);
/// Legal genomes one step away in one gene.
std::vector<Genome> neighbours(const Kernel& kernel, const Device& device, const Genome& genome);
/// A legal mutant: one to three genes redrawn.
Genome mutate(const Kernel& kernel, const Device& device, const Genome& genome, std::mt19937_64& rng);

/// An emitted kernel with its launch, in terms of the kernel's own inputs and outputs.
struct Emitted {
  struct Argument {
    enum class Kind : std::uint8_t { input, output, scratch, scalar } kind = Kind::input;
    int index = 0;
    std::variant<std::int32_t, std::int64_t, float, double> value{};  ///< of a scalar
    bool operator==(const Argument&) const = default;
  };
  std::string language;  ///< one of the target's: "cuda", "triton", "cpp"
  std::string source;    ///< complete; header-free for CUDA
  std::string entry;
  std::vector<std::string> flags;
  std::int64_t grid[3] = {1, 1, 1};
  std::int64_t block[3] = {1, 1, 1};
  std::int64_t cluster[3] = {1, 1, 1};
  std::int64_t shared = 0;  ///< dynamic bytes
  std::vector<Argument> args;
  std::vector<std::int64_t> scratch_bytes;  ///< temporaries the launch needs (usually none)
  std::vector<int> zeroed;                  ///< those of them that hold zeros when the launch begins
  std::map<int, Input> tensors;             ///< those of them that PyTorch's operators read or give, with their layout
  bool packs = false;                       ///< it brings inputs into another form in scratch, whenever that is before
                                            ///< the launches after it
  /// What it writes, scratch alone, follows from inputs and from what launches before it that are marked so write: with
  /// the same inputs another kernel's need not be launched again.
  bool derives = false;
  bool cooperative = false;  ///< its blocks wait for each other, so all must run at the same time
  /// Of a kernel with a dependency_wait(): inputs that it reads before, which no launch may still be writing then. It
  /// is launched programmatically where that is so. Empty: it waits for nothing by itself.
  std::optional<std::vector<int>> early;
  /// Work of a skinny product (skinny/cuda_skinny.h), which any number of blocks may share, so that launches beside
  /// each other can be one: in any unit; 0: it is none.
  double shares = 0;
  /// The kernel with other blocks, and threads of a block, as launches beside each other need it: its source and shared
  /// memory (bytes), or nothing where it does not fit.
  struct Shared {
    std::string source;
    std::int64_t bytes = 0;
  };
  std::function<std::optional<Shared>(std::int64_t blocks, std::int64_t threads)> shared_by{};
  /// Attention of few queries, by this genome: a cache write before it can be part of it (attention/decode_writes.h).
  std::optional<Genome> few_queries;
  /// One of PyTorch's operators in place of a kernel: there is no source then. A tensor's id in it is a place in
  /// `args`.
  std::optional<ir::GraphNode> library;
  /// Launches that follow, in order. Their arguments name the same inputs, outputs and scratch; their own
  /// scratch_bytes, `zeroed`, `tensors` and `after` are empty.
  std::vector<Emitted> after;
};

/// Emits one kernel. Equal arguments give byte-equal source (no names from the graph, no addresses, no dates).
/// Error kinds: `illegal_genome`, `unsupported`.
Result<Emitted> emit(const Kernel& kernel, const Device& device, const Genome& genome);

std::string text(const Genome& genome);
Result<Genome> genome_from_text(std::string_view text);

}  // namespace planish::codegen
