#include <fmt/format.h>

#include <utility>

#include "codegen/emit/float8.h"
#include "codegen/templates/emission.h"
#include "codegen/templates/languages.h"

namespace planish::codegen {
namespace {

class CudaEmission : public Emission {
 public:
  std::unique_ptr<const Schedule> schedule(const Template& kind, const Kernel& kernel,
                                           const Device& device) const override {
    auto cuda = kind.cuda(kernel, device);
    // Triton's conversions stay at the largest number, torch's do not.
    return device.triton && !printing::has_float8(kernel) ? in_both_languages(kind, kernel, device, std::move(cuda))
                                                          : std::move(cuda);
  }
  std::string zeroing(const std::vector<std::int64_t>& words) const override {
    std::string parameters, chosen;
    for (std::size_t i = 0; i < words.size(); ++i) {
      parameters += fmt::format("{}unsigned* __restrict__ a{}", i == 0 ? "" : ", ", i);
      chosen += fmt::format("  {0}if (blockIdx.x == {1}) {{ to = a{1}; count = {2}; }}\n", i == 0 ? "" : "else ", i,
                            words[i]);
    }
    return fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({0}) planish_kernel({1}) {{\n  unsigned* to = a0;\n"
        "  int count = 0;\n{2}  for (int i = threadIdx.x; i < count; i += {0}) to[i] = 0u;\n}}\n",
        zeroing_threads, parameters, chosen);
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
class NothingToEmit : public Schedule {
 public:
  explicit NothingToEmit(const Device& device) : device_(device) {}
  std::vector<Gene> genes() const override { return {}; }
  std::string lacks() const override { return fmt::format("no code is generated for {}", device_.target->title); }
  std::string illegal(const Genome&) const override { return {}; }
  std::vector<Genome> seeds() const override { return {}; }
  Outline outline(const Genome&) const override { return {}; }
  Result<Emitted> emit(const Genome&) const override { return fail("unsupported", lacks()); }

 private:
  const Device& device_;
};

class NoEmission : public Emission {
 public:
  std::unique_ptr<const Schedule> schedule(const Template&, const Kernel&, const Device& device) const override {
    return std::make_unique<NothingToEmit>(device);
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
