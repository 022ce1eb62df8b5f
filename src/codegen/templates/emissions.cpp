#include <fmt/format.h>

#include <utility>

#include "codegen/templates/emission.h"
#include "codegen/templates/languages.h"

namespace planish::codegen {
namespace {

class CudaEmission : public Emission {
 public:
  std::unique_ptr<const Schedule> schedule(const Template& kind, const Kernel& kernel,
                                           const Device& device) const override {
    auto cuda = kind.cuda(kernel, device);
    return device.triton ? in_both_languages(kind, kernel, device, std::move(cuda)) : std::move(cuda);
  }
};

class CppEmission : public Emission {
 public:
  std::unique_ptr<const Schedule> schedule(const Template& kind, const Kernel& kernel,
                                           const Device& device) const override {
    return kind.cpp(kernel, device);
  }
};

/// Of a target without code: a kernel has no genome there, and emission says why.
class NoSchedule : public Schedule {
 public:
  explicit NoSchedule(const Device& device) : device_(device) {}
  std::vector<Gene> genes() const override { return {}; }
  std::string illegal(const Genome&) const override { return {}; }
  std::vector<Genome> seeds() const override { return {}; }
  Outline outline(const Genome&) const override { return {}; }
  Result<Emitted> emit(const Genome&) const override {
    return fail("unsupported", fmt::format("no code is generated for {}", device_.target->title));
  }

 private:
  const Device& device_;
};

class NoEmission : public Emission {
 public:
  std::unique_ptr<const Schedule> schedule(const Template&, const Kernel&, const Device& device) const override {
    return std::make_unique<NoSchedule>(device);
  }
};

}  // namespace

const Emission& emission_of(const Device& device) {
  [[maybe_unused]] static const bool built_in = [] {
    backend::cuda().parts.give<Emission>(std::make_shared<const CudaEmission>());
    backend::cpu().parts.give<Emission>(std::make_shared<const CppEmission>());
    return true;
  }();
  static const NoEmission none;
  const Emission* found = device.target->parts.get<Emission>();
  return found == nullptr ? none : *found;
}

}  // namespace planish::codegen
