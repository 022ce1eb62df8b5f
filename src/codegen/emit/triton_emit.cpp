#include "codegen/emit/triton_emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "codegen/emit/early_stores.h"
#include "codegen/emit/expression.h"
#include "codegen/emit/triton_plan.h"
#include "codegen/emit/triton_value.h"

namespace planish::codegen::printing {
namespace {

/// Writes the body of one kernel. A program of a row kernel works on a tile of [rows, block] elements: what depends on
/// the row alone has shape [rows, 1], on the place in the row alone [1, block]. A program of a pointwise kernel works
/// on [block] elements.
class Writer {
 public:
  Writer(const Kernel& kernel, const TritonPlan& plan)
      : kernel_(kernel),
        plan_(plan),
        places_(place(kernel)),
        store_sweep_(store_sweeps(kernel)),
        known_(kernel.nodes.size()) {
    const auto count = kernel.space.extents.size();
    variables_.assign(count, "0");
    outer_ = plan.row ? count - static_cast<std::size_t>(kernel.inner) : 0;
  }

  std::string body() {
    if (plan_.row) {
      rows();
    } else {
      points();
    }
    return std::move(out_);
  }

 private:
  /// What a value, an index or a mask varies with.
  struct Reach {
    bool row = false, along = false;
    Reach operator|(const Reach& other) const { return {row || other.row, along || other.along}; }
    bool within(const Reach& other) const { return (!row || other.row) && (!along || other.along); }
  };

  void line(std::string_view text) { out_ += fmt::format("{:{}}{}\n", "", indent_, text); }

  Reach reach(const ir::IndexExpr& e) const {
    Reach r;
    for (std::size_t v = 0; v < variables_.size(); ++v) {
      if (kernel_.space.extents[v] > 1 && e.depends_on(static_cast<int>(v))) (v < outer_ ? r.row : r.along) = true;
    }
    return r;
  }

  /// Defines the variables [first, last) from their linear position.
  void decode(std::string_view position, std::size_t first, std::size_t last) {
    std::int64_t below = 1;
    std::vector<std::string> lines;
    for (std::size_t v = last; v-- > first;) {
      const std::int64_t extent = kernel_.space.extents[v];
      if (extent == 1) continue;
      std::string text(position);
      const bool outermost =
          std::ranges::all_of(std::views::iota(first, v), [&](std::size_t u) { return kernel_.space.extents[u] == 1; });
      if (below != 1) text = fmt::format("{} // {}", text, below);
      if (!outermost) text = below != 1 ? fmt::format("({}) % {}", text, extent) : fmt::format("{} % {}", text, extent);
      below *= extent;
      variables_[v] = fmt::format("x{}", v);
      lines.push_back(fmt::format("x{} = {}", v, text));
    }
    for (const auto& one : lines | std::views::reverse) line(one);
  }

  std::string index(const ir::IndexExpr& e) const { return triton_index(e, kernel_.space, variables_); }

  /// An index that has at least the shape of `shape`, so that a mask of that shape fits it.
  std::string index(const ir::IndexExpr& e, const Reach& shape) const {
    std::string text = index(e);
    const Reach own = reach(e);
    if (shape.row && !own.row) text += " + (r - r)";
    if (shape.along && !own.along) text += plan_.row ? " + (j - j)" : " + (p - p)";
    return text;
  }

  /// Positions beyond the end, among what varies with `shape`.
  std::vector<std::string> masks(const Reach& shape) const {
    std::vector<std::string> out;
    if (shape.row && masked_rows_) out.emplace_back("in_r");
    if (shape.along && masked_along_) out.emplace_back(plan_.row ? "in_j" : "in_p");
    return out;
  }

  static std::string joined(const std::vector<std::string>& parts) {
    std::string out;
    for (const auto& part : parts) out += (out.empty() ? "" : " & ") + part;
    return out;
  }

  void load(int id) {
    const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
    const DType stored = kernel_.inputs[static_cast<std::size_t>(node.input)].dtype;
    Reach shape = reach(node.index);
    for (const auto& bound : node.where) shape = shape | reach(bound.e);
    std::vector<std::string> mask = masks(shape);
    const std::string where = triton_where(node.where, kernel_.space, variables_);
    if (!where.empty()) {
      line(fmt::format("w{} = {}", id, where));
      mask.push_back(fmt::format("w{}", id));
    }
    std::string text = fmt::format("tl.load(in{} + ({})", node.input, index(node.index, shape));
    if (!mask.empty()) text += fmt::format(", mask={}, other={}", joined(mask), is_floating(stored) ? "0.0" : "0");
    if (plan_.stream_loads && shape.along) text += ", eviction_policy=\"evict_first\"";
    text = triton_loaded(text + ")", stored);
    // What a masked load gives is the zero of its type.
    const bool zero = is_floating(node.dtype) ? node.value == 0 && !std::signbit(node.value) : node.bits == 0;
    if (!where.empty() && !zero)
      text = fmt::format("tl.where(w{}, {}, {})", id, text, triton_literal(node.dtype, node.value, node.bits));
    line(fmt::format("v{} = {}", id, text));
  }

