#include "codegen/emit/cpp_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "codegen/emit/cpp_operation.h"
#include "codegen/emit/expression.h"
#include "codegen/fold.h"

namespace planish::codegen::cpp {
using printing::index_text;
using printing::where_text;

namespace {

std::uint64_t variables_of(const ir::IndexExpr& e, int count) {
  std::uint64_t mask = 0;
  for (int i = 0; i < count; ++i)
    if (e.depends_on(i)) mask |= std::uint64_t{1} << i;
  return mask;
}

using Range = std::pair<double, double>;
constexpr double kHuge = 1e30;

/// Bounds of an integer node; (-huge, huge) where nothing is known.
Range range_of(const Kernel& k, const Node& n, const std::vector<Range>& known) {
  const auto arg = [&](std::size_t i) { return known[static_cast<std::size_t>(n.args[i])]; };
  const Range any{-kHuge, kHuge};
  switch (n.op) {
    case Op::constant:
      return {static_cast<double>(n.bits), static_cast<double>(n.bits)};
    case Op::index: {
      const auto r = n.index.range(k.space);
      return {static_cast<double>(r.first), static_cast<double>(r.second)};
    }
    case Op::cast: {
      const DType from = k.nodes[static_cast<std::size_t>(n.args[0])].dtype;
      return is_floating(from) ? any : arg(0);
    }
    case Op::neg:
      return {-arg(0).second, -arg(0).first};
    case Op::add:
      return {arg(0).first + arg(1).first, arg(0).second + arg(1).second};
    case Op::sub:
      return {arg(0).first - arg(1).second, arg(0).second - arg(1).first};
    case Op::mul: {
      const double p[4] = {arg(0).first * arg(1).first, arg(0).first * arg(1).second, arg(0).second * arg(1).first,
                           arg(0).second * arg(1).second};
      return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
    }
    case Op::minimum:
      return {std::min(arg(0).first, arg(1).first), std::min(arg(0).second, arg(1).second)};
    case Op::maximum:
      return {std::max(arg(0).first, arg(1).first), std::max(arg(0).second, arg(1).second)};
    case Op::select:
      return {std::min(arg(1).first, arg(2).first), std::max(arg(1).second, arg(2).second)};
    default:
      return any;
  }
}

Range range_of(DType t) {
  switch (t) {
    case DType::i32:
      return {-2147483648.0, 2147483647.0};
    case DType::i16:
      return {-32768, 32767};
    case DType::i8:
      return {-128, 127};
    case DType::u8:
      return {0, 255};
    case DType::boolean:
      return {0, 1};
    default:
      return {-kHuge, kHuge};
  }
}

Form form_of(DType t) {
  switch (t) {
    case DType::f64:
      return Form::d;
    case DType::boolean:
      return Form::b;
    case DType::i64:
      return Form::l;
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u8:
      return Form::i;
    default:
      return Form::f;
  }
}

}  // namespace

std::uint64_t View::inner_mask() const {
  std::uint64_t mask = 0;
  for (int i = variables() - kernel.inner; i < variables(); ++i) mask |= std::uint64_t{1} << i;
  return mask;
}

std::uint64_t View::across_mask() const {
  std::uint64_t mask = 0;
  const int outer = variables() - kernel.inner;
  for (int i = outer - kernel.across; i < outer; ++i) mask |= std::uint64_t{1} << i;
  return mask;
}

std::uint64_t View::part_mask() const {
  std::uint64_t mask = 0;
  for (int i = variables() - kernel.parts; i < variables(); ++i) mask |= std::uint64_t{1} << i;
  return mask;
}

View::View(const Kernel& k, int vector_variable) : kernel(k), v(vector_variable) {
  column = k.has_rows() && v < variables() - k.inner;
  std::vector<Range> ranges;
  for (const Node& n : k.nodes) {
    std::uint64_t mask = 0;
    int ph = 0;
    std::optional<Range> position;
    if (n.op == Op::load || n.op == Op::index) mask |= variables_of(n.index, variables());
    for (const auto& b : n.where) mask |= variables_of(b.e, variables());
    for (int a : n.args) {
      mask |= vars[static_cast<std::size_t>(a)];
      ph = std::max(ph, phase[static_cast<std::size_t>(a)]);
    }
    if (n.op == Op::reduced) {
      const auto& r = k.reductions[static_cast<std::size_t>(n.reduction)];
      if (r.at >= 0) position = ranges[static_cast<std::size_t>(r.at)];
      mask = vars[static_cast<std::size_t>(r.arg)] & ~(r.across ? across_mask() : r.part ? part_mask() : inner_mask());
      if (r.part) mask |= inner_mask() & ~part_mask();
      ph = std::max(phase[static_cast<std::size_t>(r.arg)], r.phase + 1);
    }
    if (n.op == Op::scanned) {
      const auto& s = k.scans[static_cast<std::size_t>(n.scan)];
      if (n.position) position = ranges[static_cast<std::size_t>(s.at)];
      mask = (std::uint64_t{1} << variables()) - 1;
      ph = phase[static_cast<std::size_t>(s.arg)];
    }
    vars.push_back(mask);
    phase.push_back(ph);
    Range r = range_of(n.dtype);
    if (n.dtype == DType::i64) r = position ? *position : range_of(k, n, ranges);
    ranges.push_back(r);
    Form f = form_of(n.dtype);
    if (f == Form::l && r.first > -1e9 && r.second < 1e9) f = Form::i;
    form.push_back(f);
    if ((mask >> v & 1) && (f == Form::d || f == Form::l)) wide = true;
  }
  for (const auto& r : k.reductions) {
    if (info(r.kind).adds && form_of(r.accumulate) != Form::f) wide = true;
    if (r.at >= 0 && form[static_cast<std::size_t>(r.at)] == Form::l) wide = true;
    if (form[static_cast<std::size_t>(r.arg)] == Form::d || form[static_cast<std::size_t>(r.arg)] == Form::l)
      wide = true;
  }
  buffered.assign(k.nodes.size(), false);
}

std::string_view type_name(Form form, bool vector) {
  switch (form) {
    case Form::f:
      return vector ? "vf" : "float";
    case Form::d:
      return vector ? "vd" : "double";
    case Form::l:
      return vector ? "vl" : "i64";
    default:
      return vector ? "vi" : "int";
  }
}

std::string identity_text(Identity of, Form form) {
  if (of == Identity::zero || of == Identity::one)
    return fmt::format("({}){}", type_name(form, false), of == Identity::zero ? 0 : 1);
  const bool low = of == Identity::lowest;
  switch (form) {
    case Form::f:
      return low ? "(-__builtin_inff())" : "__builtin_inff()";
    case Form::d:
      return low ? "(-__builtin_inf())" : "__builtin_inf()";
    case Form::l:
      return low ? "(-9223372036854775807LL - 1)" : "9223372036854775807LL";
    default:
      return low ? "(-2147483647 - 1)" : "2147483647";
  }
}

std::string_view storage_name(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "double";
    case DType::f32:
      return "float";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "int";
    case DType::i16:
      return "short";
    case DType::i8:
      return "signed char";
    case DType::f16:
    case DType::bf16:
      return "unsigned short";
    default:
      return "unsigned char";
  }
}

