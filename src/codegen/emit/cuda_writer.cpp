#include "codegen/emit/cuda_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/emit/cuda_math.h"

namespace planish::codegen::printing {

void CudaWriter::line(std::string_view text) {
  out += fmt::format("{:{}}{}\n", "", 2 * depth, text);
}
void CudaWriter::open(std::string_view text) {
  line(text);
  ++depth;
}
void CudaWriter::close(std::string_view tail) {
  --depth;
  line(fmt::format("}}{}", tail));
}

std::string CudaWriter::literal_index(std::int64_t value) const {
  return plan_.wide ? fmt::format("{}LL", value) : fmt::format("{}", value);
}

void CudaWriter::function_head() {
  std::string parameters;
  const auto add = [&](const std::string& text) { parameters += (parameters.empty() ? "" : ", ") + text; };
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    add(fmt::format("const {}* __restrict__ in{}", storage_type(kernel_.inputs[i].dtype), i));
  }
  // Steps of one output, which come in turn, share a pointer.
  for (std::size_t i = 0; i < kernel_.outputs.size() / static_cast<std::size_t>(plan_.down); ++i)
    add(fmt::format("{}* __restrict__ out{}", storage_type(kernel_.outputs[i].dtype), i));
  line(fmt::format("typedef {} ix;", plan_.wide ? "long long" : "int"));
  open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {}) planish_kernel({}) {{", plan_.threads,
                   plan_.min_blocks, parameters));
}

void CudaWriter::shift() {
  if (!plan_.shifted) return;
  std::vector<std::string> outer;  // of the row, not of a lane: names() would say where a vector's element lies
  for (std::size_t v = 0; v < kernel_.space.extents.size(); ++v) outer.push_back(fmt::format("d{}", v));
  line(fmt::format("const int shift = (int)(({}) & {});",
                   index_text(*plan_.lanes.primary, kernel_.space, outer, plan_.wide), plan_.grain - 1));
}

void CudaWriter::keepers() {
  for (std::size_t i = 0; i < plan_.resident.size(); ++i) {
    const int id = plan_.resident[i];
    if (plan_.residency == Residency::registers) {
      const std::int64_t padded = (plan_.trips + plan_.unroll - 1) / plan_.unroll * plan_.unroll;
      line(fmt::format("{} R{}[{}];", pack_type(id), id, padded));
    } else {
      line(fmt::format("{0}* const S{1} = ({0}*)(pl_smem + {2}) + tid;", pack_type(id), id, plan_.shared_offset[i]));
    }
  }
}

void CudaWriter::decode(std::string_view linear, std::span<const int> variables, int stepped) {
  // Position / (product of the later counts) mod own count; the first needs no mod.
  std::int64_t later = 1;
  for (std::size_t i = variables.size(); i-- > 0;) {
    const int v = variables[i];
    const std::int64_t extent = kernel_.space.extents[static_cast<std::size_t>(v)];
    const std::int64_t count = v == stepped ? extent / width() : extent;
    std::string text = later == 1 ? std::string(linear) : fmt::format("({} / {})", linear, literal_index(later));
    if (i > 0) text += fmt::format(" % {}", literal_index(count));
    if (v == stepped && width() > 1) text = fmt::format("({}) * {}", text, width());
    line(fmt::format("const ix d{} = {};", v, text));
    later *= count;
  }
}

std::vector<std::string> CudaWriter::names() const {
  std::vector<std::string> out_names;
  for (int v = 0; v < static_cast<int>(kernel_.space.extents.size()); ++v) {
    std::string text = fmt::format("d{}", v);
    if (in_lane_ && !scalar_tail && plan_.width > 1) {
      if (plan_.lanes.mode == Lanes::Mode::flat) {
        if (std::ranges::find(plan_.lanes.domain, v) != plan_.lanes.domain.end()) text = fmt::format("l{}", v);
      } else if (v == plan_.lanes.variable) {
        text = fmt::format("(d{} + j)", v);
      }
    }
    out_names.push_back(std::move(text));
  }
  return out_names;
}

std::string CudaWriter::text_of(const ir::IndexExpr& e) const {
  return index_text(e, kernel_.space, names(), plan_.wide);
}
std::string CudaWriter::index(const Kernel&, const ir::IndexExpr& e) {
  return text_of(e);
}

