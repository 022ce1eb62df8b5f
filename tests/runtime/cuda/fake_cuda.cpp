// A stand-in for libcuda.so.1: device memory is host memory, kernels are functions chosen by name, everything is
// synchronous. Faults stick to the context as they do on a GPU. Only what the runtime calls exists.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "driver.h"

namespace cu = planish::rt::cu;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t granularity = std::size_t{2} << 20;
cu::Code sticky = 0;
cu::Context context = nullptr;
std::map<std::uint64_t, std::pair<std::size_t, bool>> mapped;  // start → bytes, writable

struct FakeFunction {
  std::string name;
  int max_dynamic_shared = 48 << 10;
  int non_portable = 0;
};

bool may_write(std::uint64_t at) {
  auto it = mapped.upper_bound(at);
  if (it == mapped.begin()) return true;  // mem_alloc's
  --it;
  return at >= it->first + it->second.first || it->second.second;
}

/// Blocks that this device runs at the same time.
constexpr unsigned held_blocks = 264;

constexpr const char* copies = "planish_copies";
constexpr std::size_t copy_words = 384;  ///< of its table: from, to, bytes in each row

/// affine(x, y, n), fault(), ecc(), gone() (the device fails), cluster(y, 16): y[0] = cluster size, and 100 more in a
/// cooperative launch; planish_copies(table), from the last row to the first, as rows may not depend on each other.
cu::Code execute(FakeFunction* f, void** params, unsigned shared, unsigned cluster, unsigned rows,
                 unsigned together = 0) {
  if (sticky != 0) return sticky;
  if (f->name == copies) {
    const auto* table = static_cast<const std::uint64_t*>(params[0]);
    for (unsigned r = rows; r-- > 0;)
      std::memcpy(reinterpret_cast<void*>(table[3 * r + 1]), reinterpret_cast<void*>(table[3 * r]), table[3 * r + 2]);
    return 0;
  }
  if (together > held_blocks) return 720;
  if (static_cast<int>(shared) > f->max_dynamic_shared || (cluster > 8 && f->non_portable == 0)) return 1;
  if (f->name == "fault" || f->name == "ecc" || f->name == "gone") {
    sticky = f->name == "fault" ? 700 : f->name == "ecc" ? 214 : 46;  // reported by the next synchronisation
    return 0;
  }
  if (f->name == "cluster") {
    (*static_cast<float**>(params[0]))[0] = static_cast<float>(cluster + (together != 0 ? 100 : 0));
    return 0;
  }
  auto* x = *static_cast<float**>(params[0]);
  auto* y = *static_cast<float**>(params[1]);
  const auto n = *static_cast<std::int64_t*>(params[2]);
  if (!may_write(reinterpret_cast<std::uint64_t>(y))) {
    sticky = 700;
    return 0;
  }
  for (std::int64_t i = 0; i < n; ++i) y[i] = 2 * x[i] + 1;
  return 0;
}

/// Graphs keep a copy of each kernel's arguments, and run node after node.
struct FakeNode {
  cu::KernelNode kernel{};
  std::vector<std::uint64_t> values;
  unsigned cluster = 1;
  bool cooperative = false;
  bool follows = false;  ///< an edge leads from the node before to it, or it is the first
};
using FakeGraph = std::vector<FakeNode*>;
struct FakeExec {
  std::map<const FakeNode*, FakeNode> nodes;
  FakeGraph order;
};
int capture_status = 0;

void keep(FakeNode* node, const cu::KernelNode& kernel) {
  const std::string& name = reinterpret_cast<FakeFunction*>(kernel.function)->name;
  const std::size_t count = name == "affine" ? 3 : name == "cluster" ? 1 : 0;
  node->kernel = kernel;
  if (name == copies) {
    const auto* table = static_cast<const std::uint64_t*>(kernel.params[0]);
    node->values.assign(table, table + copy_words);
    return;
  }
  node->values.resize(count);
  for (std::size_t i = 0; i < count; ++i) std::memcpy(&node->values[i], kernel.params[i], sizeof(std::uint64_t));
}

