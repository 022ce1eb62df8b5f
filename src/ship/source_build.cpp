#include "ship/source_build.h"

#include <fmt/core.h>

#include <memory>

namespace planish::ship {
namespace {

class WithNvcc : public SourceBuild {
 public:
  std::string compiler() const override { return "NVCC"; }
  std::string tools(const std::string& arch) const override {
    return fmt::format("NVCC ?= nvcc\nNVCCFLAGS := -cubin -arch={} -std=c++17\n", arch);
  }
  std::string kernel_class() const override { return "CudaKernel"; }
  std::string devices() const override { return "NVIDIA GPUs"; }
  std::string needs() const override { return " (with nvcc)"; }
};

class WithCxx : public SourceBuild {
 public:
  std::string compiler() const override { return "CXX"; }
  std::string tools(const std::string& arch) const override {
    return fmt::format(
        "CXX ?= g++\nCXXFLAGS := -O3 -march={} -std=c++17 -fopenmp -fno-math-errno -fno-trapping-math -fPIC -shared\n",
        arch);
  }
  std::string kernel_class() const override { return "CpuKernel"; }
  std::string devices() const override { return "the CPU"; }
  std::string memory() const override {
    return ": results come from fresh memory each time, page fault by page fault, as eager's do";
  }
};

}  // namespace

const backend::Language& language_of(const Json& kernel) {
  static const backend::Language unknown;
  const backend::Language* found = backend::find_language(kernel["language"].get<std::string>());
  return found == nullptr ? unknown : *found;
}

Result<const SourceBuild*> source_build(const backend::Backend& target) {
  [[maybe_unused]] static const bool built_in = [] {
    backend::cuda().parts.give<SourceBuild>(std::make_shared<const WithNvcc>());
    backend::cpu().parts.give<SourceBuild>(std::make_shared<const WithCxx>());
    return true;
  }();
  const SourceBuild* found = target.parts.get<SourceBuild>();
  if (found == nullptr)
    return fail("unsupported", fmt::format("programs for {} have no form as source", target.title),
                "use --form folder");
  return found;
}

}  // namespace planish::ship
