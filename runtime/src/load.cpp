#include <dlfcn.h>
#include <sys/mman.h>

#include <memory>

#include "program.h"

namespace planish::rt {
namespace {

Status plan_runs(prt_program* program) {
  const Document& document = program->document;
  program->runs.resize(document.steps.size());
  for (std::size_t s = 0; s < document.steps.size(); ++s) {
    const Step& step = document.steps[s];
    if (step.kind != StepKind::copy && step.kind != StepKind::set) continue;
    const int from = step.kind == StepKind::copy ? step.from : step.to;
    program->runs[s] = dense_runs(document.buffers[static_cast<std::size_t>(from)],
                                  document.buffers[static_cast<std::size_t>(step.to)]);
    if (program->device >= 0 && program->runs[s].count > max_cuda_runs) {
      return fail("bad_program", "steps[" + std::to_string(s) + "]: the layouts make it " +
                                     std::to_string(program->runs[s].count) + " separate memory operations; at most " +
                                     std::to_string(max_cuda_runs) + " are allowed, write a kernel");
    }
  }
  return {};
}

/// Where the driver does not take the kernel, copies stay copies.
Status plan_joint_copies(prt_program* program) {
  auto found = find_joint_copies(program->document, program->runs);
  if (found.empty()) return {};
  const cu::Current current(*program->driver, *program->gpu);
  PRT_CHECK(current.status());
  program->copy_kernel = copy_kernel(*program->driver, *program->gpu);
  if (program->copy_kernel != nullptr) program->joint_copies = std::move(found);
  return {};
}

Status load(int device, std::string_view json, const char* const* binaries, int n_binaries, prt_program* out) {
  PRT_TRY(out->document, parse_document(json));
  const int n = static_cast<int>(out->document.kernels.size());
  if (out->document.target != &target_of(device)) {
    return fail("bad_argument",
                "the program's target is " + std::string(out->document.target->name) + ", the device is not");
  }
  if (n_binaries != n) {
    return fail("bad_argument", "the program has " + std::to_string(n) + " kernels, " + std::to_string(n_binaries) +
                                    " binaries were given");
  }
  out->device = device < 0 ? -1 : device;
  out->layout = plan_workspace(out->document);
  PRT_CHECK(plan_runs(out));
  if (device >= 0) {
    PRT_TRY(out->driver, cu::driver());
    PRT_TRY(out->gpu, cu::gpu(device));
    PRT_CHECK(plan_joint_copies(out));
  }
  out->kernels.resize(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    const auto k = static_cast<std::size_t>(i);
    if (binaries[i] == nullptr) return fail("bad_argument", "binaries[" + std::to_string(i) + "] is null");
    if (device < 0) {
      PRT_CHECK(load_cpu_kernel(out->document.kernels[k], binaries[i], &out->kernels[k]));
    } else {
      const cu::Current current(*out->driver, *out->gpu);
      PRT_CHECK(current.status());
      PRT_CHECK(load_cuda_kernel(*out, i, binaries[i], &out->kernels[k]));
    }
  }
  for (const LoadedKernel& kernel : out->kernels) {
    if (device < 0 && out->openmp.most == nullptr) out->openmp = find_openmp(kernel.library);
  }
  out->replay = Replay::make(*out);
  return {};
}

Status check_run(const prt_program* program, void* const* pointers, int n_pointers, int first, int last) {
  if (program == nullptr || (pointers == nullptr && n_pointers > 0))
    return fail("bad_argument", "a null pointer was given");
  const int n_buffers = static_cast<int>(program->document.buffers.size());
  const int n_steps = static_cast<int>(program->document.steps.size());
  if (n_pointers != n_buffers) {
    return fail("bad_argument", "the program has " + std::to_string(n_buffers) + " buffers, " +
                                    std::to_string(n_pointers) + " pointers were given");
  }
  if (first < 0 || last < first || last > n_steps) {
    return fail("bad_argument",
                "steps [" + std::to_string(first) + ", " + std::to_string(last) + ") of " + std::to_string(n_steps));
  }
  for (int s = first; s < last; ++s) {
    if (program->document.steps[static_cast<std::size_t>(s)].kind == StepKind::aten) {
      return fail("bad_argument", "steps[" + std::to_string(s) + "] is an aten step, which this runtime does not run");
    }
  }
  return {};
}

}  // namespace

void unload(prt_program* program) {
  if (program->device < 0) {
    for (const auto& [key, space] : program->workspaces) munmap(reinterpret_cast<void*>(space.base), space.bytes);
    for (const LoadedKernel& kernel : program->kernels) {
      if (kernel.library != nullptr) dlclose(kernel.library);
    }
    return;
  }
  if (program->gpu == nullptr) return;
  const cu::Current current(*program->driver, *program->gpu);
  if (!program->workspaces.empty() || program->replay != nullptr) program->driver->ctx_synchronize();
  program->replay.reset();
  for (const auto& [key, space] : program->workspaces) program->driver->mem_free(space.base);
  for (const LoadedKernel& kernel : program->kernels) {
    if (kernel.module != nullptr) program->driver->module_unload(kernel.module);
  }
}

}  // namespace planish::rt