bool folded(const ir::IndexExpr& e, int v) {
  for (const auto& t : e.terms())
    if (t.atom.kind != ir::Atom::Kind::variable && t.atom.inner && t.atom.inner->depends_on(v)) return true;
  return false;
}

bool unit_stride(const ir::IndexExpr& e, int v) {
  return e.coefficient_of(v) == 1 && !folded(e, v);
}

std::string Printer::index(const ir::IndexExpr& e, const Spot& spot) const {
  return index_text(e, view_.kernel.space, spot.names, true);
}

std::string Printer::literal(Form form, double value, std::int64_t bits) const {
  switch (form) {
    case Form::b:
      return bits ? "-1" : "0";
    case Form::i:
      return bits == std::numeric_limits<std::int32_t>::min() ? "(-2147483647 - 1)" : fmt::format("{}", bits);
    case Form::l:
      return bits == std::numeric_limits<std::int64_t>::min() ? "(-9223372036854775807LL - 1)"
                                                              : fmt::format("{}LL", bits);
    default:
      break;
  }
  const char* f = form == Form::f ? "f" : "";
  if (std::isnan(value)) return fmt::format("__builtin_nan{}(\"\")", f);
  if (std::isinf(value) || (form == Form::f && std::fabs(value) > 3.4028235677973366e38))
    return fmt::format("({}__builtin_inf{}())", value < 0 ? "-" : "", f);
  return form == Form::f ? fmt::format("{:a}f", static_cast<float>(value)) : fmt::format("{:a}", value);
}