std::string CudaWriter::apart(const ir::IndexExpr& e) const {
  const std::int64_t c = e.constant_term();
  const std::string text = text_of(ir::IndexExpr::build(0, e.terms()));
  return c == 0 ? fmt::format("({})", text) : fmt::format("({}) {} {}", text, c < 0 ? '-' : '+', c < 0 ? -c : c);
}

std::string CudaWriter::condition(std::span<const ir::Bound> bounds) const {
  return where_text(bounds, kernel_.space, names(), plan_.wide);
}

std::string CudaWriter::address(const ir::IndexExpr& e, const Access& access) const {
  if (plan_.lanes.mode == Lanes::Mode::flat && access.kind == Access::Kind::vector && !scalar_tail) {
    const auto base = outside_domain(e, plan_.lanes.domain, kernel_.space);
    return base == ir::IndexExpr{} ? "e0" : fmt::format("({}) + e0", text_of(base));
  }
  if (access.kind == Access::Kind::reversed) return fmt::format("({}) - {}", text_of(e), width() - 1);
  if (access.kind == Access::Kind::within) return fmt::format("({}) - {}", text_of(e), access.before);
  return text_of(e);
}

std::string CudaWriter::moved(const Node& node) const {
  std::string text;
  for (std::size_t i = 0; i < node.args.size(); ++i) {
    if (node.strides[i] != 0) text += fmt::format(" + {} * {}LL", name(node.args[i]), node.strides[i]);
  }
  return text;
}

std::string CudaWriter::in_range(const Node& node) const {
  std::string text;
  for (std::size_t i = 0; i < node.args.size(); ++i) {
    text +=
        fmt::format("{}(unsigned long long){} < {}ULL", text.empty() ? "" : " && ", name(node.args[i]), node.limits[i]);
  }
  return text;
}

void CudaWriter::open_places(const Node& node) {
  if (!gathers(node)) return;
  open("{");
  direct_ = true;
  print_nodes(out, kernel_, closure(kernel_, node.args, [](int) { return false; }), *this,
              std::string(static_cast<std::size_t>(2 * depth), ' '));
  direct_ = false;
}

void CudaWriter::close_places(const Node& node) {
  if (gathers(node)) close();
}

Access CudaWriter::access_of(int load) const {
  return scalar_tail ? Access{Access::Kind::elements, 1} : plan_.loads[static_cast<std::size_t>(load)];
}

bool CudaWriter::is_resident(int load) const {
  return !reloading && std::ranges::find(plan_.resident, load) != plan_.resident.end();
}

bool CudaWriter::is_held(int load) const {
  return held_from >= 0 && std::ranges::find(plan_.resident, load) != plan_.resident.end();
}

std::string CudaWriter::place_of(int load) const {
  if (!scalar_tail && !plan_.vector_of.empty()) load = plan_.vector_of[static_cast<std::size_t>(load)];
  if (is_held(load)) return fmt::format("K{}[k0 + u - {}]", load, held_from);
  if (std::ranges::binary_search(chunk_loads, load)) return fmt::format("r{}[0]", load);
  if (!is_resident(load)) return fmt::format("r{}[u]", load);
  if (plan_.residency == Residency::registers) return fmt::format("R{}[k0 + u]", load);
  return fmt::format("S{}[(k0 + u) * {}]", load, plan_.threads);
}

std::string CudaWriter::pack_type(int load) const {
  const auto& node = kernel_.nodes[static_cast<std::size_t>(load)];
  const int lanes = access_of(load).kind == Access::Kind::invariant ? 1 : width();
  return fmt::format("PlVec<{}, {}>", storage_type(kernel_.inputs[static_cast<std::size_t>(node.input)].dtype), lanes);
}

std::string CudaWriter::lane_inside() const {
  if (!plan_.partial || scalar_tail || whole) return {};
  return fmt::format("(unsigned)(e0 + j) < {}u", plan_.length);
}

void CudaWriter::lane_head() {
  if (plan_.lanes.mode != Lanes::Mode::flat || scalar_tail || plan_.width == 1) return;
  // Lanes outside the row compute on some element's coordinates; nothing they make is kept.
  line("const ix e = e0 + j;");
  std::int64_t later = 1;
  for (std::size_t i = plan_.lanes.domain.size(); i-- > 0;) {
    const int v = plan_.lanes.domain[i];
    const std::int64_t extent = kernel_.space.extents[static_cast<std::size_t>(v)];
    std::string text = later == 1 ? "e" : fmt::format("(e / {})", literal_index(later));
    if (i > 0) text += fmt::format(" % {}", literal_index(extent));
    line(fmt::format("const ix l{} = {};", v, text));
    later *= extent;
  }
}

