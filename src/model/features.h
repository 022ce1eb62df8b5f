#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// What a learned model sees of a candidate before it is compiled: numbers by name, so that what was measured by one
/// version still teaches the next.
namespace planish::codegen {
class Schedule;
}

namespace planish::model {

/// Name → value. A name that is missing is unknown to the model, which is not the same as zero.
using Features = std::map<std::string, double, std::less<>>;

/// "name=value name=value", shortest digits that give the value back.
std::string text(const Features& features);
/// Error kind `bad_features`.
Result<Features> features_from_text(std::string_view text);

/// What records of a kernel are filed under: kernels that agree in these are alike.
struct KernelClass {
  std::string pattern;  ///< anchor: "pointwise", "row"
  std::string kinds;    ///< operator kinds, sorted, each once: "exp max sum" (reductions by their kind)
  std::string bucket;   ///< widest dtype and sizes to a power of two: "f32 o10 i12"
  Features facts;       ///< of the kernel alone, whatever the device: names begin with "k."
};
KernelClass classify(const codegen::Kernel& kernel);

/// Features of one kernel's genomes on one device. Keeps a copy of the kernel; copies share it. Thread-safe.
class Featurizer {
 public:
  Featurizer(codegen::Kernel kernel, codegen::Device device);

  const KernelClass& kernel_class() const { return class_; }
  /// The genes ("g.", as logarithms) and what follows from them with the kernel ("d.": registers, blocks, bytes in
  /// flight, …). Does not repeat the kernel's facts.
  Features of(const codegen::Genome& genome) const;
  /// The "d." values, in the order of derived_names(); `unknown` where a name does not apply.
  static constexpr std::size_t derived = 14;
  static const std::array<std::string_view, derived>& derived_names();
  std::array<double, derived> derive(const codegen::Genome& genome) const;
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

 private:
  struct Subject {
    codegen::Kernel kernel;
    codegen::Device device;
    std::unique_ptr<const codegen::Schedule> schedule;  ///< of this kernel on this device
    ~Subject();
  };
  std::shared_ptr<const Subject> subject_;
  KernelClass class_;
  double bytes_ = 0, points_ = 0;
};

/// Features of one genome after another of the same genes, in the same memory: names are looked up once. A name that
/// does not apply has the value `unknown`. One thread.
class Describer {
 public:
  /// With the kernel's facts.
  explicit Describer(std::shared_ptr<const Featurizer> features);
  Describer(const Describer&) = delete;
  Describer& operator=(const Describer&) = delete;
  /// Holds until the next call; its names stay where they are.
  const Features& of(const codegen::Genome& genome) { return of(genome, features_->derive(genome)); }
  /// With what follows from the genome at hand.
  const Features& of(const codegen::Genome& genome, const std::array<double, Featurizer::derived>& derived);

 private:
  std::shared_ptr<const Featurizer> features_;
  Features all_;
  std::vector<double*> genes_, derived_;  ///< values in all_
};

}  // namespace planish::model
