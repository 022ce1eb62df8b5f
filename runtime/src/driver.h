#pragma once

#include <cstddef>
#include <cstdint>

#include "result.h"

/// The part of the CUDA driver API that the runtime uses, declared here so that neither headers nor libraries of CUDA
/// are needed to build. tests/runtime/driver_layout_test.cpp compares layouts and constants with cuda.h where that
/// exists.
namespace planish::rt::cu {

using Code = int;  ///< CUresult
using Device = int;
using DevicePtr = unsigned long long;
using MemHandle = unsigned long long;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Graph = struct GraphTag*;
using GraphNode = struct GraphNodeTag*;
using GraphExec = struct GraphExecTag*;

struct Uuid {
  char bytes[16];
};
struct MemLocation {
  int type, id;
};
struct MemAllocationProp {
  int type;
  int requested_handle_types;
  MemLocation location;
  void* win32_handle_meta_data;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } alloc_flags;
};
struct MemAccessDesc {
  MemLocation location;
  int flags;
};
union LaunchAttributeValue {
  alignas(8) char pad[64];
  unsigned int cluster[3];
  int cooperative;
  int programmatic;
};
struct LaunchAttribute {
  int id;
  char pad[4];
  LaunchAttributeValue value;
};
struct LaunchConfig {
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned int attribute_count;
};

struct KernelNode {
  Function function;
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared_bytes;
  void** params;
  void** extra;
  void* kernel;  ///< used where there is no function
  Context context;
};

/// How a node of a graph waits for another: in full, or until its dependents may begin.
struct GraphEdge {
  unsigned char from_port = 0, to_port = 0, type = 0, reserved[5]{};
};

constexpr Code success = 0, invalid_value = 1, out_of_memory = 2;
constexpr int allocation_pinned = 1, location_device = 1, handle_posix_fd = 1, granularity_minimum = 0;
constexpr int access_read = 1, access_read_write = 3;
constexpr int attribute_cooperative = 2, attribute_cluster = 4, attribute_programmatic = 6, capture_relaxed = 2;
constexpr unsigned char edge_programmatic = 1, port_programmatic = 1;
constexpr int func_max_threads = 0, func_shared_bytes = 1, func_local_bytes = 3, func_registers = 4,
              func_max_dynamic_shared = 8, func_non_portable_cluster = 14;
constexpr int device_sms = 16, device_l2_bytes = 38, device_major = 75, device_minor = 76, device_shared_optin = 97,
              device_posix_fd_supported = 103;
constexpr unsigned int event_default = 0, stream_non_blocking = 1;

/// name, symbol, arguments. The symbols carry the version whose signature is meant.
#define PRT_DRIVER_FUNCTIONS(X)                                                                                   \
  X(init, "cuInit", (unsigned int))                                                                               \
  X(driver_get_version, "cuDriverGetVersion", (int*))                                                             \
  X(get_error_name, "cuGetErrorName", (Code, const char**))                                                       \
  X(get_error_string, "cuGetErrorString", (Code, const char**))                                                   \
  X(device_get_count, "cuDeviceGetCount", (int*))                                                                 \
  X(device_get, "cuDeviceGet", (Device*, int))                                                                    \
  X(device_get_name, "cuDeviceGetName", (char*, int, Device))                                                     \
  X(device_get_uuid, "cuDeviceGetUuid_v2", (Uuid*, Device))                                                       \
  X(device_get_attribute, "cuDeviceGetAttribute", (int*, int, Device))                                            \
  X(device_total_mem, "cuDeviceTotalMem_v2", (std::size_t*, Device))                                              \
  X(primary_ctx_retain, "cuDevicePrimaryCtxRetain", (Context*, Device))                                           \
  X(ctx_get_current, "cuCtxGetCurrent", (Context*))                                                               \
  X(ctx_push, "cuCtxPushCurrent_v2", (Context))                                                                   \
  X(ctx_pop, "cuCtxPopCurrent_v2", (Context*))                                                                    \
  X(ctx_synchronize, "cuCtxSynchronize", ())                                                                      \
  X(mem_granularity, "cuMemGetAllocationGranularity", (std::size_t*, const MemAllocationProp*, int))              \
  X(mem_create, "cuMemCreate", (MemHandle*, std::size_t, const MemAllocationProp*, unsigned long long))           \
  X(mem_release, "cuMemRelease", (MemHandle))                                                                     \
  X(mem_export, "cuMemExportToShareableHandle", (void*, MemHandle, int, unsigned long long))                      \
  X(mem_import, "cuMemImportFromShareableHandle", (MemHandle*, void*, int))                                       \
  X(mem_reserve, "cuMemAddressReserve", (DevicePtr*, std::size_t, std::size_t, DevicePtr, unsigned long long))    \
  X(mem_address_free, "cuMemAddressFree", (DevicePtr, std::size_t))                                               \
  X(mem_map, "cuMemMap", (DevicePtr, std::size_t, std::size_t, MemHandle, unsigned long long))                    \
  X(mem_unmap, "cuMemUnmap", (DevicePtr, std::size_t))                                                            \
  X(mem_set_access, "cuMemSetAccess", (DevicePtr, std::size_t, const MemAccessDesc*, std::size_t))                \
  X(mem_alloc, "cuMemAlloc_v2", (DevicePtr*, std::size_t))                                                        \
  X(mem_free, "cuMemFree_v2", (DevicePtr))                                                                        \
  X(memcpy_async, "cuMemcpyAsync", (DevicePtr, DevicePtr, std::size_t, Stream))                                   \
  X(memcpy_to_host, "cuMemcpyDtoH_v2", (void*, DevicePtr, std::size_t))                                           \
  X(memset_8, "cuMemsetD8Async", (DevicePtr, unsigned char, std::size_t, Stream))                                 \
  X(memset_16, "cuMemsetD16Async", (DevicePtr, unsigned short, std::size_t, Stream))                              \
  X(memset_32, "cuMemsetD32Async", (DevicePtr, unsigned int, std::size_t, Stream))                                \
  X(memset_2d_32, "cuMemsetD2D32Async", (DevicePtr, std::size_t, unsigned int, std::size_t, std::size_t, Stream)) \
  X(module_load, "cuModuleLoadData", (Module*, const void*))                                                      \
  X(module_unload, "cuModuleUnload", (Module))                                                                    \
  X(module_function, "cuModuleGetFunction", (Function*, Module, const char*))                                     \
  X(func_get, "cuFuncGetAttribute", (int*, int, Function))                                                        \
  X(func_set, "cuFuncSetAttribute", (Function, int, int))                                                         \
  X(launch, "cuLaunchKernel",                                                                                     \
    (Function, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,  \
     Stream, void**, void**))                                                                                     \
  X(stream_create, "cuStreamCreate", (Stream*, unsigned int))                                                     \
  X(stream_destroy, "cuStreamDestroy_v2", (Stream))                                                               \
  X(stream_synchronize, "cuStreamSynchronize", (Stream))                                                          \
  X(event_create, "cuEventCreate", (Event*, unsigned int))                                                        \
  X(event_destroy, "cuEventDestroy_v2", (Event))                                                                  \
  X(event_record, "cuEventRecord", (Event, Stream))                                                               \
  X(event_synchronize, "cuEventSynchronize", (Event))                                                             \
  X(event_elapsed, "cuEventElapsedTime", (float*, Event, Event))

