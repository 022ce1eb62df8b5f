#include "evaluate/device.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "backend/architecture.h"

namespace planish {
namespace {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0)
    return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return std::max(1, CPU_COUNT(&set));
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

/// Bytes read plus written a second by a copy on all cores. The best of a few passes: other load only ever slows it.
double measure_copy_gbs(int cores) {
  constexpr std::size_t bytes = 32U << 20U;  // a core; beyond any cache slice
  struct Pair {
    std::unique_ptr<char[]> from, to;
  };
  std::vector<Pair> pairs(static_cast<std::size_t>(cores));
  const auto everywhere = [&](auto&& work) {
    std::vector<std::thread> threads;
    for (Pair& pair : pairs) threads.emplace_back([&pair, &work] { work(pair); });
    for (std::thread& thread : threads) thread.join();
  };
  const auto begin = std::chrono::steady_clock::now();
  everywhere([](Pair& pair) {
    pair.from = std::make_unique_for_overwrite<char[]>(bytes);
    pair.to = std::make_unique_for_overwrite<char[]>(bytes);
    std::memset(pair.from.get(), 1, bytes);  // pages exist before the clock starts
    std::memset(pair.to.get(), 2, bytes);
  });
  double best = 0;
  for (int pass = 0; pass < 5; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    everywhere([](Pair& pair) { std::memcpy(pair.to.get(), pair.from.get(), bytes); });
    const auto end = std::chrono::steady_clock::now();
    best = std::max(
        best, 2.0 * static_cast<double>(bytes) * cores / std::chrono::duration<double>(end - start).count() / 1e9);
    if (std::chrono::duration<double>(end - begin).count() > 0.25) break;
  }
  return best;
}

double cpu_bandwidth(int cores) {
  static const double measured = measure_copy_gbs(std::min(cores, 32));
  return measured;
}

/// Streaming copies measured on GPUs of this name; nominal bandwidths are not reached.
double measured_gpu_bandwidth(const std::string& name) {
  if (name.find("H200") != std::string::npos) return 4300;
  return 0;
}

class Gpus : public DeviceProbe {
 public:
  // WSL has no /dev/nvidia*, only dxg.
  bool present() const override { return ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/dev/dxg", F_OK) == 0; }
  const char* missing() const override { return "no GPU that can be used was found"; }
  std::string devices() const override {
    if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr) return visible;
    std::string out;
    for (const std::string& uuid : Nvml().uuids()) out += (out.empty() ? "" : ",") + uuid;
    return out;
  }
  void describe(const worker::HelloReply& hello, const Nvml& nvml, DeviceFacts& facts) const override {
    facts.arch = hello.arch;
    facts.uuid = hello.uuid;
    facts.sms = hello.sms;
    facts.shared_bytes = hello.shared_bytes;
    facts.bandwidth_gbs = measured_gpu_bandwidth(facts.name);
    // What a copy reaches of the nominal figure on the GPUs measured so far is 0.9.
    if (facts.bandwidth_gbs <= 0) facts.bandwidth_gbs = 0.9 * nvml.nominal_bandwidth_gbs(facts.uuid);
    if (facts.bandwidth_gbs <= 0) facts.bandwidth_gbs = 1000;
    int mhz = nvml.max_sm_mhz(facts.uuid);
    if (mhz <= 0) mhz = 1800;
    const backend::Architecture& arch = backend::architecture(facts.arch);
    facts.peak_gflops = static_cast<double>(facts.sms) * arch.fp32 * mhz / 1000;
    facts.tensor_gflops = static_cast<double>(facts.sms) * arch.tensor16 * mhz / 1000;
  }
};

class Processor : public DeviceProbe {
 public:
  bool present() const override { return true; }
  const char* missing() const override { return "the processor cannot be used"; }
  void describe(const worker::HelloReply&, const Nvml&, DeviceFacts& facts) const override {
    facts.name = cpu_name();
    facts.arch = cpu_arch();
    facts.uuid = "cpu";
    if (facts.l2_bytes <= 0) facts.l2_bytes = 32 << 20;
    facts.bandwidth_gbs = cpu_bandwidth(facts.cores);
    // Two fused multiply–adds a cycle over the vector width at 3 GHz: an upper bound, which is all a roofline needs.
    const double lanes = facts.arch == "x86-64-v4" ? 16 : facts.arch == "x86-64-v3" ? 8 : 4;
    facts.peak_gflops = facts.cores * lanes * 4 * 3.0;
  }
};

}  // namespace

const DeviceProbe* probe_of(const backend::Backend& target) {
  [[maybe_unused]] static const bool built_in = [] {
    backend::cuda().parts.give<DeviceProbe>(std::make_shared<const Gpus>());
    backend::cpu().parts.give<DeviceProbe>(std::make_shared<const Processor>());
    return true;
  }();
  return target.parts.get<DeviceProbe>();
}

std::string cpu_arch() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4") != 0) return "x86-64-v4";
  if (__builtin_cpu_supports("x86-64-v3") != 0) return "x86-64-v3";
  if (__builtin_cpu_supports("x86-64-v2") != 0) return "x86-64-v2";
  return "x86-64";
#else
  return "armv8-a";
#endif
}

DeviceFacts device_facts(const std::string& target, const worker::HelloReply& hello, const Nvml& nvml) {
  DeviceFacts facts;
  facts.target = target;
  facts.name = hello.device_name;
  facts.memory_bytes = hello.memory_bytes;
  facts.l2_bytes = hello.l2_bytes;
  facts.cores = usable_cores();
  if (const DeviceProbe* probe = probe_of(backend::named(target)); probe != nullptr)
    probe->describe(hello, nvml, facts);
  return facts;
}

Roofline roofline_of(const DeviceFacts& device, double bytes, double flops, double median_ms) {
  Roofline roofline;
  roofline.bytes = bytes;
  roofline.flops = flops;
  const double memory_ms = device.bandwidth_gbs > 0 ? bytes / (device.bandwidth_gbs * 1e6) : 0;
  const double compute_ms = device.peak_gflops > 0 ? flops / (device.peak_gflops * 1e6) : 0;
  roofline.bound = memory_ms >= compute_ms ? "memory" : "compute";
  roofline.bound_ms = std::max(memory_ms, compute_ms);
  roofline.fraction = median_ms > 0 ? roofline.bound_ms / median_ms : 0;
  return roofline;
}

}  // namespace planish
