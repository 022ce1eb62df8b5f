#include <fstream>
#include <iterator>

#include "program.h"

namespace planish::rt {
namespace {

/// The driver reads as many arguments as the binary declares, from wherever: a launch that brings fewer must never
/// happen.
Status check_arguments(const cu::Driver& d, const prt_program& program, const Step& step, cu::Function function,
                       const std::string& where) {
  if (d.func_param == nullptr) return {};
  std::size_t declared = 0, offset = 0, size = 0;
  const std::size_t extra =
      program.document.target->language(program.document.kernels[static_cast<std::size_t>(step.kernel)].language)
          ->own_arguments;
  for (; d.func_param(function, declared, &offset, &size) == cu::success; ++declared) {
    const std::size_t given = declared < step.args.size() ? static_cast<std::size_t>(step.args[declared].size) : 8;
    if (declared < step.args.size() + extra && size != given) {
      return fail("bad_program", where + ": argument " + std::to_string(declared) + " of `" +
                                     program.document.kernels[static_cast<std::size_t>(step.kernel)].entry +
                                     "` takes " + std::to_string(size) + " bytes, the launch gives " +
                                     std::to_string(given));
    }
  }
  if (declared < step.args.size() || declared > step.args.size() + extra) {
    return fail("bad_program", where + ": the kernel declares " + std::to_string(declared) +
                                   " arguments, the launch gives " + std::to_string(step.args.size()));
  }
  return {};
}

/// Blocks that wait for each other must all run at once: said here, so that who ships a program for a larger device
/// learns of it before the first call. Needs the shared memory that was asked for. Where the driver cannot say, the
/// launch will.
Status check_together(const cu::Driver& d, const prt_program& program, const Step& step, cu::Function function,
                      const std::string& where) {
  int held = 0, multiprocessors = 0;
  const auto threads = static_cast<int>(step.block[0] * step.block[1] * step.block[2]);
  if (d.occupancy == nullptr || d.occupancy(&held, function, threads, step.shared) != cu::success ||
      d.device_get_attribute(&multiprocessors, cu::device_sms, program.gpu->device) != cu::success)
    return {};
  const std::uint64_t blocks = std::uint64_t{step.grid[0]} * step.grid[1] * step.grid[2];
  const std::int64_t together = std::int64_t{held} * multiprocessors;
  if (blocks <= static_cast<std::uint64_t>(together)) return {};
  return fail("launch_failed", where + ": " + std::to_string(blocks) +
                                   " blocks wait for each other; this device runs " + std::to_string(together) +
                                   " at once");
}

Status prepare_launches(const cu::Driver& d, const prt_program& program, int index, const LoadedKernel& kernel) {
  std::uint32_t shared = 0, cluster = 1;
  bool cooperative = false;
  for (std::size_t s = 0; s < program.document.steps.size(); ++s) {
    const Step& step = program.document.steps[s];
    if (step.kind != StepKind::launch || step.kernel != index) continue;
    const std::string where = "steps[" + std::to_string(s) + "]";
    PRT_CHECK(check_arguments(d, program, step, kernel.function, where));
    const std::int64_t threads = std::int64_t{step.block[0]} * step.block[1] * step.block[2];
    if (threads > kernel.info.max_threads) {
      return fail("launch_failed", where + ": " + std::to_string(threads) + " threads a block; the kernel's " +
                                       std::to_string(kernel.info.registers) + " registers allow " +
                                       std::to_string(kernel.info.max_threads));
    }
    shared = std::max(shared, step.shared);
    cluster = std::max(cluster, step.cluster[0] * step.cluster[1] * step.cluster[2]);
    cooperative = cooperative || step.cooperative;
  }
  if (shared > 0) {
    const std::string what = "a kernel with " + std::to_string(shared) + " bytes of dynamic and " +
                             std::to_string(kernel.info.shared_bytes) + " of static shared memory";
    PRT_CHECK(cu::check(d.func_set(kernel.function, cu::func_max_dynamic_shared, static_cast<int>(shared)),
                        what.c_str(), "launch_failed"));
  }
  if (cluster > 1 && d.launch_ex == nullptr) return fail("launch_failed", "this driver has no cluster launches");
  if (cooperative && d.launch_ex == nullptr) return fail("launch_failed", "this driver has no cooperative launches");
  if (cluster > 8) {
    PRT_CHECK(cu::check(d.func_set(kernel.function, cu::func_non_portable_cluster, 1),
                        "a cluster of more than 8 blocks", "launch_failed"));
  }
  for (std::size_t s = 0; cooperative && s < program.document.steps.size(); ++s) {
    const Step& step = program.document.steps[s];
    if (step.kind != StepKind::launch || step.kernel != index || !step.cooperative) continue;
    PRT_CHECK(check_together(d, program, step, kernel.function, "steps[" + std::to_string(s) + "]"));
  }
  return {};
}

}  // namespace

Status load_cuda_kernel(const prt_program& program, int index, const std::string& path, LoadedKernel* out) {
  const cu::Driver& d = *program.driver;
  const Kernel& kernel = program.document.kernels[static_cast<std::size_t>(index)];
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail("load_failed", "cannot read kernel binary " + path);
  std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (image.empty()) return fail("load_failed", "kernel binary " + path + " is empty");
  // The driver takes the image's length from its contents: it must at least start like something it knows. PTX ends at
  // the NUL of c_str().
  if (!image.starts_with("\177ELF") && image.find(".version") == std::string::npos) {
    return fail("load_failed", path + " is neither a cubin nor PTX");
  }
  PRT_CHECK(cu::check(d.module_load(&out->module, image.c_str()), ("loading " + path).c_str(), "load_failed"));
  const std::string what = "kernel `" + kernel.entry + "` in " + path;
  PRT_CHECK(
      cu::check(d.module_function(&out->function, out->module, kernel.entry.c_str()), what.c_str(), "load_failed"));
  if (d.func_load != nullptr) PRT_CHECK(cu::check(d.func_load(out->function), what.c_str(), "load_failed"));
  const auto attribute = [&](int id) {
    int value = 0;
    d.func_get(&value, id, out->function);
    return static_cast<std::int64_t>(value);
  };
  out->info = {attribute(cu::func_registers), attribute(cu::func_local_bytes), attribute(cu::func_shared_bytes),
               attribute(cu::func_max_threads)};
  return prepare_launches(d, program, index, *out);
}

}  // namespace planish::rt
