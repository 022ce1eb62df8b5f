// Compares the runtime's own declarations with CUDA's header, where there is one.
#include "driver.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

#include <array>
#include <cstddef>

namespace {

namespace cu = planish::rt::cu;

#define SAME_SIZE(ours, theirs) \
  static_assert(sizeof(cu::ours) == sizeof(theirs) && alignof(cu::ours) == alignof(theirs))
#define SAME_FIELD(ours, a, theirs, b) static_assert(offsetof(cu::ours, a) == offsetof(theirs, b))

SAME_SIZE(MemLocation, CUmemLocation);
SAME_SIZE(MemAllocationProp, CUmemAllocationProp);
SAME_SIZE(MemAccessDesc, CUmemAccessDesc);
SAME_SIZE(LaunchAttribute, CUlaunchAttribute);
SAME_SIZE(LaunchConfig, CUlaunchConfig);
SAME_SIZE(LaunchAttributeValue, CUlaunchAttributeValue);
SAME_SIZE(KernelNode, CUDA_KERNEL_NODE_PARAMS_v2);
SAME_SIZE(Uuid, CUuuid);
SAME_SIZE(DevicePtr, CUdeviceptr);
SAME_SIZE(MemHandle, CUmemGenericAllocationHandle);
SAME_FIELD(MemAllocationProp, requested_handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_FIELD(MemAllocationProp, location, CUmemAllocationProp, location);
SAME_FIELD(MemAllocationProp, win32_handle_meta_data, CUmemAllocationProp, win32HandleMetaData);
SAME_FIELD(MemAllocationProp, alloc_flags, CUmemAllocationProp, allocFlags);
SAME_FIELD(MemAccessDesc, flags, CUmemAccessDesc, flags);
SAME_FIELD(LaunchAttribute, value, CUlaunchAttribute, value);
SAME_FIELD(LaunchConfig, block, CUlaunchConfig, blockDimX);
SAME_FIELD(LaunchConfig, shared_bytes, CUlaunchConfig, sharedMemBytes);
SAME_FIELD(LaunchConfig, stream, CUlaunchConfig, hStream);
SAME_FIELD(LaunchConfig, attributes, CUlaunchConfig, attrs);
SAME_FIELD(LaunchConfig, attribute_count, CUlaunchConfig, numAttrs);
SAME_FIELD(KernelNode, grid, CUDA_KERNEL_NODE_PARAMS_v2, gridDimX);
SAME_FIELD(KernelNode, block, CUDA_KERNEL_NODE_PARAMS_v2, blockDimX);
SAME_FIELD(KernelNode, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes);
SAME_FIELD(KernelNode, params, CUDA_KERNEL_NODE_PARAMS_v2, kernelParams);
SAME_FIELD(KernelNode, kernel, CUDA_KERNEL_NODE_PARAMS_v2, kern);
SAME_FIELD(KernelNode, context, CUDA_KERNEL_NODE_PARAMS_v2, ctx);
static_assert(cu::capture_relaxed == CU_STREAM_CAPTURE_MODE_RELAXED && CU_STREAM_CAPTURE_STATUS_NONE == 0);
static_assert(cu::allocation_pinned == CU_MEM_ALLOCATION_TYPE_PINNED &&
              cu::location_device == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(cu::handle_posix_fd == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
              cu::granularity_minimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
static_assert(cu::access_read == CU_MEM_ACCESS_FLAGS_PROT_READ &&
              cu::access_read_write == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(cu::attribute_cluster == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(cu::attribute_cooperative == CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
static_assert(cu::attribute_programmatic == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(sizeof(cu::GraphEdge) == sizeof(CUgraphEdgeData) &&
              cu::edge_programmatic == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
              cu::port_programmatic == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
static_assert(cu::func_max_threads == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK &&
              cu::func_shared_bytes == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
static_assert(cu::func_local_bytes == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES &&
              cu::func_registers == CU_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(cu::func_max_dynamic_shared == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(cu::func_non_portable_cluster == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
static_assert(cu::device_sms == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              cu::device_l2_bytes == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
static_assert(cu::device_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              cu::device_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(cu::device_shared_optin == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(cu::device_posix_fd_supported == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(cu::stream_non_blocking == CU_STREAM_NON_BLOCKING && cu::success == CUDA_SUCCESS &&
              cu::out_of_memory == CUDA_ERROR_OUT_OF_MEMORY);

/// Signatures agree when each parameter has the size of the header's: enough for the calling convention, as no floats
/// are passed.
template <typename... A>
constexpr auto sizes(int (*)(A...)) {
  return std::array<std::size_t, sizeof...(A) + 1>{sizeof(A)..., 0};
}
template <typename... A>
constexpr auto sizes(CUresult (*)(A...)) {
  return std::array<std::size_t, sizeof...(A) + 1>{sizeof(A)..., 0};
}
#define SAME_CALL(name, theirs) \
  static_assert(sizes(decltype(cu::Driver::name)(nullptr)) == sizes(decltype (&theirs)(nullptr)))
SAME_CALL(mem_create, cuMemCreate);
SAME_CALL(mem_export, cuMemExportToShareableHandle);
SAME_CALL(mem_import, cuMemImportFromShareableHandle);
SAME_CALL(mem_reserve, cuMemAddressReserve);
SAME_CALL(mem_address_free, cuMemAddressFree);
SAME_CALL(mem_map, cuMemMap);
SAME_CALL(mem_set_access, cuMemSetAccess);
SAME_CALL(mem_granularity, cuMemGetAllocationGranularity);
SAME_CALL(launch, cuLaunchKernel);
SAME_CALL(launch_ex, cuLaunchKernelEx);
SAME_CALL(func_param, cuFuncGetParamInfo);
SAME_CALL(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor);
SAME_CALL(func_get, cuFuncGetAttribute);
SAME_CALL(func_set, cuFuncSetAttribute);
SAME_CALL(memset_2d_32, cuMemsetD2D32Async);
SAME_CALL(memset_16, cuMemsetD16Async);
SAME_CALL(memcpy_async, cuMemcpyAsync);
SAME_CALL(memcpy_to_host, cuMemcpyDtoH);
SAME_CALL(event_elapsed, cuEventElapsedTime);
SAME_CALL(stream_id, cuStreamGetId);
SAME_CALL(stream_capturing, cuStreamIsCapturing);
SAME_CALL(capture_mode, cuThreadExchangeStreamCaptureMode);
SAME_CALL(graph_create, cuGraphCreate);
SAME_CALL(graph_add_kernel, cuGraphAddKernelNode);
SAME_CALL(graph_set_attribute, cuGraphKernelNodeSetAttribute);
SAME_CALL(graph_instantiate, cuGraphInstantiateWithFlags);
SAME_CALL(graph_patch, cuGraphExecKernelNodeSetParams);
SAME_CALL(graph_launch, cuGraphLaunch);
SAME_CALL(module_load, cuModuleLoadData);
SAME_CALL(module_function, cuModuleGetFunction);

}  // namespace
#endif