using planish::rt::boundary;
using planish::rt::fail;
using planish::rt::Status;

extern "C" {

int prt_program_load(int device, const char* json, size_t json_bytes, const char* const* binaries, int n_binaries,
                     prt_program** out, prt_error* error) {
  return boundary(error, [&]() -> Status {
    if (json == nullptr || out == nullptr || (binaries == nullptr && n_binaries > 0))
      return fail("bad_argument", "a null pointer was given");
    *out = nullptr;
    std::unique_ptr<prt_program, void (*)(prt_program*)> program(new prt_program, prt_program_free);
    PRT_CHECK(planish::rt::load(device, std::string_view(json, json_bytes), binaries, n_binaries, program.get()));
    *out = program.release();
    return {};
  });
}

int prt_program_kernel_info(const prt_program* program, int kernel, prt_kernel_info* out, prt_error* error) {
  return boundary(error, [&]() -> Status {
    if (program == nullptr || out == nullptr || kernel < 0 || kernel >= static_cast<int>(program->kernels.size())) {
      return fail("bad_argument", "there is no kernel " + std::to_string(kernel));
    }
    *out = program->kernels[static_cast<std::size_t>(kernel)].info;
    return {};
  });
}

int prt_program_run(prt_program* program, void* const* pointers, int n_pointers, int first, int last, void* stream,
                    prt_error* error) {
  return boundary(error, [&]() -> Status {
    PRT_CHECK(planish::rt::check_run(program, pointers, n_pointers, first, last));
    if (program->device < 0) return planish::rt::run_cpu(program, pointers, first, last);
    const planish::rt::cu::Current current(*program->driver, *program->gpu);
    PRT_CHECK(current.status());
    const auto cuda_stream = static_cast<planish::rt::cu::Stream>(stream);
    const bool whole = first == 0 && last == static_cast<int>(program->document.steps.size());
    if (whole && program->replay != nullptr) return program->replay->run(program, pointers, cuda_stream);
    return planish::rt::run_cuda(program, pointers, first, last, cuda_stream);
  });
}

int prt_threads(int most) {
  return planish::rt::limit_threads(most);
}

int prt_program_replay(const prt_program* program, prt_replay* out, prt_error* error) {
  return boundary(error, [&]() -> Status {
    if (program == nullptr || out == nullptr) return fail("bad_argument", "a null pointer was given");
    *out = {};
    if (program->replay == nullptr) return {};
    const planish::rt::Replay::Report report = program->replay->report();
    out->way = report.way == planish::rt::Replay::Way::graph       ? PRT_GRAPH
               : report.way == planish::rt::Replay::Way::measuring ? PRT_MEASURING
                                                                   : PRT_LAUNCHES;
    out->launches_us = report.launches_us;
    out->graph_us = report.graph_us;
    std::snprintf(out->reason, sizeof out->reason, "%s", report.reason.c_str());
    return {};
  });
}

int prt_program_time(prt_program* program, void* const* const* pointers, int sets, int n_pointers, int64_t min_runs,
                     int64_t max_runs, double max_seconds, double interval, int64_t flush_bytes, double* samples_ms,
                     prt_timing* out, prt_error* error) {
  return boundary(error, [&]() -> Status {
    if (pointers == nullptr || samples_ms == nullptr || out == nullptr || program == nullptr)
      return fail("bad_argument", "a null pointer was given");
    if (sets < 1 || min_runs < 1 || max_runs < min_runs || !(max_seconds > 0) || !(interval >= 0) || flush_bytes < 0) {
      return fail(
          "bad_argument",
          "timing needs sets >= 1, 1 <= min_runs <= max_runs, max_seconds > 0, interval >= 0, flush_bytes >= 0");
    }
    const int last = static_cast<int>(program->document.steps.size());
    for (int i = 0; i < sets; ++i) PRT_CHECK(planish::rt::check_run(program, pointers[i], n_pointers, 0, last));
    return planish::rt::time_program(program, {pointers, sets, min_runs, max_runs, max_seconds, interval, flush_bytes},
                                     samples_ms, out);
  });
}

void prt_program_free(prt_program* program) {
  if (program == nullptr) return;
  planish::rt::unload(program);
  delete program;
}

}  // extern "C"