std::string Printer::convert(std::string text, Form from, Form to, bool vector) const {
  if (from == to) return text;
  if (to == Form::b)
    return vector ? fmt::format("mask(({})({} != 0))", from == Form::d || from == Form::l ? "vl" : "vi", text)
                  : fmt::format("mask({} != 0)", text);
  if (from == Form::b) {
    if (to == Form::i) return fmt::format("({} & 1)", text);
    text = fmt::format("({} & 1)", text);
  }
  return vector ? fmt::format("__builtin_convertvector({}, {})", text, type_name(to, true))
                : fmt::format("({})({})", type_name(to, false), text);
}

std::string Printer::value(int node, Form form, bool as_vector, const Spot& spot) {
  const auto at = static_cast<std::size_t>(node);
  const bool vec = view_.vec(node);
  const Node& n = view_.kernel.nodes[at];
  std::string text;
  if (n.op == Op::constant) {
    const bool integral = !is_floating(n.dtype);
    const double value = integral ? static_cast<double>(n.bits) : n.value;
    if ((form == Form::f || form == Form::d) || !integral)
      text = convert(literal(form == Form::f || form == Form::d ? form : view_.form[at], value, n.bits),
                     form == Form::f || form == Form::d ? form : view_.form[at], form, false);
    else
      text = convert(literal(view_.form[at], value, n.bits), view_.form[at], form, false);
  } else {
    text = convert(fmt::format("n{}{}", node, vec ? spot.suffix : ""), view_.form[at], form, vec);
  }
  if (as_vector && !vec) text = fmt::format("splat({})", text);
  return text;
}

std::string Printer::load(int node, const Spot& spot) {
  const auto at = static_cast<std::size_t>(node);
  const Node& n = view_.kernel.nodes[at];
  const auto& in = view_.kernel.inputs[static_cast<std::size_t>(n.input)];
  const std::string dtype(name(in.dtype));
  used_.insert("load_" + dtype);
  const Form stored = form_of(in.dtype), form = view_.form[at];
  const std::string outside = literal(stored, n.value, n.bits);
  const OutOfRange nowhere = out_of_range(in.dtype);
  const std::string missing = literal(stored, nowhere.value, nowhere.bits);
  bool own_places = false;  // each lane has its own
  for (const int a : n.args) own_places |= view_.vec(a);
  const auto place = [&](const Spot& s) {
    return fmt::format("in{} + {}{}", n.input, index(n.index, s), moved(n.args, n.strides, s));
  };
  // `text` where every argument is in range.
  const auto checked = [&](const std::string& text, const std::string& otherwise, const Spot& s) {
    const std::string inside = in_range(n.args, n.limits, s);
    return inside.empty() ? text : fmt::format("(({}) ? {} : {})", inside, text, otherwise);
  };
  const auto one = [&](const Spot& s) { return checked(fmt::format("one_{}({})", dtype, place(s)), missing, s); };
  const auto cond = [&](const Spot& s) { return where_text(n.where, view_.kernel.space, s.names, true); };
  if (!view_.vec(node)) {
    const std::string c = cond(spot);
    return convert(c.empty() ? one(spot) : fmt::format("(({}) ? {} : {})", c, one(spot), outside), stored, form, false);
  }
  bool where_moves = false, where_folded = false;
  for (const auto& b : n.where) {
    where_moves |= b.e.depends_on(view_.v);
    where_folded |= folded(b.e, view_.v);
  }
  const std::string whole =
      own_places
          ? std::string()
          : checked(fmt::format("load_{}({}{})", dtype, place(spot), spot.count.empty() ? "" : ", (int)" + spot.count),
                    fmt::format("splat({})", missing), spot);
  const std::string base = spot.names[static_cast<std::size_t>(view_.v)];
  Spot lane = spot;
  lane.names[static_cast<std::size_t>(view_.v)] = fmt::format("({} + l)", base);
  const std::string limit = spot.count.empty() ? "W" : spot.count;
  const std::string lane_cond = cond(lane);
  const std::string lanes =
      fmt::format("({{ {0} g{{}}; for (int l = 0; l < {1}; ++l) g[l] = {2}; g; }})", type_name(stored, true), limit,
                  lane_cond.empty() ? one(lane) : fmt::format("({}) ? {} : {}", lane_cond, one(lane), outside));
  std::string text;
  if (own_places || !unit_stride(n.index, view_.v)) {
    text = lanes;
  } else if (n.where.empty()) {
    text = whole;
  } else if (!where_moves) {
    text = fmt::format("(({}) ? {} : splat({}))", cond(spot), whole, outside);
  } else if (where_folded) {
    text = lanes;
  } else {
    // Affine bounds hold between two lanes for which they hold.
    Spot last = spot;
    last.names[static_cast<std::size_t>(view_.v)] = fmt::format("({} + {} - 1)", base, limit);
    const std::string a = cond(spot);
    const std::string b = cond(last);
    text = a.empty() ? whole : fmt::format("((({}) && ({})) ? {} : {})", a, b, whole, lanes);
  }
  return convert(text, stored, form, true);
}