std::string CudaWriter::need(int load) {
  const auto& conditions = plan_.needs[static_cast<std::size_t>(load)];
  if (conditions.empty() || scalar_tail) return {};
  std::vector<int> roots;
  std::string text;
  bool varying = false;
  for (const auto& [node, holds] : conditions) {
    roots.push_back(node);
    text += fmt::format("{}{}{}", text.empty() ? "" : " && ", holds ? "" : "!", name(node));
    varying = varying || plan_.lane[static_cast<std::size_t>(node)];
  }
  line(fmt::format("bool n{} = false;", load));
  if (varying) line("#pragma unroll");
  open(varying ? fmt::format("for (int j = 0; j < {}; ++j) {{", width()) : std::string("{"));
  in_lane_ = varying;
  if (varying) lane_head();
  // All of it again, also what is fixed for a row: the row loaded for need not be the one at hand.
  print_nodes(out, kernel_, closure(kernel_, roots, [](int) { return false; }), *this,
              std::string(static_cast<std::size_t>(2 * depth), ' '));
  line(fmt::format("n{0} = n{0} || ({1});", load, text));
  in_lane_ = false;
  close();
  return fmt::format("n{}", load);
}

bool CudaWriter::realigned(int load, const Access& access) const {
  const auto& node = kernel_.nodes[static_cast<std::size_t>(load)];
  const int size = size_of(kernel_.inputs[static_cast<std::size_t>(node.input)].dtype);
  return plan_.realign && whole && plan_.shifted && !gathers(node) && access.kind == Access::Kind::vector &&
         width() * size % 16 == 0 && access.unit * size < 16;
}

void CudaWriter::load_vector(std::span<const int> loads, std::string_view guard, bool to_shared) {
  std::map<int, std::string> needed;
  for (const int id : loads) {
    // Equal conditions are tested once.
    const auto same = std::ranges::find_if(needed, [&](const auto& known) {
      return plan_.needs[static_cast<std::size_t>(known.first)] == plan_.needs[static_cast<std::size_t>(id)];
    });
    std::string text = same != needed.end() ? same->second : need(id);
    needed.emplace(id, std::move(text));
  }
  const auto emit_one = [&](int id, bool inside) {
    const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
    const Access access = access_of(id);
    const std::string target = place_of(id);
    const int hint = plan_.stream_loads ? 1 : 0;
    const bool async = to_shared && is_resident(id);
    if (access.kind != Access::Kind::elements && inside) {
      std::string text;
      open_places(node);
      std::string from = load_pointer ? load_pointer(id) : std::string();
      if (from.empty()) from = fmt::format("in{} + ({}){}", node.input, address(node.index, access), moved(node));
      if (touches) {
        text = fmt::format("pl_touch({});", from);
      } else if (async) {
        text = fmt::format("pl_copy_async<{}>(&{}, {});", access.unit, target, from);
      } else if (realigned(id, access)) {
        text = fmt::format("pl_load_across<{}>({}, {});", hint, target, from);
      } else {
        text = fmt::format("pl_load<{}, {}>({}, {});", hint, access.unit, target, from);
      }
      const auto bounds = scalar_tail ? node.where : common_bounds(node.where, kernel_.space, plan_.lanes);
      std::string condition = where_text(bounds, kernel_.space, names(), plan_.wide);
      if (!needed[id].empty()) condition += (condition.empty() ? "" : " && ") + needed[id];
      if (gathers(node)) condition += (condition.empty() ? "" : " && ") + in_range(node);
      line(condition.empty() ? text : fmt::format("if ({}) {}", condition, text));
      close_places(node);
      return;
    }
    if (access.kind == Access::Kind::invariant || touches) return;
    open_places(node);
    line("#pragma unroll");
    open(fmt::format("for (int j = 0; j < {}; ++j) {{", width()));
    in_lane_ = true;
    lane_head();
    std::string condition = inside ? "" : lane_inside();
    const std::string bounds = where_text(node.where, kernel_.space, names(), plan_.wide);
    if (!bounds.empty()) condition += (condition.empty() ? "" : " && ") + bounds;
    if (gathers(node)) condition += (condition.empty() ? "" : " && ") + in_range(node);
    const std::string element = access.kind == Access::Kind::reversed ? fmt::format("{} - j", width() - 1) : "j";
    const std::string text =
        fmt::format("{}.x[{}] = pl_ldg(in{} + ({}){});", target, element, node.input, text_of(node.index), moved(node));
    line(condition.empty() ? text : fmt::format("if ({}) {}", condition, text));
    in_lane_ = false;
    close();
    close_places(node);
  };
  if (guard.empty()) {
    for (const int id : loads) emit_one(id, true);
    return;
  }
  for (const int id : loads) {
    if (access_of(id).kind == Access::Kind::invariant) emit_one(id, true);
  }
  open(fmt::format("if ({}) {{", guard));
  for (const int id : loads) {
    if (access_of(id).kind != Access::Kind::invariant) emit_one(id, true);
  }
  --depth;
  open("} else {");
  for (const int id : loads) emit_one(id, false);
  close();
}

