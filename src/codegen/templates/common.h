#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "codegen/emit/cuda_plan.h"
#include "codegen/templates/template.h"

/// What several templates share.
namespace planish::codegen {

/// Triton's schedule for the templates that it knows; null where the kernel has
/// something that it lacks. `genes` are those of the kernel, `language` among
/// them.
std::unique_ptr<const Schedule> triton_schedule(const Kernel& kernel, const Device& device, std::vector<Gene> genes);

/// The bytes of a block's vectors under way: of every schedule that has
/// `vector` and `unroll`.
Outline cuda_outline(const printing::CudaPlan& plan, const Genome& genome);

/// A CUDA schedule with what is known of its kernel whatever the genome, found
/// when it is first asked for.
class CudaSchedule : public Schedule {
 public:
  CudaSchedule(const Kernel& kernel, const Device& device) : kernel_(kernel), device_(device) {}

 protected:
  const printing::PlanFacts& facts() const;
  const Kernel& kernel_;
  const Device& device_;

 private:
  mutable std::once_flag found_;
  mutable std::unique_ptr<const printing::PlanFacts> facts_;
};

/// The schedule of another kernel that computes the same from the same inputs, which it owns.
class ScheduleOfChanged : public Schedule {
 public:
  using Made = std::unique_ptr<const Schedule>;
  template <class Make>
  ScheduleOfChanged(Kernel changed, const Make& make) : changed_(std::move(changed)), schedule_(make(changed_)) {}

  std::vector<Gene> genes() const override { return schedule_->genes(); }
  std::string lacks() const override { return schedule_->lacks(); }
  TensorLoop tensor_loop() const override { return schedule_->tensor_loop(); }
  std::string illegal(const Genome& genome) const override { return schedule_->illegal(genome); }
  std::vector<Genome> seeds() const override { return schedule_->seeds(); }
  Outline outline(const Genome& genome) const override { return schedule_->outline(genome); }
  Result<Emitted> emit(const Genome& genome) const override { return schedule_->emit(genome); }

  /// Null where that one has none.
  template <class Make>
  static Made made(Kernel changed, const Make& make) {
    auto out = std::make_unique<ScheduleOfChanged>(std::move(changed), make);
    return out->schedule_ == nullptr ? nullptr : std::move(out);
  }

 private:
  Kernel changed_;
  Made schedule_;
};

/// Of a kind of kernel, `what`, that the device at hand does not run, for the reason `why`: it has no such regions
/// either.
class NoSchedule : public Schedule {
 public:
  NoSchedule(std::string what, std::string why) : what_(std::move(what)), why_(std::move(why)) {}
  std::vector<Gene> genes() const override { return {}; }
  std::string lacks() const override { return why_; }
  std::string illegal(const Genome&) const override { return why_; }
  std::vector<Genome> seeds() const override { return {}; }
  Outline outline(const Genome&) const override { return {}; }
  Result<Emitted> emit(const Genome&) const override { return fail("unsupported", what_ + ": " + why_); }

 private:
  std::string what_, why_;
};

/// The launches of an ordinary kernel over scratch, behind those of `whole` and in terms of its tensors: `buffers` says
/// which of them are the kernel's inputs, `outputs` its outputs. They pack nothing before what they read is there.
Status append_launches(const Kernel& kernel, const Device& device, const std::vector<Emitted::Argument>& buffers,
                       const std::vector<Emitted::Argument>& outputs, Emitted& whole);
/// Of outputs of `whole`, by their places.
std::vector<Emitted::Argument> output_arguments(const std::vector<int>& outputs);

}  // namespace planish::codegen