std::string Printer::define(int node, const Spot& spot) {
  const auto at = static_cast<std::size_t>(node);
  const Node& n = view_.kernel.nodes[at];
  if (n.op == Op::constant || n.op == Op::reduced || n.op == Op::scanned) return "";
  const bool vec = view_.vec(node);
  std::string text;
  if (vec && view_.buffered[at] && spot.position.starts_with("read:")) {
    used_.insert("load_f32");
    text = fmt::format("load_f32(buffer{} + {})", node, spot.position.substr(5));
  } else if (n.op == Op::load) {
    if (replaced) text = replaced(node);
    if (text.empty()) text = load(node, spot);
  } else if (n.op == Op::index) {
    const Form form = view_.form[at];
    if (!vec) {
      text = fmt::format("({})({})", type_name(form, false), index(n.index, spot));
    } else if (!folded(n.index, view_.v)) {
      text = fmt::format("splat(({})({})) + {} * {}", type_name(form, false), index(n.index, spot),
                         literal(form, 0, n.index.coefficient_of(view_.v)), form == Form::l ? "lanes64()" : "lanes()");
    } else {
      Spot lane = spot;
      lane.names[static_cast<std::size_t>(view_.v)] =
          fmt::format("({} + l)", spot.names[static_cast<std::size_t>(view_.v)]);
      text = fmt::format("({{ {} g{{}}; for (int l = 0; l < W; ++l) g[l] = ({})({}); g; }})", type_name(form, true),
                         type_name(form, false), index(n.index, lane));
    }
  } else {
    text = operation_text(*this, view_, node, spot);
  }
  std::string out =
      fmt::format("const {} n{}{} = {};\n", type_name(view_.form[at], vec), node, vec ? spot.suffix : "", text);
  if (vec && view_.buffered[at] && spot.position.starts_with("write:")) {
    used_.insert("store_f32");
    out += fmt::format("store_f32(buffer{} + {}, n{}{});\n", node, spot.position.substr(6), node, spot.suffix);
  }
  return out;
}

std::string Printer::argument(int node, const Spot& spot) {
  if (!view_.vec(node)) return value(node, Form::l, false, spot);
  return fmt::format("(i64)({})[l]", value(node, view_.form[static_cast<std::size_t>(node)], true, spot));
}