void CudaWriter::portions(std::int64_t count, std::int64_t trips, std::int64_t trips_each,
                          const std::function<void(const std::string& lo, const std::string& hi)>& body) {
  if (count == 1) {
    body("0", fmt::format("{}", trips));
    return;
  }
  line("#pragma unroll 1");
  open(fmt::format("for (int q0 = 0; q0 < {}; q0 += {}) {{", trips, trips_each));
  line(fmt::format("const int q1 = q0 + {0} < {1} ? q0 + {0} : {1};", trips_each, trips));
  body("q0", "q1");
  close();
}

std::string CudaWriter::strip_type(int strip) const {
  const Strip& s = plan_.strips[static_cast<std::size_t>(strip)];
  const int input = kernel_.nodes[static_cast<std::size_t>(s.loads.front())].input;
  const DType dtype = kernel_.inputs[static_cast<std::size_t>(input)].dtype;
  return fmt::format("PlVec<{}, {}>", storage_type(dtype), s.room(size_of(dtype)));
}

int CudaWriter::near_strip(int strip) const {
  const auto first = [&](int s) -> const Node& {
    return kernel_.nodes[static_cast<std::size_t>(plan_.strips[static_cast<std::size_t>(s)].loads.front())];
  };
  int other = 0;
  while (!beside(first(other), first(strip))) ++other;
  return other;
}

void CudaWriter::near_strips() {
  for (int s = 0; s < static_cast<int>(plan_.strips.size()); ++s) {
    if (near_strip(s) != s) continue;
    const Node& node = kernel_.nodes[static_cast<std::size_t>(plan_.strips[static_cast<std::size_t>(s)].loads.front())];
    const DType stored = kernel_.inputs[static_cast<std::size_t>(node.input)].dtype;
    line(fmt::format("const {}* const near{} = pl_near(in{} + ({}));", storage_type(stored), s, node.input,
                     text_of(ir::IndexExpr::build(0, node.index.terms()))));
  }
}

void CudaWriter::load_strip(int strip) {
  const Strip& s = plan_.strips[static_cast<std::size_t>(strip)];
  const Node& node = kernel_.nodes[static_cast<std::size_t>(s.loads.front())];
  const DType stored = kernel_.inputs[static_cast<std::size_t>(node.input)].dtype;
  const auto back = [&](const ir::IndexExpr& e) {
    return ir::add(e, ir::IndexExpr::constant(-s.before), kernel_.space);
  };
  open("{");
  line(fmt::format("const {}* const from = near{} + ({});", storage_type(stored), near_strip(strip),
                   node.index.constant_term() - s.before));
  std::string condition;
  if (!s.where.empty()) {
    line(fmt::format("const bool there = {};", where_text(s.where, kernel_.space, names(), plan_.wide)));
    condition = "there";
  }
  if (s.along) {
    line(fmt::format("const ix place = {};", text_of(back(s.along->e))));
    const std::string at = s.units == 1 ? "place" : fmt::format("place + i * {}", s.unit);
    const std::string lo = literal_index(s.along->lo), hi = literal_index(s.along->hi);
    condition += fmt::format("{}{} >= {} && {} < {}", condition.empty() ? "" : " && ", at, lo, at, hi);
  }
  line("#pragma unroll");
  open(fmt::format("for (int i = 0; i < {}; ++i) {{", s.units));
  if (s.guarded()) {
    const std::string outside = store_form(literal(node.dtype, node.value, node.bits), node.dtype, stored);
    line("#pragma unroll");
    line(fmt::format("for (int j = 0; j < {0}; ++j) s{1}[u].x[i * {0} + j] = {2};", s.unit, strip, outside));
  }
  const std::string text = fmt::format("pl_load_unit<{0}>(&s{1}[u].x[i * {0}], from + i * {0});", s.unit, strip);
  line(condition.empty() ? text : fmt::format("if ({}) {}", condition, text));
  close();
  close();
}

