#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// What a learned model sees of a candidate before it is compiled: numbers by name, so that what was measured by one
/// version still teaches the next.
namespace planish::model {

/// Name → value. A name that is missing is unknown to the model, which is not the same as zero.
using Features = std::map<std::string, double, std::less<>>;

/// "name=value name=value", shortest digits that give the value back.
std::string text(const Features& features);
/// Error kind `bad_features`.
Result<Features> features_from_text(std::string_view text);

/// A kernel as knowledge is filed under: kernels that agree in these are alike.
struct KernelClass {
  std::string pattern;  ///< anchor: "pointwise", "row"
  std::string kinds;    ///< operator kinds, sorted, each once: "exp max sum" (reductions by their kind)
  std::string bucket;   ///< widest dtype and sizes to a power of two: "f32 o10 i12"
  Features facts;       ///< of the kernel alone, whatever the device: names begin with "k."
};
KernelClass classify(const codegen::Kernel& kernel);

/// Features of one kernel's genomes on one device. Keeps a copy of the kernel. Thread-safe.
class Featurizer {
 public:
  Featurizer(codegen::Kernel kernel, codegen::Device device);

  const KernelClass& kernel_class() const { return class_; }
  /// The genes ("g.", as logarithms) and what follows from them with the kernel ("d.": registers, blocks, bytes in
  /// flight, …). Does not repeat the kernel's facts.
  Features of(const codegen::Genome& genome) const;
  /// Writes the same over what is there: names that are there already, as when another genome was described before,
  /// take no new memory. Other names are left alone.
  void describe(const codegen::Genome& genome, Features& out) const;

 private:
  codegen::Kernel kernel_;
  codegen::Device device_;
  KernelClass class_;
  double bytes_ = 0, points_ = 0;
};

}  // namespace planish::model