  void node(int id) {
    const Node& n = kernel_.nodes[static_cast<std::size_t>(id)];
    if (n.op == Op::load) return load(id);
    if (n.op == Op::reduced) {
      const Reduction& reduction = kernel_.reductions[static_cast<std::size_t>(n.reduction)];
      line(fmt::format("v{} = {}", id, triton_convert(fmt::format("s{}", n.reduction), reduction.accumulate, n.dtype)));
      return;
    }
    if (n.op == Op::index && !reach(n.index).row && !reach(n.index).along) {
      const auto at = n.index.range(kernel_.space).first;
      line(fmt::format("v{} = {}", id, triton_convert(triton_literal(DType::i64, 0, at), DType::i64, n.dtype)));
      return;
    }
    line(fmt::format("v{} = {}", id,
                     triton_operation(kernel_, id, plan_.fast, n.op == Op::index ? index(n.index) : std::string())));
  }

  /// The nodes that `roots` need and that are not at hand. Those that do not vary along the row are kept for later.
  void nodes(const std::vector<int>& roots, bool along) {
    const auto at_hand = [&](int id) { return known_[static_cast<std::size_t>(id)]; };
    for (const int id : closure(kernel_, roots, at_hand)) {
      if (plan_.row && places_[static_cast<std::size_t>(id)].inner != along) continue;
      node(id);
      // In a loop they are there for one block of the row only.
      known_[static_cast<std::size_t>(id)] = true;
    }
  }

  void store(std::size_t o) {
    const Output& output = kernel_.outputs[o];
    const DType from = kernel_.nodes[static_cast<std::size_t>(output.node)].dtype;
    const Reach shape{plan_.row, !plan_.row || !output.per_row};
    std::string text = fmt::format("tl.store(out{} + ({}), {}", o, index(output.index, shape),
                                   triton_stored(fmt::format("v{}", output.node), from, output.dtype));
    const auto mask = masks(shape);
    if (!mask.empty()) text += ", mask=" + joined(mask);
    if (plan_.stream_stores) text += ", cache_modifier=\".cs\"";
    line(text + ")");
  }

  void points() {
    const char* program = plan_.wide ? "tl.program_id(0).to(tl.int64)" : "tl.program_id(0)";
    line(fmt::format("p = {} * {} + tl.arange(0, {})", program, plan_.block, plan_.block));
    masked_along_ = plan_.length % plan_.block != 0;
    if (masked_along_) line(fmt::format("in_p = p < {}", plan_.length));
    decode("p", 0, variables_.size());
    std::vector<int> roots;
    for (const auto& output : kernel_.outputs) roots.push_back(output.node);
    nodes(roots, true);
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) store(o);
  }

  void place_in_row(std::string_view start) {
    const char* wide = plan_.wide ? ".to(tl.int64)" : "";
    line(fmt::format("j = ({}tl.arange(0, {})[None, :]){}", start, plan_.block, wide));
    if (masked_along_) line(fmt::format("in_j = j < {}", plan_.length));
    decode("j", outer_, variables_.size());
  }

  /// `body` once, or for each block of the row.
  template <typename Body>
  void sweep(Body body) {
    if (plan_.trips == 1) return body();
    const std::vector<bool> before = known_;
    line(fmt::format("for start in range(0, {}, {}):", plan_.length, plan_.block));
    indent_ += 4;
    place_in_row("start + ");
    body();
    indent_ -= 4;
    known_ = before;
  }