cu::Code execute(FakeNode& node) {
  std::vector<void*> params;
  for (std::uint64_t& value : node.values) params.push_back(&value);
  return execute(reinterpret_cast<FakeFunction*>(node.kernel.function), params.data(), node.kernel.shared_bytes,
                 node.cluster, node.kernel.grid[1], node.cooperative ? node.kernel.grid[0] : 0);
}

/// The host time that a test wants a call to take.
void spend(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return;
  const auto until = Clock::now() + std::chrono::microseconds(std::atoi(text));
  while (Clock::now() < until) {
  }
}

template <typename T>
cu::Code fill(cu::DevicePtr at, T value, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) std::memcpy(reinterpret_cast<void*>(at + i * sizeof(T)), &value, sizeof value);
  return sticky;
}

}  // namespace

extern "C" {
#define API __attribute__((visibility("default")))
/// Without a graph, and without attributes.
API int fake_launches = 0;
API cu::Code cuInit(unsigned) {
  return 0;
}
API cu::Code cuDriverGetVersion(int* v) {
  return *v = 13000, 0;
}
API cu::Code cuGetErrorName(cu::Code c, const char** s) {
  return *s = c == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : c == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE", 0;
}
API cu::Code cuGetErrorString(cu::Code, const char** s) {
  return *s = "fake", 0;
}
API cu::Code cuDeviceGetCount(int* n) {
  return *n = 1, 0;
}
API cu::Code cuDeviceGet(cu::Device* d, int) {
  return *d = 0, 0;
}
API cu::Code cuDeviceGetName(char* s, int n, cu::Device) {
  return std::snprintf(s, static_cast<std::size_t>(n), "Fake GPU"), 0;
}
API cu::Code cuDeviceGetUuid_v2(cu::Uuid* u, cu::Device) {
  return std::memset(u, 0xab, sizeof *u), 0;
}
API cu::Code cuDeviceGetAttribute(int* v, int a, cu::Device) {
  return *v = a == cu::device_major ? 9 : a == cu::device_minor ? 0 : a == cu::device_sms ? 132 : 1000 + a, 0;
}
API cu::Code cuDeviceTotalMem_v2(std::size_t* n, cu::Device) {
  return *n = std::size_t{1} << 37, 0;
}
API cu::Code cuDevicePrimaryCtxRetain(cu::Context* c, cu::Device) {
  return *c = reinterpret_cast<cu::Context>(std::uintptr_t{16}), 0;
}
API cu::Code cuCtxGetCurrent(cu::Context* c) {
  return *c = context, 0;
}
API cu::Code cuCtxPushCurrent_v2(cu::Context c) {
  return context = c, 0;
}
API cu::Code cuCtxPopCurrent_v2(cu::Context* c) {
  return *c = context, context = nullptr, 0;
}
API cu::Code cuCtxSynchronize() {
  return context == nullptr ? 201 : sticky;
}
API cu::Code cuMemGetAllocationGranularity(std::size_t* n, const cu::MemAllocationProp*, int) {
  return *n = granularity, 0;
}
API cu::Code cuMemCreate(cu::MemHandle* h, std::size_t n, const cu::MemAllocationProp* p, unsigned long long) {
  if (p->requested_handle_types != cu::handle_posix_fd || n % granularity != 0) return 1;
  if (n > std::size_t{1} << 37) return 2;
  const int fd = memfd_create("fake", MFD_CLOEXEC);
  *h = static_cast<cu::MemHandle>(fd);
  return ftruncate(fd, static_cast<off_t>(n)) == 0 ? 0 : 2;
}
API cu::Code cuMemRelease(cu::MemHandle h) {
  return close(static_cast<int>(h)) == 0 ? 0 : 1;
}
API cu::Code cuMemExportToShareableHandle(void* out, cu::MemHandle h, int, unsigned long long) {
  const int fd = dup(static_cast<int>(h));
  return std::memcpy(out, &fd, sizeof fd), 0;
}
API cu::Code cuMemImportFromShareableHandle(cu::MemHandle* h, void* fd, int) {
  const int copy = dup(static_cast<int>(reinterpret_cast<std::uintptr_t>(fd)));
  return *h = static_cast<cu::MemHandle>(copy), copy < 0 ? 1 : 0;
}
API cu::Code cuMemAddressReserve(cu::DevicePtr* p, std::size_t n, std::size_t, cu::DevicePtr, unsigned long long) {
  void* at = mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return *p = reinterpret_cast<cu::DevicePtr>(at), at == MAP_FAILED ? 2 : 0;
}
API cu::Code cuMemAddressFree(cu::DevicePtr p, std::size_t n) {
  return munmap(reinterpret_cast<void*>(p), n) == 0 ? 0 : 1;
}
API cu::Code cuMemMap(cu::DevicePtr p, std::size_t n, std::size_t, cu::MemHandle h, unsigned long long) {
  return mmap(reinterpret_cast<void*>(p), n, PROT_NONE, MAP_SHARED | MAP_FIXED, static_cast<int>(h), 0) == MAP_FAILED
             ? 1
             : 0;
}
API cu::Code cuMemUnmap(cu::DevicePtr p, std::size_t n) {
  mapped.erase(p);
  return mmap(reinterpret_cast<void*>(p), n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED
             ? 1
             : 0;
}
API cu::Code cuMemSetAccess(cu::DevicePtr p, std::size_t n, const cu::MemAccessDesc* d, std::size_t) {
  const bool write = d->flags == cu::access_read_write;
  mapped[p] = {n, write};
  return mprotect(reinterpret_cast<void*>(p), n, write ? PROT_READ | PROT_WRITE : PROT_READ) == 0 ? 0 : 1;
}
API cu::Code cuMemAlloc_v2(cu::DevicePtr* p, std::size_t n) {
  return *p = reinterpret_cast<cu::DevicePtr>(std::malloc(n)), 0;
}
API cu::Code cuMemFree_v2(cu::DevicePtr p) {
  return std::free(reinterpret_cast<void*>(p)), 0;
}
API cu::Code cuMemcpyAsync(cu::DevicePtr to, cu::DevicePtr from, std::size_t n, cu::Stream) {
  return std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n), sticky;
}
API cu::Code cuMemcpyDtoH_v2(void* to, cu::DevicePtr from, std::size_t n) {
  return std::memcpy(to, reinterpret_cast<void*>(from), n), sticky;
}
API cu::Code cuMemsetD8Async(cu::DevicePtr p, unsigned char v, std::size_t n, cu::Stream) {
  return fill(p, v, n);
}
API cu::Code cuMemsetD16Async(cu::DevicePtr p, unsigned short v, std::size_t n, cu::Stream) {
  return fill(p, v, n);
}
API cu::Code cuMemsetD32Async(cu::DevicePtr p, unsigned v, std::size_t n, cu::Stream) {
  return fill(p, v, n);
}
API cu::Code cuMemsetD2D32Async(cu::DevicePtr p, std::size_t pitch, unsigned v, std::size_t width, std::size_t height,
                                cu::Stream) {
  for (std::size_t i = 0; i < height; ++i) fill(p + i * pitch, v, width);
  return sticky;
}
API cu::Code cuModuleLoadData(cu::Module* m, const void*) {
  return *m = reinterpret_cast<cu::Module>(std::uintptr_t{32}), 0;
}
API cu::Code cuModuleUnload(cu::Module) {
  return 0;
}
API cu::Code cuModuleGetFunction(cu::Function* f, cu::Module, const char* name) {
  const std::string n = name;
  if (n == copies && std::getenv("FAKE_NO_COPIES") != nullptr) return 500;
  if (n != copies && n != "affine" && n != "fault" && n != "cluster" && n != "ecc" && n != "gone") return 500;
  return *f = reinterpret_cast<cu::Function>(new FakeFunction{n}), 0;
}
API cu::Code cuFuncGetAttribute(int* v, int a, cu::Function) {
  return *v = a == cu::func_max_threads ? 512 : a == cu::func_registers ? 40 : 0, 0;
}
API cu::Code cuFuncSetAttribute(cu::Function f, int a, int v) {
  auto* function = reinterpret_cast<FakeFunction*>(f);
  if (a == cu::func_max_dynamic_shared && v > 232448) return 1;
  (a == cu::func_max_dynamic_shared ? function->max_dynamic_shared : function->non_portable) = v;
  return 0;
}
API cu::Code cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, cu::Function, int, std::size_t) {
  if (std::getenv("FAKE_NO_OCCUPANCY") != nullptr) return 801;
  return *blocks = held_blocks / 132, 0;
}
API cu::Code cuFuncGetParamInfo(cu::Function f, std::size_t i, std::size_t* offset, std::size_t* size) {
  const std::string& name = reinterpret_cast<FakeFunction*>(f)->name;
  const std::size_t count = name == "affine" ? 3 : name == "cluster" ? 1 : 0;
  return *offset = i * 8, *size = 8, i < count ? 0 : 1;
}
API cu::Code cuLaunchKernel(cu::Function f, unsigned, unsigned rows, unsigned, unsigned, unsigned, unsigned,
                            unsigned shared, cu::Stream, void** params, void**) {
  spend("FAKE_LAUNCH_US");
  ++fake_launches;
  return execute(reinterpret_cast<FakeFunction*>(f), params, shared, 1, rows);
}
/// What tests ask: how often a graph was launched, how many of its nodes were patched, how many launches and nodes may
/// begin before the one before has ended; and what they set.
API int fake_graph_launches = 0, fake_graph_patches = 0, fake_overlaps = 0, fake_early_edges = 0;
API cu::Code cuLaunchKernelEx(const cu::LaunchConfig* c, cu::Function f, void** params, void**) {
  unsigned cluster = 1, together = 0;
  for (unsigned i = 0; i < c->attribute_count; ++i) {
    const cu::LaunchAttribute& one = c->attributes[i];
    if (one.id == cu::attribute_cluster)
      cluster = one.value.cluster[0] * one.value.cluster[1] * one.value.cluster[2];
    else if (one.id == cu::attribute_cooperative && one.value.cooperative == 1)
      together = c->grid[0];
    else if (one.id == cu::attribute_programmatic && one.value.programmatic == 1)
      ++fake_overlaps;
    else
      return 1;
  }
  return execute(reinterpret_cast<FakeFunction*>(f), params, c->shared_bytes, cluster, c->grid[1], together);
}
API void fake_capture(int status) {
  capture_status = status;
}
API cu::Code cuStreamIsCapturing(cu::Stream, int* status) {
  return *status = capture_status, 0;
}
API cu::Code cuThreadExchangeStreamCaptureMode(int* mode) {
  static int now = 0;
  return std::swap(now, *mode), 0;
}
API cu::Code cuGraphCreate(cu::Graph* g, unsigned) {
  return *g = reinterpret_cast<cu::Graph>(new FakeGraph), 0;
}
API cu::Code cuGraphDestroy(cu::Graph g) {
  auto* graph = reinterpret_cast<FakeGraph*>(g);
  for (const FakeNode* node : *graph) delete node;
  return delete graph, 0;
}
API cu::Code cuGraphAddKernelNode_v2(cu::GraphNode* n, cu::Graph g, const cu::GraphNode* before, std::size_t count,
                                     const cu::KernelNode* kernel) {
  auto* graph = reinterpret_cast<FakeGraph*>(g);
  if (count > 1 || (count == 1 && graph->empty())) return 1;
  if (count == 1 && reinterpret_cast<FakeNode*>(*before) != graph->back()) return 1;
  auto* node = new FakeNode;
  node->follows = count == 1 || graph->empty();
  keep(node, *kernel);
  graph->push_back(node);
  return *n = reinterpret_cast<cu::GraphNode>(node), 0;
}
API cu::Code cuGraphAddDependencies_v2(cu::Graph g, const cu::GraphNode* from, const cu::GraphNode* to,
                                       const cu::GraphEdge* edge, std::size_t count) {
  auto* graph = reinterpret_cast<FakeGraph*>(g);
  if (count != 1 || graph->size() < 2 || reinterpret_cast<FakeNode*>(*to) != graph->back() ||
      reinterpret_cast<FakeNode*>(*from) != (*graph)[graph->size() - 2])
    return 1;
  if (edge->from_port != 1 || edge->to_port != 0 || edge->type != 1) return 1;
  graph->back()->follows = true;
  return ++fake_early_edges, 0;
}
API cu::Code cuGraphKernelNodeSetAttribute(cu::GraphNode n, int id, const cu::LaunchAttributeValue* value) {
  if (id == cu::attribute_cooperative) return reinterpret_cast<FakeNode*>(n)->cooperative = value->cooperative == 1, 0;
  if (id != cu::attribute_cluster) return 1;
  reinterpret_cast<FakeNode*>(n)->cluster = value->cluster[0] * value->cluster[1] * value->cluster[2];
  return 0;
}
API cu::Code cuGraphInstantiateWithFlags(cu::GraphExec* e, cu::Graph g, unsigned long long) {
  if (std::getenv("FAKE_NO_GRAPHS") != nullptr) return 801;
  auto* exec = new FakeExec;
  for (FakeNode* node : *reinterpret_cast<FakeGraph*>(g)) {
    if (!node->follows) return delete exec, 1;
    exec->nodes[node] = *node;
    exec->order.push_back(node);
  }
  return *e = reinterpret_cast<cu::GraphExec>(exec), 0;
}
API cu::Code cuGraphExecDestroy(cu::GraphExec e) {
  return delete reinterpret_cast<FakeExec*>(e), 0;
}
API cu::Code cuGraphExecKernelNodeSetParams_v2(cu::GraphExec e, cu::GraphNode n, const cu::KernelNode* kernel) {
  ++fake_graph_patches;
  keep(&reinterpret_cast<FakeExec*>(e)->nodes[reinterpret_cast<FakeNode*>(n)], *kernel);
  return 0;
}
API cu::Code cuGraphLaunch(cu::GraphExec e, cu::Stream) {
  spend("FAKE_GRAPH_US");
  ++fake_graph_launches;
  auto* exec = reinterpret_cast<FakeExec*>(e);
  for (FakeNode* node : exec->order) {
    if (const cu::Code code = execute(exec->nodes[node]); code != 0) return code;
  }
  return 0;
}
API cu::Code cuStreamCreate(cu::Stream* s, unsigned) {
  return *s = reinterpret_cast<cu::Stream>(std::uintptr_t{64}), 0;
}
API cu::Code cuStreamDestroy_v2(cu::Stream) {
  return 0;
}
API cu::Code cuStreamSynchronize(cu::Stream) {
  return sticky;
}
API cu::Code cuEventCreate(cu::Event* e, unsigned) {
  return *e = reinterpret_cast<cu::Event>(new Clock::time_point), 0;
}
API cu::Code cuEventDestroy_v2(cu::Event e) {
  return delete reinterpret_cast<Clock::time_point*>(e), 0;
}
API cu::Code cuEventRecord(cu::Event e, cu::Stream) {
  return *reinterpret_cast<Clock::time_point*>(e) = Clock::now(), sticky;
}
API cu::Code cuEventSynchronize(cu::Event) {
  return sticky;
}
API cu::Code cuEventElapsedTime(float* ms, cu::Event a, cu::Event b) {
  const auto took = *reinterpret_cast<Clock::time_point*>(b) - *reinterpret_cast<Clock::time_point*>(a);
  return *ms = std::chrono::duration<float, std::milli>(took).count(), sticky;
}
}
