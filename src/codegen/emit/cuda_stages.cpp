#include "codegen/emit/cuda_stages.h"

#include <fmt/format.h>

#include <algorithm>

namespace planish::codegen::printing {
namespace {

const Node& node_of(const Kernel& kernel, const Stream& stream) {
  return kernel.nodes[static_cast<std::size_t>(stream.load)];
}
const Input& input_of(const Kernel& kernel, const Stream& stream) {
  return kernel.inputs[static_cast<std::size_t>(node_of(kernel, stream).input)];
}

}  // namespace

std::string StageWriter::input(const Stream& stream) const {
  return fmt::format("in{}", node_of(kernel_, stream).input);
}
std::string StageWriter::type(const Stream& stream) const {
  return std::string(storage_type(input_of(kernel_, stream).dtype));
}

/// Where the copy of a stream begins in shared memory.
std::string StageWriter::place(const Stream& stream, std::string_view stage) const {
  const std::int64_t within = stream.offset + stream.front_bytes;
  if (stream.held) return fmt::format("pl_smem + {}", plan_.stages * plan_.stage_bytes + within);
  std::string text = fmt::format("pl_smem + {} * {} + {}", stage, plan_.stage_bytes, within);
  if (plan_.rows > 1) text += fmt::format(" + tid / {} * {}", plan_.across, stream.capacity);
  return text;
}

/// The elements of the row that this block takes: [lo, hi).
void StageWriter::part() {
  if (plan_.cluster == 1) {
    w.line(fmt::format("const int lo = 0, hi = {};", plan_.length));
    return;
  }
  const std::int64_t chunk = plan_.chunk * plan_.width;
  const std::string shift = plan_.shifted ? " - shift" : "";
  w.line(fmt::format("const int lo = rank == 0 ? 0 : rank * {}{};", chunk, shift));
  w.line(fmt::format("const int most = (rank + 1) * {}{}, hi = most < {} ? most : {};", chunk, shift, plan_.length,
                     plan_.length));
}

/// The row's element 0 in the input (`b`), and where the copy starts (`f`).
void StageWriter::start(const Stream& stream) {
  const auto base = outside_domain(node_of(kernel_, stream).index, plan_.inner_domain, kernel_.space);
  w.line(fmt::format("const ix b{0} = {1}, f{0} = (b{0} + lo) & ~{2};", stream.load, w.index(kernel_, base),
                     w.literal_index(stream.align - 1)));
}

/// One thread announces and starts the copies of one part of a row.
void StageWriter::copies(bool held, std::string_view barrier, std::string_view stage) {
  w.line("int bytes = 0;");
  for (const auto& stream : plan_.streams) {
    if (stream.held != held) continue;
    const Input& in = input_of(kernel_, stream);
    const int size = size_of(in.dtype);
    const int unit = 16 / size;
    start(stream);
    w.line(fmt::format("ix z{0} = (b{0} + hi + {1}) & ~{2};", stream.load, unit - 1, w.literal_index(unit - 1)));
    w.line(fmt::format("z{0} = z{0} < {1} ? z{0} : {1};", stream.load,
                       w.literal_index(in.storage_elements / unit * unit)));
    w.line(fmt::format("const int n{0} = hi > lo && z{0} > f{0} ? (int)(z{0} - f{0}) * {1} : 0;", stream.load, size));
    w.line(fmt::format("bytes += n{};", stream.load));
  }
  w.line(fmt::format("pl_barrier_expect(&full[{}], bytes);", barrier));
  for (const auto& stream : plan_.streams) {
    if (stream.held != held) continue;
    w.line(fmt::format("if (n{0} > 0) pl_bulk_load<{1}>({2}, {3} + f{0}, n{0}, &full[{4}]);", stream.load,
                       plan_.stream_loads && !held ? 1 : 0, place(stream, stage), input(stream), barrier));
  }
}

/// Elements at the end of a tensor that fill no 16 bytes. True if there may be any.
bool StageWriter::last_elements(bool held, std::string_view lanes) {
  bool any = false;
  for (const auto& stream : plan_.streams) {
    const Input& in = input_of(kernel_, stream);
    const int unit = 16 / size_of(in.dtype);
    if (stream.held != held || in.storage_elements % unit == 0) continue;
    any = true;
    w.line(fmt::format("for (ix q = {0} + tid % {1}; q < {2}; q += {1})",
                       w.literal_index(in.storage_elements / unit * unit), lanes,
                       w.literal_index(in.storage_elements)));
    w.line(fmt::format("  if (q >= b{0} + lo && q < b{0} + hi) (({1}*)w{0})[(int)(q - b{0})] = pl_ldg({2} + q);",
                       stream.load, type(stream), input(stream)));
  }
  if (any) w.line("pl_async_fence();");
  return any;
}

void StageWriter::fetch(std::string_view group, std::string_view stage) {
  w.open(plan_.rows > 1 ? fmt::format("if (tid % {} == 0) {{", plan_.across) : std::string("if (tid == 0) {"));
  position_(group);
  part();
  copies(false, stage, stage);
  w.close();
}

void StageWriter::begin() {
  w.line(fmt::format("__shared__ unsigned long long full[{}];", plan_.stages + 1));
  w.line(fmt::format("if (tid <= {0}) pl_barrier_init(&full[tid], tid < {0} ? {1} : 1);", plan_.stages, plan_.rows));
  w.line("pl_barrier_ready();");
  w.line("__syncthreads();");
  const std::string each = w.literal_index(plan_.grid / plan_.cluster);
  w.line("#pragma unroll 1");
  w.open(fmt::format("for (int s = 0; s < {}; ++s) {{", plan_.stages));
  w.line(fmt::format("const ix early = (ix)(blockIdx.x / {}) + s * {};", plan_.cluster, each));
  w.open(fmt::format("if (early < {}) {{", w.literal_index(plan_.groups)));
  fetch("early", "s");
  w.close();
  w.close();
  const bool holds = std::ranges::any_of(plan_.streams, &Stream::held);
  for (const auto& stream : plan_.streams)
    if (stream.held) w.line(fmt::format("const {}* w{};", type(stream), stream.load));
  if (holds) {
    w.open("{");
    // Rows start at different places within a vector: what any of them may look at.
    const std::int64_t chunk = plan_.chunk * plan_.width;
    const std::string rank = plan_.cluster > 1 ? "rank" : "0";
    w.line(fmt::format("const int under = {0} * {1} - {2}, lo = under > 0 ? under : 0;", rank, chunk,
                       plan_.shifted ? plan_.width - 1 : 0));
    w.line(fmt::format("const int most = ({0} + 1) * {1}, hi = most < {2} ? most : {2};", rank, chunk, plan_.length));
    w.open("if (tid == 0) {");
    copies(true, fmt::format("{}", plan_.stages), "0");
    w.close();
    for (const auto& stream : plan_.streams) {
      if (!stream.held) continue;
      start(stream);
      w.line(
          fmt::format("w{0} = (const {1}*)({2}) + (int)(b{0} - f{0});", stream.load, type(stream), place(stream, "0")));
    }
    w.line(fmt::format("pl_barrier_wait(&full[{}], 0);", plan_.stages));
    if (last_elements(true, fmt::format("{}", plan_.threads))) w.line("__syncthreads();");
    w.close();
  }
  w.line("int stage = 0, parity = 0, turn = 1;");
  w.line("#pragma unroll 1");
  w.open(fmt::format("for (ix group = (ix)(blockIdx.x / {}); group < {}; group += {}) {{", plan_.cluster,
                     w.literal_index(plan_.groups), each));
  w.line("turn ^= 1;");
}

void StageWriter::arrive() {
  for (const auto& stream : plan_.streams)
    if (!stream.held) w.line(fmt::format("const {}* w{};", type(stream), stream.load));
  w.open("{");
  part();
  for (const auto& stream : plan_.streams) {
    if (stream.held) continue;
    start(stream);
    w.line(fmt::format("w{0} = (const {1}*)({2}) + (int)(b{0} - f{0});", stream.load, type(stream),
                       place(stream, "stage")));
  }
  w.line("pl_barrier_wait(&full[stage], parity);");
  if (last_elements(false, fmt::format("{}", plan_.across))) w.line("__syncthreads();");
  w.close();
}

void StageWriter::leave() {
  w.line("__syncthreads();");
  const std::string ahead = w.literal_index(plan_.stages * (plan_.grid / plan_.cluster));
  w.open(fmt::format("if (group + {} < {}) {{", ahead, w.literal_index(plan_.groups)));
  fetch(fmt::format("(group + {})", ahead), "stage");
  w.close();
  w.line(fmt::format("if (++stage == {}) {{ stage = 0; parity ^= 1; }}", plan_.stages));
  w.close();
}

}  // namespace planish::codegen::printing
