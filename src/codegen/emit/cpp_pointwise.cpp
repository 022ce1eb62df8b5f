#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/cpp_plan.h"
#include "codegen/emit/expression.h"

namespace planish::codegen::cpp {
namespace {

std::vector<int> output_nodes(const View& view) {
  std::vector<int> roots;
  for (const auto& o : view.kernel.outputs) {
    roots.push_back(o.node);
    roots.insert(roots.end(), o.args.begin(), o.args.end());
  }
  return printing::closure(view.kernel, roots, [](int) { return false; });
}

/// Scalars that the vector loop needs: everything that does not move with it.
std::string scalars(const View& view, const std::vector<int>& nodes, Printer& printer, const Spot& spot) {
  std::string out;
  for (int n : nodes)
    if (!view.vec(n)) out += printer.define(n, spot);
  return out;
}

std::string body(const View& view, const Plan& plan, const std::vector<int>& nodes, Printer& printer,
                 const Spot& spot) {
  std::string out;
  for (int n : nodes)
    if (view.vec(n)) out += printer.define(n, spot);
  for (std::size_t o = 0; o < view.kernel.outputs.size(); ++o)
    out += printer.store(static_cast<int>(o), spot, plan.stream);
  return out;
}

/// The loop over [from, to) of the vector variable.
std::string line(const View& view, const Plan& plan, const std::vector<int>& nodes, Printer& printer,
                 const std::string& from, const std::string& to) {
  std::string out = fmt::format("i64 j = {};\n", from);
  const auto v = static_cast<std::size_t>(view.v);
  if (plan.unroll > 1) {
    out += fmt::format("for (; j + {0} * W <= {1}; j += {0} * W) {{\n", plan.unroll, to);
    for (int u = 0; u < plan.unroll; ++u) {
      Spot s = plain_spot(view);
      s.names[v] = u ? fmt::format("(j + {} * W)", u) : "j";
      s.suffix = fmt::format("_{}", u);
      out += "{\n" + body(view, plan, nodes, printer, s) + "}\n";
    }
    out += "}\n";
  }
  Spot s = plain_spot(view);
  s.names[v] = "j";
  out += fmt::format("for (; j + W <= {}; j += W) {{\n{}}}\n", to, body(view, plan, nodes, printer, s));
  s.count = "count";
  out += fmt::format("if (j < {0}) {{\nconst i64 count = {0} - j;\n(void)count;\n{1}}}\n", to,
                     body(view, plan, nodes, printer, s));
  return out;
}

/// W x W blocks whose strided loads are contiguous along u: whole cache lines are read and turned in registers.
std::string block(const View& view, const Plan& plan, const std::vector<int>& nodes, Printer& printer,
                  const std::vector<int>& turned) {
  std::string out;
  const auto v = static_cast<std::size_t>(view.v), u = static_cast<std::size_t>(plan.u);
  for (int id : turned) {
    const Node& n = view.kernel.nodes[static_cast<std::size_t>(id)];
    Spot s = plain_spot(view);
    s.names[v] = "(j + l)";
    s.names[u] = "a";
    out += fmt::format(
        "vf t{0}[W];\nfor (int l = 0; l < W; ++l) t{0}[l] = load_f32((const float*)in{1} + {2});\ntranspose(t{0});\n",
        id, n.input, printer.index(n.index, s));
  }
  printer.used().insert("transpose");
  printer.used().insert("load_f32");
  printer.replaced = [&](int id) -> std::string {
    if (std::find(turned.begin(), turned.end(), id) == turned.end()) return "";
    return view.kernel.nodes[static_cast<std::size_t>(id)].dtype == DType::i32 ? fmt::format("(vi)t{}[k]", id)
                                                                               : fmt::format("t{}[k]", id);
  };
  Spot s = plain_spot(view);
  s.names[v] = "j";
  out += fmt::format("for (int k = 0; k < W; ++k) {{\nconst i64 d{} = a + k;\n{}{}}}\n", plan.u,
                     scalars(view, nodes, printer, plain_spot(view)), body(view, plan, nodes, printer, s));
  printer.replaced = nullptr;
  return out;
}

std::string tiled(const View& view, const Plan& plan, const std::vector<int>& nodes, Printer& printer) {
  std::vector<int> turned;
  tile_variable(view.kernel, view.v, &turned);
  const std::int64_t eu = view.kernel.space.extents[static_cast<std::size_t>(plan.u)],
                     ev = view.kernel.space.extents[static_cast<std::size_t>(view.v)];
  std::vector<int> order;
  std::int64_t rows = 1;
  for (int i = 0; i < view.variables(); ++i) {
    if (i == view.v || i == plan.u) continue;
    order.push_back(i);
    rows *= view.kernel.space.extents[static_cast<std::size_t>(i)];
  }
  const std::int64_t tu = (eu + plan.tile - 1) / plan.tile, tv = (ev + plan.tile - 1) / plan.tile;
  std::string out =
      fmt::format("for (i64 unit = {0}LL * tid / team; unit < {0}LL * (tid + 1) / team; ++unit) {{\n", rows * tu * tv);
  out += fmt::format("const i64 row = unit / {}, ua = unit / {} % {} * {}, va = unit % {} * {};\n", tu * tv, tv, tu,
                     plan.tile, tv, plan.tile);
  out += fmt::format(
      "const i64 ub = ua + {0} < {1} ? ua + {0} : {1}, vb_ = va + {0} < {2} ? va + {0} : {2};\n(void)row;\n", plan.tile,
      eu, ev);
  out += decompose(view, order, "row");
  const auto rest = [&](const std::string& from) {
    return fmt::format("{{\n{}{}}}\n", scalars(view, nodes, printer, plain_spot(view)),
                       line(view, plan, nodes, printer, from, "vb_"));
  };
  out += "i64 a = ua;\nfor (; a + W <= ub; a += W) {\ni64 j = va;\n";
  out += fmt::format("for (; j + W <= vb_; j += W) {{\n{}}}\n", block(view, plan, nodes, printer, turned));
  out += fmt::format("if (j < vb_) {{ const i64 from = j; for (i64 d{} = a; d{} < a + W; ++d{}) {}}}\n}}\n", plan.u,
                     plan.u, plan.u, rest("from"));
  out += fmt::format("for (i64 d{0} = a; d{0} < ub; ++d{0}) {1}}}\n", plan.u, rest("va"));
  return out;
}

}  // namespace

std::string pointwise_body(const View& view, const Plan& plan, Printer& printer) {
  const auto nodes = output_nodes(view);
  if (plan.u >= 0) return tiled(view, plan, nodes, printer);
  const std::int64_t ev = view.kernel.space.extents[static_cast<std::size_t>(view.v)];
  std::vector<int> order;
  std::int64_t rows = 1;
  for (int i = 0; i < view.variables(); ++i) {
    if (i == view.v) continue;
    order.push_back(i);
    rows *= view.kernel.space.extents[static_cast<std::size_t>(i)];
  }
  const std::int64_t chunks = std::max<std::int64_t>(1, (ev + plan.chunk - 1) / plan.chunk);
  std::string out =
      fmt::format("for (i64 unit = {0}LL * tid / team; unit < {0}LL * (tid + 1) / team; ++unit) {{\n", rows * chunks);
  out += fmt::format(
      "const i64 row = unit / {0}, from = unit % {0} * {1}, to = from + {1} < {2} ? from + {1} : {2};\n(void)row;\n",
      chunks, plan.chunk, ev);
  out += decompose(view, order, "row");
  out += scalars(view, nodes, printer, plain_spot(view));
  out += line(view, plan, nodes, printer, "from", "to");
  return out + "}\n";
}

}  // namespace planish::codegen::cpp
