#include "codegen/contraction/place_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/cuda_math.h"

namespace planish::codegen::contraction {

namespace {

/// True where each place and bound fits 31 bits. (The space has a point for each multiplication, which nobody counts.)
bool fits_int(const Kernel& kernel) {
  const auto fits = [&](const ir::IndexExpr& e) { return printing::fits_int32(e, kernel.space); };
  return std::ranges::all_of(kernel.outputs, [&](const Output& output) { return fits(output.index); }) &&
         std::ranges::all_of(kernel.nodes, [&](const Node& node) {
           return fits(node.index) && std::ranges::all_of(node.where, fits, &ir::Bound::e);
         });
}

}  // namespace

std::string place_prelude() {
  return std::string(printing::prelude(true)) + std::string(printing::fast_prelude());
}

PlaceWriter::PlaceWriter(const Kernel& kernel) : kernel_(kernel), wide_(!fits_int(kernel)) {
  for (std::size_t v = 0; v < kernel.space.extents.size(); ++v) names_.push_back(fmt::format("d{}", v));
}

void PlaceWriter::line(std::string_view text) {
  out += fmt::format("{:{}}{}\n", "", 2 * depth_, text);
}

void PlaceWriter::open(std::string_view text) {
  line(text);
  ++depth_;
}

void PlaceWriter::close() {
  --depth_;
  line("}");
}

void PlaceWriter::close_declaration() {
  --depth_;
  line("};");
}

void PlaceWriter::decode(std::string_view linear, std::span<const int> variables) {
  std::int64_t later = 1;
  for (std::size_t i = variables.size(); i-- > 0;) {
    const int v = variables[i];
    const std::int64_t extent = kernel_.space.extent(v);
    std::string text = fmt::format("(unsigned)({})", linear);
    if (later > 1) text += fmt::format(" / {}", later);
    if (i > 0) text = fmt::format("{} % {}", text, extent);
    line(fmt::format("const {} d{} = {};", coordinate(), v, text));
    later *= extent;
  }
}

void PlaceWriter::nodes(std::span<const int> roots) {
  these(printing::closure(kernel_, roots, [](int) { return false; }));
}

void PlaceWriter::these(std::span<const int> order) {
  printing::print_nodes(out, kernel_, order, *this, std::string(static_cast<std::size_t>(2 * depth_), ' '));
}

std::vector<int> PlaceWriter::inputs(std::span<const int> roots) const {
  std::vector<int> found;
  for (const int id : printing::closure(kernel_, roots, [](int) { return false; })) {
    const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
    if (node.op == Op::load && std::ranges::find(found, node.input) == found.end()) found.push_back(node.input);
  }
  std::ranges::sort(found);
  return found;
}

bool PlaceWriter::has_place(int root) const {
  return std::ranges::any_of(printing::closure(kernel_, std::span(&root, 1), [](int) { return false; }), [&](int id) {
    const Op op = kernel_.nodes[static_cast<std::size_t>(id)].op;
    return op == Op::load || op == Op::index;
  });
}

std::string PlaceWriter::parameters(std::span<const int> roots) const {
  std::string text;
  for (const int i : inputs(roots)) {
    text += fmt::format("const {}* __restrict__ in{}, ",
                        printing::storage_type(kernel_.inputs[static_cast<std::size_t>(i)].dtype), i);
  }
  return text;
}

std::string PlaceWriter::output_parameters() const {
  std::string text;
  for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
    text += fmt::format("{}* __restrict__ out{}, ", printing::storage_type(kernel_.outputs[o].dtype), o);
  return text;
}

void PlaceWriter::entry(std::span<const int> inputs, int threads, int blocks, std::string_view more_parameters,
                        std::string_view call, std::string_view more_members) {
  std::string parameters;
  std::vector<std::string> members;
  for (const int i : inputs) {
    parameters += fmt::format("const {}* __restrict__ in{}, ",
                              printing::storage_type(kernel_.inputs[static_cast<std::size_t>(i)].dtype), i);
    members.push_back(fmt::format("in{}", i));
  }
  for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) members.push_back(fmt::format("out{}", o));
  if (!more_members.empty()) members.emplace_back(more_members);
  parameters += output_parameters();
  if (more_parameters.empty()) parameters.resize(parameters.size() - 2);  // the last comma
  line("// ---- kernel ----");
  open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {}) planish_kernel({}{}) {{", threads, blocks,
                   parameters, more_parameters));
  line("extern __shared__ __align__(16) unsigned char pl_smem[];");
  line(fmt::format("const Functors f{{{}}};", fmt::join(members, ", ")));
  line(call);
  close();
}

void PlaceWriter::stores() {
  for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
    const Output& output = kernel_.outputs[o];
    const DType from = kernel_.nodes[static_cast<std::size_t>(output.node)].dtype;
    const std::string place = fmt::format("out{}[{}]", o, place_of(output.index));
    const std::string form = printing::store_form(name(output.node), from, output.dtype);
    line(streaming ? fmt::format("__stcs(&{}, {});", place, form) : fmt::format("{} = {};", place, form));
  }
}

std::string PlaceWriter::arguments(std::span<const int> roots) const {
  std::string text;
  for (const int i : inputs(roots)) text += fmt::format("in{}, ", i);
  return text;
}

std::string PlaceWriter::place_of(const ir::IndexExpr& index) const {
  return printing::index_text(index, kernel_.space, names_, wide_);
}

std::string PlaceWriter::condition(std::span<const ir::Bound> where) const {
  return printing::where_text(where, kernel_.space, names_, wide_);
}

std::string PlaceWriter::load(const Kernel& kernel, int id) {
  if (at_hand) {
    if (std::string known = at_hand(id); !known.empty()) return known;
  }
  const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
  const DType stored = kernel.inputs[static_cast<std::size_t>(node.input)].dtype;
  const std::string place =
      fmt::format("pl_ldg(in{} + ({}){})", node.input, place_of(node.index), moved(node.args, node.strides));
  return guarded(kernel, id, printing::load_form(place, stored), condition(node.where));
}

std::string PlaceWriter::reduced(const Kernel& kernel, int id) {
  return of_fold ? of_fold(kernel.nodes[static_cast<std::size_t>(id)].reduction) : fold;
}

std::string PlaceWriter::scanned(const Kernel&, int) {
  return {};  // a contraction has no scans
}

std::string PlaceWriter::index(const Kernel&, const ir::IndexExpr& e) {
  return place_of(e);
}

std::string PlaceWriter::function(Op op, bool wide) const {
  const std::string_view own = wide ? "" : printing::cuda_function(op, fast, narrow);
  return own.empty() ? Speller::function(op, wide) : std::string(own);
}

std::string PlaceWriter::quotient(const Kernel& kernel, int id, std::string_view a, std::string_view b) const {
  if (!fast || kernel.nodes[static_cast<std::size_t>(id)].dtype == DType::f64)
    return Speller::quotient(kernel, id, a, b);
  return fmt::format("pl_fast_div({}, {})", a, b);
}

std::string PlaceWriter::whole_form(const Kernel& kernel, int id) const {
  if (std::ranges::find(rounded, id) != rounded.end()) {
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    return fmt::format("__fmul_rn({}, {})", name(node.args[0]), name(node.args[1]));
  }
  return printing::short_form(kernel, id, *this, {.fast = fast, .narrow = narrow});
}

}  // namespace planish::codegen::contraction
