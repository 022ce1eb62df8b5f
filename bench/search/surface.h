#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "coder/domain.h"
#include "evaluate/evaluation.h"

namespace planish::bench {

/// Genomes with times: something to search without compiling anything. Thread-safe to read.
class Surface {
 public:
  virtual ~Surface() = default;
  virtual std::string name() const = 0;
  /// Measured on a machine, or made up.
  virtual bool measured() const = 0;
  virtual std::shared_ptr<const coder::Domain> domain() const = 0;
  struct Time {
    enum class Kind : std::uint8_t { ok, failed, not_recorded } kind = Kind::ok;
    double ms = 0;       ///< as one measurement gives it, noise included
    double true_ms = 0;  ///< without noise; what a strategy is judged by
  };
  virtual Time time(const codegen::Genome& genome, std::mt19937_64& noise) const = 0;
  /// The least true_ms there is, where that is known; else 0.
  virtual double floor_ms() const { return 0; }
  /// Equal for genomes whose code and launches are equal.
  virtual std::string program(const codegen::Genome& genome) const { return codegen::text(genome); }
  /// What the compiler and the device said of it, for a judge; nothing where that was not recorded.
  virtual std::optional<Evaluation> evaluation(const codegen::Genome&, const Time&) const { return std::nullopt; }
};

/// Made-up response surfaces, every one labelled `synthetic`:
/// - `gemm-*`: tiles, warps, stages and splits of a matrix product with an analytic model of waves, occupancy, reuse
/// and
///   latency;
/// - `cuda-*`: the real gene spaces, legality and first guesses of row and pointwise kernels on sm_90a, with a roofline
///   of bytes in flight, occupancy, waves and re-reading.
/// All are multiplied by random interactions of pairs of genes, have cliffs, 2 % failures and measurement noise.
std::vector<std::unique_ptr<Surface>> synthetic_surfaces();

}  // namespace planish::bench