void CudaWriter::stage(int load) {
  const Node& node = kernel_.nodes[static_cast<std::size_t>(load)];
  const std::string text =
      fmt::format("t{}[yu * {} + x] = pl_ldg(in{} + ({}));", load, plan_.tile + 1, node.input, text_of(node.index));
  const std::string condition = where_text(node.where, kernel_.space, names(), plan_.wide);
  line(condition.empty() ? text : fmt::format("if ({}) {}", condition, text));
}

void CudaWriter::compute(std::span<const int> nodes, std::string_view body) {
  std::vector<int> common;
  std::vector<int> own;
  for (const int id : nodes) (plan_.lane[static_cast<std::size_t>(id)] ? own : common).push_back(id);
  std::string indent(static_cast<std::size_t>(2 * depth), ' ');
  // Lane 0 stands for all lanes in what they share.
  if (scalar_tail) {
    in_lane_ = true;
    line("const int j = 0;");
    print_nodes(out, kernel_, nodes, *this, indent);
  } else {
    in_lane_ = false;
    print_nodes(out, kernel_, common, *this, indent);
    line("#pragma unroll");
    open(backwards ? fmt::format("for (int j = {}; j >= 0; --j) {{", width() - 1)
                   : fmt::format("for (int j = 0; j < {}; ++j) {{", width()));
    in_lane_ = true;
    lane_head();
    indent += "  ";
    print_nodes(out, kernel_, own, *this, indent);
  }
  for (std::size_t at = 0; at < body.size();) {
    const auto end = body.find('\n', at);
    line(body.substr(at, end - at));
    at = end == std::string_view::npos ? body.size() : end + 1;
  }
  if (!scalar_tail) close();
  in_lane_ = false;
}

std::string CudaWriter::set_lane(int output) {
  const auto& o = kernel_.outputs[static_cast<std::size_t>(output)];
  const bool reversed = !scalar_tail && plan_.stores[static_cast<std::size_t>(output)].kind == Access::Kind::reversed;
  const std::string lane = reversed ? fmt::format("{} - j", width() - 1) : "j";
  return fmt::format("o{}.x[{}] = {};\n", output, lane,
                     store_form(name(o.node), kernel_.nodes[static_cast<std::size_t>(o.node)].dtype, o.dtype));
}

void CudaWriter::store_vector(int output, std::string_view guard) {
  const auto& o = kernel_.outputs[static_cast<std::size_t>(output)];
  if (o.folded) {
    fold_vector(output);
    return;
  }
  Access access = scalar_tail ? Access{Access::Kind::elements, 1} : plan_.stores[static_cast<std::size_t>(output)];
  const int hint = plan_.stream_stores ? 1 : 0;
  const int pointer = plan_.down > 1 ? plan_.output_of[static_cast<std::size_t>(output)] : output;
  // With one lane everything is a vector of one.
  if (width() == 1) {
    access = {Access::Kind::vector, 1};
    line(fmt::format("pl_store<{}, 1>(out{} + ({}), o{});", hint, pointer, text_of(o.index), output));
    return;
  }
  const auto by_element = [&](bool inside) {
    line("#pragma unroll");
    open(fmt::format("for (int j = 0; j < {}; ++j) {{", width()));
    in_lane_ = true;
    lane_head();
    const std::string condition = inside ? "" : lane_inside();
    const std::string element = access.kind == Access::Kind::reversed ? fmt::format("{} - j", width() - 1) : "j";
    const std::string text = fmt::format("out{}[{}] = o{}.x[{}];", pointer, text_of(o.index), output, element);
    line(condition.empty() ? text : fmt::format("if ({}) {}", condition, text));
    in_lane_ = false;
    close();
  };
  const bool wide_store = access.kind == Access::Kind::vector || access.kind == Access::Kind::reversed;
  std::string to = store_pointer ? store_pointer(output) : std::string();
  if (to.empty()) {
    const bool step = plan_.down > 1 && access.kind == Access::Kind::vector;
    to = step ? fmt::format("out{} + {}", pointer, apart(o.index))
              : fmt::format("out{} + ({})", pointer, address(o.index, access));
  }
  const std::string text = fmt::format("pl_store<{}, {}>({}, o{});", hint, access.unit, to, output);
  if (!wide_store) {
    by_element(guard.empty());
  } else if (guard.empty()) {
    line(text);
  } else {
    open(fmt::format("if ({}) {{", guard));
    line(text);
    --depth;
    open("} else {");
    by_element(false);
    close();
  }
}

