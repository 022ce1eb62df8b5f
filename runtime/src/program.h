#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "copies.h"
#include "document.h"
#include "driver.h"
#include "replay.h"
#include "result.h"
#include "runs.h"
#include "threads.h"
#include "workspace.h"

namespace planish::rt {

using CpuEntry = void (*)(void** args);

struct LoadedKernel {
  void* library = nullptr;  ///< dlopen handle of a cpp kernel
  CpuEntry entry = nullptr;
  cu::Module module = nullptr;
  cu::Function function = nullptr;
  prt_kernel_info info{};
};

/// One block of memory for all temps of a program on one stream.
struct Workspace {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
};

}  // namespace planish::rt

/// Immutable after loading but for the workspaces and the replay, which have their own locks: any number of threads may
/// run it.
struct prt_program {
  int device = -1;
  planish::rt::Document document;
  planish::rt::Layout layout;
  std::vector<planish::rt::LoadedKernel> kernels;
  planish::rt::OpenMp openmp;                          ///< of the CPU's kernels
  std::vector<planish::rt::Runs> runs;                 ///< by step; only copy and set have any
  std::vector<planish::rt::JointCopies> joint_copies;  ///< CUDA alone; empty where there is no kernel for them
  planish::rt::cu::Function copy_kernel = nullptr;
  const planish::rt::cu::Driver* driver = nullptr;
  const planish::rt::cu::Gpu* gpu = nullptr;
  std::mutex mutex;
  std::map<std::uint64_t, planish::rt::Workspace> workspaces;  ///< by stream (CUDA) or thread (CPU)
  std::unique_ptr<planish::rt::Replay> replay;                 ///< null: launches alone
};

namespace planish::rt {

/// Most separate memory operations that one copy or set may become on a GPU.
constexpr std::int64_t max_cuda_runs = 4096;

Status load_cpu_kernel(const Kernel& kernel, const std::string& path, LoadedKernel* out);
/// `loaded` outlives a failure: the caller frees it. Also sets the attributes that the launches of this kernel need.
Status load_cuda_kernel(const prt_program& program, int index, const std::string& path, LoadedKernel* out);
void unload(prt_program* program);

/// Base address of the workspace for this stream or thread, allocated when a caller first leaves out a temp; 0 when
/// none is left out.
Result<std::uint64_t> workspace(prt_program* program, void* const* pointers, cu::Stream stream);

/// Steps [first, last). The CUDA side expects the context to be current. Pointers are checked for null as they are
/// used.
Status run_cpu(prt_program* program, void* const* pointers, int first, int last);
Status run_cuda(prt_program* program, void* const* pointers, int first, int last, cu::Stream stream);

/// The address of buffer b: the caller's, or the workspace's for a temp the caller left out. 0 only for empty buffers.
Result<std::uint64_t> address(const prt_program& program, void* const* pointers, std::uint64_t workspace, int b);

struct TimingRequest {
  void* const* const* pointers = nullptr;
  int sets = 0;
  std::int64_t min_runs = 0, max_runs = 0;
  double max_seconds = 0, interval = 0;
  std::int64_t flush_bytes = 0;
};
Status time_program(prt_program* program, const TimingRequest& request, double* samples_ms, prt_timing* out);

}  // namespace planish::rt