  void fold(int phase) {
    std::vector<std::size_t> mine;
    std::vector<int> roots;
    for (std::size_t i = 0; i < kernel_.reductions.size(); ++i) {
      if (kernel_.reductions[i].phase != phase) continue;
      mine.push_back(i);
      roots.push_back(kernel_.reductions[i].arg);
    }
    const std::vector<std::size_t> stored = stored_in(phase);
    for (const std::size_t o : stored) roots.push_back(kernel_.outputs[o].node);
    nodes(roots, false);
    const std::string tile = fmt::format("({}, {})", plan_.rows, plan_.block);
    const bool loop = plan_.trips > 1;
    for (const std::size_t i : mine) {
      const TritonFold f = triton_fold(kernel_.reductions[i]);
      if (loop) line(fmt::format("a{} = tl.full({}, {}, {})", i, tile, f.neutral, triton_type(f.type)));
    }
    sweep([&] {
      nodes(roots, true);
      for (const std::size_t i : mine) {
        const TritonFold f = triton_fold(kernel_.reductions[i]);
        std::string term = triton_term(kernel_, kernel_.reductions[i]);
        if (masked_along_) term = fmt::format("tl.where(in_j, {}, {})", term, typed(f));
        term = fmt::format("tl.broadcast_to({}, {})", term, tile);
        line(loop ? fmt::format("a{0} = {1}(a{0}, {2})", i, f.combine, term) : fmt::format("a{} = {}", i, term));
      }
      for (const std::size_t o : stored) store(o);
    });
    for (const std::size_t i : mine) {
      const Reduction& reduction = kernel_.reductions[i];
      const TritonFold f = triton_fold(reduction);
      const std::string folded = fmt::format("tl.reduce(a{}, 1, {}, keep_dims=True)", i, f.combine);
      line(fmt::format("s{} = {}", i, triton_convert(folded, f.type, reduction.accumulate)));
    }
  }

  /// Outputs that the sweep of a phase stores, or the one after all of them.
  std::vector<std::size_t> stored_in(int sweep) const {
    std::vector<std::size_t> out;
    for (std::size_t o = 0; o < store_sweep_.size(); ++o) {
      if (store_sweep_[o] == sweep) out.push_back(o);
    }
    return out;
  }

  static std::string typed(const TritonFold& f) {
    return fmt::format("tl.full((), {}, {})", f.neutral, triton_type(f.type));
  }

  void rows() {
    const char* program = plan_.wide ? "tl.program_id(0).to(tl.int64)" : "tl.program_id(0)";
    line(fmt::format("r = {} * {} + tl.arange(0, {})[:, None]", program, plan_.rows, plan_.rows));
    masked_rows_ = kernel_.outer_extent() % plan_.rows != 0;
    masked_along_ = plan_.length % plan_.block != 0;
    if (masked_rows_) line(fmt::format("in_r = r < {}", kernel_.outer_extent()));
    decode("r", 0, outer_);
    if (plan_.trips == 1) place_in_row("");
    const int count = phases(kernel_);
    for (int phase = 0; phase < count; ++phase) fold(phase);
    std::vector<int> of_rows, of_points;
    const std::vector<std::size_t> last = stored_in(count);
    for (const std::size_t o : last) of_points.push_back(kernel_.outputs[o].node);
    for (const auto& output : kernel_.outputs) {
      if (output.per_row) of_rows.push_back(output.node);
    }
    nodes(of_rows, false);
    nodes(of_points, false);
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
      if (kernel_.outputs[o].per_row) store(o);
    }
    if (of_points.empty()) return;
    sweep([&] {
      nodes(of_points, true);
      for (const std::size_t o : last) store(o);
    });
  }

  const Kernel& kernel_;
  const TritonPlan& plan_;
  std::vector<Place> places_;
  std::vector<int> store_sweep_;
  std::vector<bool> known_;             ///< by node: printed already, and still in scope
  std::vector<std::string> variables_;  ///< by variable of the space
  std::size_t outer_ = 0;               ///< how many of them are outer ones
  bool masked_rows_ = false, masked_along_ = false;
  int indent_ = 4;
  std::string out_;
};

}  // namespace

Result<Emitted> emit_triton(const Kernel& kernel, const Genome& genome) {
  const TritonPlan plan = make_triton_plan(kernel, genome);
  std::string pointers, signature;
  Emitted emitted;
  const auto pointer = [&](std::string_view name, std::size_t i, DType dtype, Emitted::Argument::Kind kind) {
    pointers += fmt::format("{}{}{}", pointers.empty() ? "" : ", ", name, i);
    signature += fmt::format("{}*{}:16", signature.empty() ? "" : ",", triton_element(dtype));
    emitted.args.push_back({kind, static_cast<int>(i)});
  };
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i)
    pointer("in", i, kernel.inputs[i].dtype, Emitted::Argument::Kind::input);
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o)
    pointer("out", o, kernel.outputs[o].dtype, Emitted::Argument::Kind::output);
  const std::string body = Writer(kernel, plan).body();
  emitted.language = "triton";
  emitted.entry = "planish_kernel";
  emitted.source = triton_prelude(body) + fmt::format("@triton.jit\ndef {}({}):\n{}", emitted.entry, pointers, body);
  emitted.flags = {fmt::format("--num-warps={}", plan.threads / 32), "--signature=" + signature};
  emitted.grid[0] = plan.programs;
  emitted.block[0] = plan.threads;
  return emitted;
}

}  // namespace planish::codegen::printing