/// Absent from older drivers; null then, and the runtime does without.
#define PRT_DRIVER_OPTIONAL(X)                                                                           \
  X(launch_ex, "cuLaunchKernelEx", (const LaunchConfig*, Function, void**, void**))                      \
  X(func_load, "cuFuncLoad", (Function))                                                                 \
  X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int*, Function, int, std::size_t))        \
  X(func_param, "cuFuncGetParamInfo", (Function, std::size_t, std::size_t*, std::size_t*))               \
  X(stream_id, "cuStreamGetId", (Stream, unsigned long long*))                                           \
  X(stream_capturing, "cuStreamIsCapturing", (Stream, int*))                                             \
  X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int*))                                           \
  X(graph_create, "cuGraphCreate", (Graph*, unsigned int))                                               \
  X(graph_destroy, "cuGraphDestroy", (Graph))                                                            \
  X(graph_add_kernel, "cuGraphAddKernelNode_v2",                                                         \
    (GraphNode*, Graph, const GraphNode*, std::size_t, const KernelNode*))                               \
  X(graph_add_edges, "cuGraphAddDependencies_v2",                                                        \
    (Graph, const GraphNode*, const GraphNode*, const GraphEdge*, std::size_t))                          \
  X(graph_set_attribute, "cuGraphKernelNodeSetAttribute", (GraphNode, int, const LaunchAttributeValue*)) \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (GraphExec*, Graph, unsigned long long))           \
  X(graph_patch, "cuGraphExecKernelNodeSetParams_v2", (GraphExec, GraphNode, const KernelNode*))         \
  X(graph_launch, "cuGraphLaunch", (GraphExec, Stream))                                                  \
  X(graph_exec_destroy, "cuGraphExecDestroy", (GraphExec))

struct Driver {
#define PRT_DECLARE(name, symbol, args) Code(*name) args = nullptr;
  PRT_DRIVER_FUNCTIONS(PRT_DECLARE)
  PRT_DRIVER_OPTIONAL(PRT_DECLARE)
#undef PRT_DECLARE
};

/// The loaded and initialised driver: loaded once, never unloaded. Kind `no_device` when there is none. Any thread may
/// call.
Result<const Driver*> driver();

/// Success, or a Failure whose kind follows from the code (`otherwise` for codes that say nothing of their own), with
/// the driver's name for it.
Status check(Code code, const char* what, const char* otherwise);

/// A CUDA ordinal with its primary context, which is retained for the life of the process (as torch does).
struct Gpu {
  int ordinal = -1;
  Device device = 0;
  Context context = nullptr;
  std::size_t granularity = 0;  ///< of shareable allocations, bytes
};
Result<const Gpu*> gpu(int ordinal);

/// Makes a context current for a scope and puts back what the calling thread had.
class Current {
 public:
  explicit Current(const Driver& driver, const Gpu& gpu);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  Status status() const;

 private:
  const Driver& driver_;
  bool pushed_ = false;
  Code code_ = success;
};

MemAllocationProp shareable_memory(Device device);

}  // namespace planish::rt::cu