std::string Printer::moved(const std::vector<int>& args, const std::vector<std::int64_t>& strides, const Spot& spot) {
  std::string text;
  for (std::size_t i = 0; i < args.size(); ++i)
    if (strides[i] != 0) text += fmt::format(" + {} * {}LL", argument(args[i], spot), strides[i]);
  return text;
}

std::string Printer::in_range(const std::vector<int>& args, const std::vector<std::int64_t>& limits, const Spot& spot) {
  std::string text;
  for (std::size_t i = 0; i < args.size(); ++i)
    text += fmt::format("{}(u64)({}) < {}ULL", i ? " && " : "", argument(args[i], spot), limits[i]);
  return text;
}

std::string Printer::scatter(int o, const Spot& spot) {
  const auto& out = view_.kernel.outputs[static_cast<std::size_t>(o)];
  const std::string dtype(name(out.dtype));
  const Form form = form_of(out.dtype);
  const bool own_places = std::ranges::any_of(out.args, [&](int a) { return view_.vec(a); });
  const auto stored = [&](const std::string& put, const Spot& s) {
    const std::string inside = in_range(out.args, out.arg_limits, s);
    return inside.empty() ? put : fmt::format("if ({}) {}", inside, put);
  };
  const auto place = [&](const Spot& s) {
    return fmt::format("out{} + {}{}", o, index(out.index, s), moved(out.args, out.arg_strides, s));
  };
  if (!own_places && !out.index.depends_on(view_.v)) {
    const std::string text = value(out.node, form, false, spot);
    return stored(fmt::format("put_{}({}, {});\n", dtype, place(spot), text), spot);
  }
  const std::string text = value(out.node, form, true, spot);
  if (!own_places && unit_stride(out.index, view_.v)) {
    const std::string count = spot.count.empty() ? "" : ", (int)" + spot.count;
    return stored(fmt::format("store_{}({}, {}{});\n", dtype, place(spot), text, count), spot);
  }
  Spot lane = spot;
  lane.names[static_cast<std::size_t>(view_.v)] =
      fmt::format("({} + l)", spot.names[static_cast<std::size_t>(view_.v)]);
  return fmt::format("{{ const {} g = {}; for (int l = 0; l < {}; ++l) {}}}\n", type_name(form, true), text,
                     spot.count.empty() ? "W" : spot.count,
                     stored(fmt::format("put_{}({}, g[l]);", dtype, place(lane)), lane));
}

std::string Printer::store(int o, const Spot& spot, bool stream) {
  const auto& out = view_.kernel.outputs[static_cast<std::size_t>(o)];
  if (out.writes_places()) {
    used_.insert("store_" + std::string(name(out.dtype)));
    return scatter(o, spot);
  }
  const std::string dtype(name(out.dtype));
  used_.insert("store_" + dtype);
  const bool moves = out.index.depends_on(view_.v);
  const Form form = form_of(out.dtype);
  if (!moves)
    return fmt::format("put_{}(out{} + {}, {});\n", dtype, o, index(out.index, spot),
                       value(out.node, form, false, spot));
  const std::string text = value(out.node, form, true, spot);
  if (!unit_stride(out.index, view_.v)) {
    Spot lane = spot;
    lane.names[static_cast<std::size_t>(view_.v)] =
        fmt::format("({} + l)", spot.names[static_cast<std::size_t>(view_.v)]);
    return fmt::format("{{ const {} g = {}; for (int l = 0; l < {}; ++l) put_{}(out{} + {}, g[l]); }}\n",
                       type_name(form, true), text, spot.count.empty() ? "W" : spot.count, dtype, o,
                       index(out.index, lane));
  }
  const std::string to = fmt::format("out{} + {}", o, index(out.index, spot));
  if (!spot.count.empty()) return fmt::format("store_{}({}, {}, (int){});\n", dtype, to, text, spot.count);
  if (stream && out.dtype == DType::f32)
    return fmt::format(
        "{{ float* const to = {}; if (((u64)to & (W * 4 - 1)) == 0) stream_f32(to, {}); else store_f32(to, {}); }}\n",
        to, text, text);
  return fmt::format("store_{}({}, {});\n", dtype, to, text);
}

}  // namespace planish::codegen::cpp
