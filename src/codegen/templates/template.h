#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// Templates: the kinds of kernels that can be printed. One folder a kind
/// (templates/NAME/), one object of it, one line in the registry. What is true
/// of a kind of kernel is asked of its template, not found out from its anchor.
namespace planish::codegen {

/// What a genome's plan says of the launch that does the work, before anything
/// is compiled. `unknown` where it does not apply or another decides.
struct Outline {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  double threads = unknown;    ///< of a block; on a processor: cores that share the work
  double registers = unknown;  ///< of a thread, an estimate
  double shared_bytes = unknown;
  double blocks = unknown;        ///< of the launch
  double trips = unknown;         ///< vectors that a thread takes of a row, one after the other
  double flight_bytes = unknown;  ///< what a block asks for before it waits
  double chunks = unknown;        ///< processor: pieces of work a core
  double vectors = unknown;       ///< processor: steps along the vector variable
  double vary_is_last = unknown;  ///< processor: 1 where that is the last variable, else 0
};

/// The ways to run one kernel on one device with one backend. Borrows kernel
/// and device. Thread-safe.
class Schedule {
 public:
  virtual ~Schedule() = default;
  /// With choices already narrowed to what can make sense.
  virtual std::vector<Gene> genes() const = 0;
  /// Why no genome is legal, whatever it chooses; empty where one is.
  virtual std::string lacks() const { return {}; }
  /// What has tensor cores compute what it sums up.
  virtual TensorLoop tensor_loop() const { return TensorLoop::none; }
  /// Empty where these choices can be had together. The genome has exactly the
  /// genes(), each at one of its choices.
  virtual std::string illegal(const Genome& genome) const = 0;
  /// Good first guesses from the roofline, best first. Some may be illegal.
  virtual std::vector<Genome> seeds() const = 0;
  /// Of the plan that emit() follows. For legal genomes.
  virtual Outline outline(const Genome& genome) const = 0;
  /// For legal genomes.
  virtual Result<Emitted> emit(const Genome& genome) const = 0;
};

/// One kind of kernel. Without state.
class Template {
 public:
  virtual ~Template() = default;
  virtual std::string_view name() const = 0;
  /// True for the kernels that it knows how to run. The first of the registry
  /// that does so takes a kernel.
  virtual bool takes(const Kernel& kernel) const = 0;
  /// Whether its kernels stream memory: what cost models learn of schedules, they learn of such.
  virtual bool streams() const { return true; }
  /// cost() of such a kernel.
  virtual Cost cost(const Kernel& kernel) const;
  /// By backend; null where that one has no way to print such a kernel. Only
  /// for kernels that it takes.
  virtual std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const = 0;
  virtual std::unique_ptr<const Schedule> triton(const Kernel& kernel, const Device& device,
                                                 const std::vector<Gene>& genes) const;
  virtual std::unique_ptr<const Schedule> cpp(const Kernel& kernel, const Device& device) const;
};

/// All templates, the more particular ones first.
const std::vector<const Template*>& all_templates();
/// The first of them but this one that takes the kernel: for what a template leaves to others.
const Template& template_beside(const Template& one, const Kernel& kernel);
/// The template that takes the kernel: there is always one.
const Template& template_of(const Kernel& kernel);
/// The ways to run it on this device, as the device's target has them (emission.h).
/// Never null.
std::unique_ptr<const Schedule> schedule_of(const Kernel& kernel, const Device& device);

}  // namespace planish::codegen
