#include "kernel_surface.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codegen/emit/cuda_plan.h"
#include "codegen/templates/genomes.h"
#include "made_up.h"
#include "sample_kernels.h"

namespace planish::bench {
namespace {

using codegen::Genome;

class KernelDomain : public coder::Domain {
 public:
  KernelDomain(codegen::Kernel kernel, codegen::Device device)
      : kernel_(std::move(kernel)), device_(std::move(device)) {}
  std::vector<codegen::Gene> genes() const override { return genomes_.genes(); }
  bool legal(const Genome& g) const override { return genomes_.legal(g); }
  std::vector<Genome> seeds() const override { return genomes_.seeds(); }
  Genome random(std::mt19937_64& rng) const override { return genomes_.random(rng); }
  std::vector<Genome> neighbours(const Genome& g) const override { return genomes_.neighbours(g); }
  Genome mutate(const Genome& g, std::mt19937_64& rng) const override { return genomes_.mutate(g, rng); }
  Result<coder::Candidate> build(const Genome& g) const override {
    coder::Candidate out;
    out.proposal = g;
    out.hash = codegen::text(g);
    out.program = out.hash;
    return out;
  }

 private:
  codegen::Kernel kernel_;
  codegen::Device device_;
  codegen::Genomes genomes_{kernel_, device_};
};

class KernelSurface : public MadeUp {
 public:
  KernelSurface(std::string name, codegen::Kernel kernel, codegen::Device device, std::uint64_t seed)
      : MadeUp(kernel_domain(kernel, device), seed, 0.04, 0.05),
        name_(std::move(name)),
        kernel_(std::move(kernel)),
        device_(std::move(device)) {}
  std::string name() const override { return name_; }

 private:
  double model(const Genome& g) const override {
    const auto plan = codegen::printing::make_plan(kernel_, device_, g);
    const auto gene = [&](const char* name, double otherwise) {
      const auto found = g.find(name);
      return found == g.end() ? otherwise : static_cast<double>(found->second);
    };
    const double threads = plan.threads, sms = device_.sms;
    // The compiler is no exact science: real register counts are off by a quarter, the same way for like genomes.
    const double registers =
        std::max(24.0, plan.registers * (1 + 0.25 * std::sin(7.0 * plan.width + 3.0 * plan.unroll)));
    const double cap = gene("min_blocks", 1) > 1 ? 65536 / (gene("min_blocks", 1) * threads) : 255;
    const double spilled = std::max(0.0, registers - cap);
    const double used = std::min(registers, cap);
    const double shared = static_cast<double>(plan.dynamic_shared + plan.static_shared);
    double held = std::min({32.0, 2048 / threads, 65536 / (std::max(24.0, used) * threads),
                            (static_cast<double>(device_.shared_bytes) + 1024) / (shared + 1024)});
    held = std::max(1.0, std::floor(held));
    const double points = static_cast<double>(kernel_.outer_extent()) * static_cast<double>(kernel_.inner_extent());
    double bytes = 0;
    for (const auto& input : kernel_.inputs)
      bytes += static_cast<double>(input.storage_elements) * codegen_size(input.dtype);
    for (const auto& output : kernel_.outputs) bytes += output.per_row ? 0 : points * codegen_size(output.dtype);
    const double sweeps = std::max(static_cast<double>(plan.sweeps.size()), 1.0);
    const double again = gene("residency", 0) > 0 ? 0.05 * (sweeps - 1) : 0.45 * (sweeps - 1);
    const double blocks = static_cast<double>(plan.grid);
    const double per_sm = std::min(held, std::max(1.0, blocks / sms));
    const double width = static_cast<double>(plan.width) * 4;
    const double depth = gene("residency", 0) == 1 ? std::min<double>(static_cast<double>(plan.trips), 8) : plan.unroll;
    const double flying = per_sm * threads * width * depth;
    double rate = device_.bandwidth_gbs * 1e6 * (1 - std::exp(-flying / 18000.0));
    rate *= std::min(1.0, std::pow(per_sm * threads / 768.0, 0.4));
    if (threads > 512) rate *= 0.95;
    if (plan.cluster > 1) rate *= 0.93;
    if (gene("hints", 0) == 2) rate *= bytes > 50e6 ? 1.03 : 0.96;
    if (gene("persistent_rows", 0) > 0) rate *= per_sm < 2 ? 1.08 : 0.97;
    const double waves = blocks / (sms * held);
    const double tail = waves < 1 ? std::max(0.05, std::min(1.0, blocks / sms)) : waves / std::ceil(waves);
    double ms = bytes * (1 + again) / rate / std::max(0.05, tail);
    ms *= 1 + spilled / 40;
    if (gene("fast", 1) < 1) ms *= 1.04;
    return ms + 0.002 + 0.0006 * std::max(1.0, waves);
  }
  static double codegen_size(DType dtype) { return static_cast<double>(std::max(size_of(dtype), 1)); }
  std::string name_;
  codegen::Kernel kernel_;
  codegen::Device device_;
};

}  // namespace

std::shared_ptr<const coder::Domain> kernel_domain(codegen::Kernel kernel, codegen::Device device) {
  return std::make_shared<KernelDomain>(std::move(kernel), std::move(device));
}

std::vector<SurfaceKernel> surface_kernels() {
  namespace samples = codegen::samples;
  codegen::Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  std::vector<SurfaceKernel> out;
  const auto add = [&](const char* name, samples::Sample sample, std::uint64_t seed) {
    out.push_back({fmt::format("cuda-{}", name), std::move(sample.kernel), device, seed});
  };
  add("softmax-long", samples::softmax(4096, 32768), 201);
  add("layer-norm", samples::layer_norm(65536, 1024), 202);
  add("rms-norm", samples::rms_norm(16384, 4096), 203);
  add("row-stats", samples::row_stats(1024, 262144), 204);
  add("bias-gelu", samples::bias_gelu(16384, 4096), 205);
  return out;
}

void add_kernel_surfaces(std::vector<std::unique_ptr<Surface>>& out) {
  for (SurfaceKernel& one : surface_kernels())
    out.push_back(
        std::make_unique<KernelSurface>(std::move(one.name), std::move(one.kernel), std::move(one.device), one.seed));
}

std::vector<std::unique_ptr<Surface>> synthetic_surfaces() {
  std::vector<std::unique_ptr<Surface>> out;
  add_gemm_surfaces(out);
  add_kernel_surfaces(out);
  return out;
}

}  // namespace planish::bench