std::string CudaWriter::load(const Kernel& kernel, int id) {
  const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
  const DType stored = kernel.inputs[static_cast<std::size_t>(node.input)].dtype;
  const std::string condition = where_text(node.where, kernel.space, names(), plan_.wide);
  std::string value;
  bool in_words = false;
  if (const int own = plan_.strip_of[static_cast<std::size_t>(id)]; own >= 0 && !scalar_tail && !direct_) {
    const Strip& strip = plan_.strips[static_cast<std::size_t>(own)];
    const auto at = static_cast<std::size_t>(std::ranges::find(strip.loads, id) - strip.loads.begin());
    value = fmt::format("s{}[u].x[{} + j * {}]", own, strip.shift[at], strip.slope);
    return convert(load_form(value, stored), stored, node.dtype);
  }
  if (plan_.swept[static_cast<std::size_t>(id)] && !direct_) {
    const Access access = access_of(id);
    std::string element = "j";
    if (access.kind == Access::Kind::invariant) element = "0";
    if (access.kind == Access::Kind::reversed) element = fmt::format("{} - j", width() - 1);
    if (access.kind == Access::Kind::within) element = fmt::format("(int)(0x{:x}ull >> 4 * j & 15)", access.at);
    const bool copied = is_resident(id) && plan_.residency == Residency::shared;
    const bool staged = std::ranges::find(plan_.staged, id) != plan_.staged.end() && !scalar_tail;
    const std::string place = copied ? fmt::format("s{}{}", id, copies_ahead ? "[u]" : "") : place_of(id);
    // Lanes that arrived in words are taken out of these; an element of 16 bits would be cut out first.
    in_words = stored == DType::bf16 && !staged && (access.unit > 1 || realigned(id, access));
    value = staged     ? fmt::format("t{}[x * {} + yu]", id, plan_.tile + 1)
            : in_words ? fmt::format("pl_lane_bf16({}, {})", place, element)
                       : fmt::format("{}.x[{}]", place, element);
  } else {
    value = fmt::format("pl_ldg(in{} + ({}){})", node.input, text_of(node.index), moved(node));
  }
  value = convert(in_words ? value : load_form(value, stored), stored, node.dtype);
  if (gathers(node)) {
    const OutOfRange missing = out_of_range(node.dtype);
    value = fmt::format("({} ? {} : {})", in_range(node), value, literal(node.dtype, missing.value, missing.bits));
  }
  return condition.empty()
             ? value
             : fmt::format("({} ? {} : {})", condition, value, literal(node.dtype, node.value, node.bits));
}

std::string CudaWriter::function(Op op, bool wide) const {
  const std::string_view own = wide ? "" : cuda_function(op, plan_.fast, plan_.narrow);
  return own.empty() ? Speller::function(op, wide) : std::string(own);
}

std::string CudaWriter::whole_form(const Kernel& kernel, int id) const {
  return short_form(kernel, id, *this, {.fast = plan_.fast, .narrow = plan_.narrow, .near = near});
}

std::string CudaWriter::unfused_difference(bool wide, std::string_view a, std::string_view b) const {
  return fmt::format("{}({}, {})", wide ? "__dsub_rn" : "__fsub_rn", a, b);
}

std::string CudaWriter::quotient(const Kernel& kernel, int id, std::string_view a, std::string_view b) const {
  const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
  if (!plan_.fast || node.dtype == DType::f64) return Speller::quotient(kernel, id, a, b);
  // A divisor that many elements share is inverted once, exactly; the compiler moves that out of the loops.
  const auto divisor = static_cast<std::size_t>(node.args.back());
  const bool shared = plan_.row && !plan_.columns ? !plan_.places[divisor].inner : !plan_.lane[divisor];
  return shared ? fmt::format("({} * (1.0f / {}))", a, b) : fmt::format("pl_fast_div({}, {})", a, b);
}

std::string CudaWriter::reduced(const Kernel& kernel, int id) {
  const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
  const std::string name = fmt::format("red{}{}", node.reduction, plan_.columns ? "[j]" : "");
  return convert(name, kernel.reductions[static_cast<std::size_t>(node.reduction)].accumulate, node.dtype);
}

std::string CudaWriter::scanned(const Kernel&, int id) {
  return running(id);
}

}  // namespace planish::codegen::printing
