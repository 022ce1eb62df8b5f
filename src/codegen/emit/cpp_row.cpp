#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "codegen/emit/cpp_kind.h"
#include "codegen/emit/cpp_plan.h"
#include "codegen/emit/early_stores.h"
#include "codegen/emit/expression.h"
#include "codegen/fold.h"

namespace planish::codegen::cpp {
namespace {

/// How one reduction is kept. fp32 sums and products have two levels: vectors of fp32 over a block of at most 16 steps,
/// then double, so that a row of a million elements is as accurate as a pairwise summation.
struct Fold {
  ReduceKind kind = ReduceKind::sum;
  Form form = Form::f;  ///< of what is accumulated
  bool two_level = false;
  Form position = Form::i;  ///< argmax and argmin: of the position
  std::string part;         ///< type of a vector accumulator
  std::string state;        ///< type of the whole-row accumulator
  std::string neutral;      ///< scalar
};

Fold fold_of(const View& view, const Reduction& r) {
  Fold f;
  f.kind = r.kind;
  const Form arg = view.form[static_cast<std::size_t>(r.arg)];
  const FoldInfo& fold = info(r.kind);
  if (fold.truth) {
    f.form = Form::b;
    f.neutral = fold.identity == Identity::zero ? "0" : "-1";
  } else {
    f.form = !fold.adds                   ? (arg == Form::b ? Form::i : arg)
             : r.accumulate == DType::f64 ? Form::d
             : is_floating(r.accumulate)  ? Form::f
                                          : Form::l;
    f.neutral = identity_text(fold.identity, f.form);
  }
  f.two_level = fold.adds && f.form == Form::f;
  f.part = type_name(f.form, true);
  if (r.at >= 0) {
    f.position = view.form[static_cast<std::size_t>(r.at)];
    f.part = fmt::format("best<{}, {}>", f.part, type_name(f.position, true));
  }
  f.state = f.two_level ? "wide" : f.part;
  return f;
}

std::string nowhere(const Fold& f) {
  return f.position == Form::l ? "9223372036854775807LL" : "2147483647";
}
std::string neutral_vector(const Fold& f) {
  if (finds_position(f.kind)) return fmt::format("{{splat({}), splat({})}}", f.neutral, nowhere(f));
  return fmt::format("splat({})", f.neutral);
}
std::string neutral_state(const Fold& f) {
  return f.two_level
             ? fmt::format("{{hd{{}} + {0}, hd{{}} + {0}}}", info(f.kind).identity == Identity::zero ? "0.0" : "1.0")
             : neutral_vector(f);
}

/// `into` combined with the vector `x`.
std::string combine(const Fold& f, const std::string& into, const std::string& x) {
  const FoldSpelling& how = info(f.kind).cpp;
  return fmt::format(fmt::runtime(f.form == Form::l ? how.into_whole : how.into), into, x) + "\n";
}
/// The same into a state of two levels, which has functions of those of whole numbers' names.
std::string combine_state(const Fold& f, const std::string& into, const std::string& x) {
  if (f.two_level) return fmt::format(fmt::runtime(info(f.kind).cpp.into_whole), into, x) + "\n";
  return combine(f, into, x);
}

class Row {
 public:
  Row(const View& view, const Plan& plan, Printer& printer, std::string& shared, Room& room)
      : view_(view), plan_(plan), printer_(printer), shared_(shared), memory_(room) {
    const Kernel& k = view.kernel;
    for (const auto& r : k.reductions) folds_.push_back(fold_of(view, r));
    std::vector<int> roots;
    for (const auto& o : k.outputs) roots.push_back(o.node);
    for (const auto& r : k.reductions) {
      roots.push_back(r.arg);
      if (r.at >= 0) roots.push_back(r.at);
    }
    for (const auto& s : k.scans) {
      roots.push_back(s.arg);
      if (s.at >= 0) roots.push_back(s.at);
    }
    needed_ = printing::closure(k, roots, [](int) { return false; });
    store_sweep_ = printing::store_sweeps(k);
    for (std::size_t r = 0; r < k.reductions.size(); ++r) {
      if (k.reductions[r].part)
        parts_.push_back(static_cast<int>(r));
      else
        phases_ = std::max(phases_, k.reductions[r].phase + 1);
    }
    for (int i = view.variables() - k.inner; i < view.variables(); ++i)
      if (i != view.v) loops_.push_back(i);
    for (const char* s : {"wide", "wide_d", "wide_l", "fold", "best"}) printer_.used().insert(s);
    base_ = plain_spot(view);
  }

  std::string text() {
    if (cpp_kind(view_.kernel).column_states) return both_ways();
    return along();
  }

 private:
  std::string along() { return !view_.column ? rows() : plan_.panel > 0 ? panels() : columns(); }
  std::int64_t extent(int variable) const { return view_.kernel.space.extent(variable); }

  std::string rows() {
    std::vector<int> order;
    std::int64_t count = 1;
    for (int i = 0; i < view_.variables() - view_.kernel.inner; ++i) order.push_back(i), count *= extent(i);
    std::string out = buffers();
    out += plan_.split
               ? fmt::format("for (i64 row = 0; row < {}; ++row) {{\n", count)
               : fmt::format("for (i64 row = {0}LL * tid / team; row < {0}LL * (tid + 1) / team; ++row) {{\n", count);
    out += decompose(view_, order, "row");
    Spot spot = base_;
    spot.suffix = "";
    return out + "(void)row;\n" + phases({spot}) + "}\n";
  }

  // ---- both ways: each thread takes a run of rows and keeps what it knows of all columns in memory ----

  bool of_column(int n) const {
    const Node& node = view_.kernel.nodes[static_cast<std::size_t>(n)];
    return node.op == Op::reduced && view_.kernel.reductions[static_cast<std::size_t>(node.reduction)].across;
  }

  /// A column's result, read at `position`.
  std::string column_value(int n, const Spot& s, const std::string& position) {
    const int r = view_.kernel.nodes[static_cast<std::size_t>(n)].reduction;
    const Fold& f = folds_[static_cast<std::size_t>(r)];
    const Form to = view_.form[static_cast<std::size_t>(n)];
    const std::string value = fmt::format("({0})*(const {0}_u*)(res{1} + ({2}))", type_name(f.form, true), r, position);
    return fmt::format("const {} n{}{} = {};\n", type_name(to, true), n, s.suffix,
                       printer_.convert(value, f.form, to, true));
  }
  std::string column_scalar(int n) {
    const int r = view_.kernel.nodes[static_cast<std::size_t>(n)].reduction;
    const Form to = view_.form[static_cast<std::size_t>(n)];
    return fmt::format(
        "const {} n{} = {};\n", type_name(to, false), n,
        printer_.convert(fmt::format("res{}[0]", r), folds_[static_cast<std::size_t>(r)].form, to, false));
  }

  /// The columns' running values with the vector at hand.
  std::string cross(const Spot& spot, const std::string& position) {
    std::string out;
    for (int r : crossing_) {
      const Fold& f = folds_[static_cast<std::size_t>(r)];
      std::string x = printer_.value(view_.kernel.reductions[static_cast<std::size_t>(r)].arg, f.form, true, spot);
      if (!spot.count.empty()) x = fmt::format("sel(first((int){}), {}, splat({}))", spot.count, x, f.neutral);
      const std::string type(type_name(f.form, true));
      out += fmt::format("{{ {0} run = ({0})*(const {0}_u*)(q{1} + ({2}));\n{3}*({0}_u*)(q{1} + ({2})) = run; }}\n",
                         type, r, position, combine(f, "run", x));
    }
    return out;
  }

  static std::string combine_scalars(ReduceKind kind, bool integer, const std::string& a, const std::string& b) {
    const FoldSpelling& how = info(kind).cpp;
    return fmt::format(fmt::runtime(integer ? how.whole : how.real), a, b);
  }
  std::string each_column(const std::string& body) const {
    return fmt::format("for (i64 i = 0; i < {}; ++i) {{ {} }}\n", room_.row, body);
  }

  /// Adds the fp32 parts to the totals in double, and begins them again.
  std::string put_aside() const {
    std::string out;
    for (int r : crossing_) {
      const Fold& f = folds_[static_cast<std::size_t>(r)];
      if (f.two_level)
        out += each_column(fmt::format(
            "w{0}[i] = {1}; q{0}[i] = {2};", r,
            combine_scalars(f.kind, false, fmt::format("w{}[i]", r), fmt::format("(double)q{}[i]", r)), f.neutral));
    }
    return out;
  }

  /// What the nodes of `roots` need, the arguments of rows' reductions included, and which of these those are.
  void need(const std::vector<int>& from) {
    std::vector<int> roots = from;
    active_.assign(folds_.size(), false);
    for (bool more = true; more;) {
      more = false;
      needed_ = printing::closure(view_.kernel, roots, [](int) { return false; });
      for (int n : needed_) {
        const Node& node = view_.kernel.nodes[static_cast<std::size_t>(n)];
        if (node.op != Op::reduced || of_column(n) || active_[static_cast<std::size_t>(node.reduction)]) continue;
        active_[static_cast<std::size_t>(node.reduction)] = true;
        roots.push_back(view_.kernel.reductions[static_cast<std::size_t>(node.reduction)].arg);
        more = true;
      }
    }
  }

  std::string both_ways() {
    const Kernel& k = view_.kernel;
    room_ = row_column_room(view_, plan_);
    memory_.take(room_.bytes);
    const int outer = view_.variables() - k.inner;
    std::vector<int> common, across, ends;
    std::int64_t commons = 1, rows = 1;
    for (int i = 0; i < outer; ++i) {
      const bool shared = i < outer - k.across;
      (shared ? common : across).push_back(i);
      (shared ? commons : rows) *= extent(i);
    }
    int passes = 0;
    phases_ = 0;
    std::string out;
    for (std::size_t r = 0; r < folds_.size(); ++r) {
      const Reduction& reduction = k.reductions[r];
      int& count = reduction.across ? passes : phases_;
      count = std::max(count, reduction.phase + 1);
      if (!reduction.across) continue;
      const auto scalar = type_name(folds_[r].form, false);
      out += fmt::format("{0}* const q{1} = ({0}*)(room + {2}) + tid * {3};\n", scalar, r, room_.places[r].part,
                         room_.row);
      if (folds_[r].two_level)
        out += fmt::format("double* const w{0} = (double*)(room + {1}) + tid * {2};\n", r, room_.places[r].total,
                           room_.row);
      out += fmt::format("{0}* const res{1} = ({0}*)(room + {2});\n", scalar, r, room_.places[r].result);
    }
    const std::string barrier = plan_.threads > 1 ? "#pragma omp barrier\n" : "";
    out += fmt::format("for (i64 whole = 0; whole < {}; ++whole) {{\n", commons) + decompose(view_, common, "whole") +
           "(void)whole;\n";
    for (pass_ = 0; pass_ < passes; ++pass_) {
      crossing_.clear();
      first_use_.clear();
      std::vector<int> roots;
      for (std::size_t r = 0; r < folds_.size(); ++r) {
        if (!k.reductions[r].across || k.reductions[r].phase != pass_) continue;
        crossing_.push_back(static_cast<int>(r));
        roots.push_back(k.reductions[r].arg);
      }
      for (const auto& o : k.outputs)
        if (pass_ == 0 && !o.per_column) roots.push_back(o.node);
      need(roots);
      for (int r : crossing_) {
        const Fold& f = folds_[static_cast<std::size_t>(r)];
        out += each_column(fmt::format(
            "q{}[i] = {};{}", r, f.neutral,
            !f.two_level ? std::string()
                         : fmt::format(" w{}[i] = {};", r, info(f.kind).identity == Identity::zero ? 0 : 1)));
      }
      const std::string aside = put_aside();
      out += fmt::format(
                 "{{\ni64 since = 0;\n(void)since;\nfor (i64 row = {0}LL * tid / team; row < {0}LL * (tid + 1) / team; "
                 "++row) {{\n",
                 rows) +
             decompose(view_, across, "row") + "(void)row;\n";
      Spot spot = base_;
      out += phases({spot});
      if (!aside.empty()) out += "if (++since == 32) {\nsince = 0;\n" + aside + "}\n";
      out += "}\n" + aside + "}\n" + barrier;
      // Every thread puts some columns of all threads together, in the threads' order.
      for (int r : crossing_) {
        const Fold& f = folds_[static_cast<std::size_t>(r)];
        const std::string type(f.two_level ? "double" : type_name(f.form, false)), own(f.two_level ? "w" : "q");
        out += fmt::format(
            "for (i64 i = {0}LL * tid / team; i < {0}LL * (tid + 1) / team; ++i) {{\nconst {1}* part = {2}{3} - tid * "
            "{0} + "
            "i;\n{1} all = *part;\nfor (i64 t = 1; t < team; ++t) {{ const {1} more = part[t * {0}]; all = {4}; "
            "}}\nres{3}[i] = ({5})all;\n}}\n",
            room_.row, type, own, r, combine_scalars(f.kind, f.form == Form::l, "all", "more"),
            type_name(f.form, false));
      }
      out += barrier;
    }
    // What is made of columns, once all rows are done.
    crossing_.clear();
    first_use_.clear();
    columns_only_ = true;
    std::vector<int> roots;
    for (const auto& o : k.outputs)
      if (o.per_column) roots.push_back(o.node);
    need(roots);
    out += "if (tid == 0) {\n" + fixed(0, {base_}) + sweep({base_}, {}, 0) + "}\n" + barrier;
    columns_only_ = false;
    return out + "}\n";
  }

  std::string columns() {
    std::vector<int> order;
    std::int64_t count = 1;
    for (int i = 0; i < view_.variables() - view_.kernel.inner; ++i)
      if (i != view_.v) order.push_back(i), count *= extent(i);
    const std::int64_t ev = extent(view_.v), chunks_of = static_cast<std::int64_t>(plan_.unroll) * plan_.lanes,
                       chunks = (ev + chunks_of - 1) / chunks_of;
    std::string out =
        plan_.split ? fmt::format("for (i64 unit = 0; unit < {}; ++unit) {{\n", count * chunks)
                    : fmt::format("for (i64 unit = {0}LL * tid / team; unit < {0}LL * (tid + 1) / team; ++unit) {{\n",
                                  count * chunks);
    out += fmt::format("const i64 row = unit / {0}, j0 = unit % {0} * {1};\n(void)row;\n", chunks, chunks_of) +
           decompose(view_, order, "row");
    const auto v = static_cast<std::size_t>(view_.v);
    std::vector<Spot> spots;
    for (int u = 0; u < plan_.unroll; ++u) {
      Spot s = base_;
      s.suffix = fmt::format("_{}", u);
      s.names[v] = u ? fmt::format("(j0 + {} * W)", u) : "j0";
      spots.push_back(s);
    }
    out += fmt::format("if (j0 + {} <= {}) {{\n{}}} else {{\n", chunks_of, ev, phases(spots));
    Spot s = base_;
    s.names[v] = "j";
    s.count = "count";
    out += fmt::format(
        "for (i64 j = j0; j < {0}; j += W) {{\nconst i64 count = {0} - j < W ? {0} - j : W;\n(void)count;\n{1}}}\n", ev,
        phases({s}));
    return out + "}\n}\n";
  }

  /// Columns whose states lie in memory: a few rows at a time are folded in registers, then into the states, so that
  /// memory is read along whole pieces of rows.
  std::string panels() {
    const Kernel& k = view_.kernel;
    std::vector<int> order, which;
    std::int64_t count = 1;
    for (int i = 0; i < view_.variables() - k.inner; ++i)
      if (i != view_.v) order.push_back(i), count *= extent(i);
    for (std::size_t r = 0; r < folds_.size(); ++r) which.push_back(static_cast<int>(r));
    const std::int64_t ev = extent(view_.v),
                       width = std::min(plan_.panel, (ev + plan_.lanes - 1) / plan_.lanes * plan_.lanes),
                       panels = (ev + width - 1) / width, vectors = width / plan_.lanes;
    std::string out =
        plan_.split ? fmt::format("for (i64 unit = 0; unit < {}; ++unit) {{\n", count * panels)
                    : fmt::format("for (i64 unit = {0}LL * tid / team; unit < {0}LL * (tid + 1) / team; ++unit) {{\n",
                                  count * panels);
    out += fmt::format(
               "const i64 row = unit / {0}, from = unit % {0} * {1}, to = from + {1} < {2} ? from + {1} : {2};\n"
               "(void)row;\n",
               panels, width, ev) +
           decompose(view_, order, "row") + fixed_scalars();
    for (int r : which) {
      const Fold& f = folds_[static_cast<std::size_t>(r)];
      out += fmt::format("const {0} start{1} = {3};\n{4}for (i64 i = 0; i < {2}; ++i) p{1}[i] = start{1};\n", f.state,
                         r, vectors, neutral_state(f),
                         memory_.array(f.state, fmt::format("p{}", r), vectors, state_bytes(plan_), plan_.threads));
    }
    std::string end;
    bool outermost = true;
    for (std::size_t i = 0; i + 1 < loops_.size(); ++i) {
      const auto [lo, hi] = bounds(loops_[i], outermost, false);
      out += fmt::format("for (i64 d{0} = {1}; d{0} < {2}; ++d{0}) {{\n", loops_[i], lo, hi);
      end += "}\n";
      outermost = false;
    }
    const int last = loops_.back();
    const auto [lo, hi] = bounds(last, outermost, false);
    const int height = 4 * plan_.unroll;
    const auto piece = [&](const std::string& rows, bool whole) {
      const auto vector = [&](const std::string& lanes) {
        Spot s = base_;
        s.names[static_cast<std::size_t>(view_.v)] = "j";
        s.count = lanes;
        std::string t, inside;
        for (int r : which)
          t += fmt::format("{} a{} = {};\n", folds_[static_cast<std::size_t>(r)].part, r,
                           neutral_vector(folds_[static_cast<std::size_t>(r)]));
        for (int n : panel_nodes(which)) inside += printer_.define(n, s);
        inside += stores(s) + accumulate(which, s, "a");
        t += fmt::format("{}for (i64 d{} = b; d{} < {}; ++d{}) {{\n{}}}\n",
                         whole ? fmt::format("#pragma GCC unroll {}\n", height) : "", last, last, rows, last, inside);
        for (int r : which)
          t += combine_state(folds_[static_cast<std::size_t>(r)], fmt::format("p{}[i]", r), fmt::format("a{}", r));
        return t;
      };
      return fmt::format(
          "i64 i = 0, j = from;\nfor (; j + W <= to; j += W, ++i) {{\n{}}}\nif (j < to) {{\nconst i64 count = to - "
          "j;\n(void)count;\n{}}}\n",
          vector(""), vector("count"));
    };
    out += fmt::format(
        "i64 b = {0};\nconst i64 end = {1};\nfor (; b + {2} <= end; b += {2}) {{\n{3}}}\nif (b < end) {{\n{4}}}\n", lo,
        hi, height, piece(fmt::format("b + {}", height), true), piece("end", false));
    out += end;
    if (plan_.split) out += meet_panels(which, vectors);
    const auto result = [&](const std::string& lanes) {
      Spot s = base_;
      s.names[static_cast<std::size_t>(view_.v)] = "j";
      s.count = lanes;
      std::string t;
      for (int r : which)
        t += fmt::format("const {0} s{1} = p{1}[i];\n(void)s{1};\n", folds_[static_cast<std::size_t>(r)].state, r);
      std::vector<int> roots;
      for (const auto& o : k.outputs)
        if (o.per_row) roots.push_back(o.node);
      for (int n : printing::closure(k, roots, [](int) { return false; }))
        if (!view_.inner(n) && view_.vec(n) && view_.phase[static_cast<std::size_t>(n)] == 0)
          t += printer_.define(n, s);
      t += fixed(1, {s});
      for (std::size_t o = 0; o < k.outputs.size(); ++o)
        if (k.outputs[o].per_row) t += printer_.store(static_cast<int>(o), s, false);
      return t;
    };
    out += fmt::format(
        "{}{{\ni64 i = 0, j = from;\nfor (; j + W <= to; j += W, ++i) {{\n{}}}\nif (j < to) {{\nconst i64 count = to - "
        "j;\n(void)count;\n{}}}\n}}\n",
        plan_.split ? "if (tid == 0) " : "", result(""), result("count"));
    if (plan_.split) out += "#pragma omp barrier\n";
    return out + "}\n";
  }

  /// Nodes that neither a sweep nor the vector variable moves, before any reduction.
  std::string fixed_scalars() {
    std::string out;
    for (int n : needed_)
      if (!view_.inner(n) && !view_.vec(n) && view_.phase[static_cast<std::size_t>(n)] == 0)
        out += printer_.define(n, base_);
    return out;
  }

  /// What an element of a column needs, but for the scalars above.
  std::vector<int> panel_nodes(const std::vector<int>& which) const {
    std::vector<int> roots, out;
    for (int r : which) {
      const Reduction& reduction = view_.kernel.reductions[static_cast<std::size_t>(r)];
      roots.push_back(reduction.arg);
      if (reduction.at >= 0) roots.push_back(reduction.at);
    }
    for (std::size_t o = 0; o < view_.kernel.outputs.size(); ++o)
      if (stores_now(o)) roots.push_back(view_.kernel.outputs[o].node);
    for (int n : printing::closure(view_.kernel, roots, [](int) { return false; }))
      if (view_.inner(n) || view_.vec(n)) out.push_back(n);
    return out;
  }

  /// The first thread puts the parts of all threads together, in their order.
  std::string meet_panels(const std::vector<int>& which, std::int64_t vectors) {
    std::string put, take;
    for (int r : which) {
      const Fold& f = folds_[static_cast<std::size_t>(r)];
      shared_ += memory_.shared(f.state, fmt::format("part{}", r), plan_.threads * vectors, state_bytes(plan_));
      put += fmt::format("for (i64 i = 0; i < {0}; ++i) part{1}[tid * {0} + i] = p{1}[i];\n", vectors, r);
      take += fmt::format("for (i64 t = 1; t < team; ++t) for (i64 i = 0; i < {0}; ++i) {{ {1} }}\n", vectors,
                          combine_state(f, fmt::format("p{}[i]", r), fmt::format("part{}[t * {} + i]", r, vectors)));
    }
    return fmt::format("{}#pragma omp barrier\nif (tid == 0) {{\n{}}}\n", put, take);
  }

  std::string buffers() {
    std::string out;
    for (std::size_t i = 0; i < view_.buffered.size(); ++i)
      if (view_.buffered[i])
        out += memory_.array("float", fmt::format("buffer{}", i), view_.kernel.inner_extent() + plan_.lanes, 4,
                             plan_.threads);
    return out;
  }

  /// Nodes that do not move within a sweep and become known after `phase` phases.
  std::string fixed(int phase, const std::vector<Spot>& spots) {
    std::string out;
    for (int n : needed_) {
      const auto at = static_cast<std::size_t>(n);
      if (view_.inner(n) || view_.phase[at] != phase) continue;
      if (view_.kernel.nodes[at].op == Op::reduced) {
        out += reduced(n, spots);
      } else if (!view_.vec(n)) {
        out += printer_.define(n, spots[0]);
      } else {
        for (const auto& s : spots) out += printer_.define(n, s);
      }
    }
    return out;
  }

  std::string reduced(int node, const std::vector<Spot>& spots) {
    const auto at = static_cast<std::size_t>(node);
    const int r = view_.kernel.nodes[at].reduction;
    const Fold& f = folds_[static_cast<std::size_t>(r)];
    std::string out;
    const Form to = view_.form[at];
    for (const auto& s : spots) {
      const std::string state = fmt::format("s{}{}", r, s.suffix);
      const bool position = finds_position(f.kind);
      const Form from = position ? f.position : f.form;
      if (view_.vec(node)) {
        const std::string value = f.two_level ? fmt::format("narrow({})", state) : state + (position ? ".i" : "");
        out += fmt::format("const {} n{}{} = {};\n", type_name(to, true), node, s.suffix,
                           printer_.convert(value, from, to, true));
        continue;
      }
      std::string value = fmt::format(fmt::runtime(info(f.kind).cpp.lanes), state, type_name(f.form, false));
      // Lanes are equal where the argument does not move along the vector variable: a column's scalar is any of them.
      if (view_.column) {
        value = f.two_level ? fmt::format("narrow({})[0]", state) : fmt::format("{}{}[0]", state, position ? ".i" : "");
      }
      out += fmt::format("const {} n{} = {};\n", type_name(to, false), node, printer_.convert(value, from, to, false));
      break;
    }
    return out;
  }

  std::string phases(const std::vector<Spot>& spots) {
    std::string out = fixed(0, spots);
    for (int p = 0; p < phases_; ++p) {
      std::vector<int> which;
      for (std::size_t r = 0; r < folds_.size(); ++r)
        if (view_.kernel.reductions[r].phase == p && !view_.kernel.reductions[r].across &&
            !view_.kernel.reductions[r].part && (active_.empty() || active_[r]))
          which.push_back(static_cast<int>(r));
      if (which.empty() && !active_.empty()) continue;
      for (int r : which)
        for (const auto& s : spots)
          out += fmt::format("{} s{}{} = {};\n", folds_[static_cast<std::size_t>(r)].state, r, s.suffix,
                             neutral_state(folds_[static_cast<std::size_t>(r)]));
      out += sweep(spots, which, p);
      if (plan_.split) out += meet(spots, which);
      out += fixed(p + 1, spots);
    }
    bool last = false;
    std::string once;
    for (std::size_t o = 0; o < view_.kernel.outputs.size(); ++o) {
      if (view_.kernel.outputs[o].per_column || view_.kernel.outputs[o].per_part) continue;
      if (!view_.kernel.outputs[o].per_row) {
        last = last || store_sweep_[o] == phases_ || !cpp_kind(view_.kernel).early_stores;
        continue;
      }
      if (pass_ > 0) continue;
      // A full chunk of columns stores whole vectors; scalars are stored once.
      const bool moves = view_.kernel.outputs[o].index.depends_on(view_.v);
      for (const auto& s : spots) {
        once += printer_.store(static_cast<int>(o), s, false);
        if (!moves) break;
      }
    }
    if (!once.empty()) out += plan_.split ? fmt::format("if (tid == 0) {{\n{}}}\n", once) : once;
    if (last || !crossing_.empty() || !parts_.empty()) out += sweep(spots, {}, phases_);
    return out;
  }

  /// Threads that share a row put their parts together; each then holds the same result.
  std::string meet(const std::vector<Spot>& spots, const std::vector<int>& which) {
    std::string put, take;
    for (int r : which) {
      const Fold& f = folds_[static_cast<std::size_t>(r)];
      for (const auto& s : spots) {
        const std::string part = fmt::format("part{}{}", r, s.suffix), state = fmt::format("s{}{}", r, s.suffix);
        shared_ += memory_.shared(f.state, part, plan_.threads, state_bytes(plan_));
        put += fmt::format("{}[tid] = {};\n", part, state);
        take += fmt::format("{} = {}[0];\nfor (i64 t = 1; t < team; ++t) {{ {} }}\n", state, part,
                            combine_state(f, state, part + "[t]"));
      }
    }
    return put + "#pragma omp barrier\n" + take + "#pragma omp barrier\n";
  }

  /// One pass over the inner variables: folds `which` (in the last one nothing), and writes the outputs whose turn it
  /// is.
  std::string sweep(const std::vector<Spot>& spots, const std::vector<int>& which, int phase) {
    std::vector<int> roots;
    for (int r : which) {
      const Reduction& reduction = view_.kernel.reductions[static_cast<std::size_t>(r)];
      roots.push_back(reduction.arg);
      if (reduction.at >= 0) roots.push_back(reduction.at);
    }
    sweep_ = phase;
    for (std::size_t o = 0; o < view_.kernel.outputs.size(); ++o)
      if (stores_now(o)) roots.push_back(view_.kernel.outputs[o].node);
    if (which.empty())
      for (const auto* folded : {&crossing_, &parts_})
        for (int r : *folded) roots.push_back(view_.kernel.reductions[static_cast<std::size_t>(r)].arg);
    const bool scans = which.empty() && !view_.kernel.scans.empty();
    if (scans) {
      for (const auto& s : view_.kernel.scans) {
        roots.push_back(s.arg);
        if (s.at >= 0) roots.push_back(s.at);
      }
    }
    const auto kept = [&](int n) {
      return view_.buffered[static_cast<std::size_t>(n)] && view_.phase[static_cast<std::size_t>(n)] < phase &&
             first_use_[static_cast<std::size_t>(n)] < phase;
    };
    if (first_use_.empty()) first_use_.assign(view_.kernel.nodes.size(), 1 << 20);
    std::vector<int> nodes;
    for (int n : printing::closure(view_.kernel, roots, kept))
      if (view_.inner(n)) nodes.push_back(n);
    // `closure` leaves known nodes out: those kept in buffers are read back.
    std::vector<int> reads;
    for (int n : needed_)
      if (kept(n)) reads.push_back(n);
    for (int n : nodes)
      first_use_[static_cast<std::size_t>(n)] = std::min(first_use_[static_cast<std::size_t>(n)], phase);
    if (scans) return scan_sweep(view_, plan_, printer_, spots, nodes, reads, loops_, shared_, memory_);
    return view_.column ? column_sweep(spots, which, nodes) : row_sweep(which, nodes, reads);
  }

  std::string accumulate(const std::vector<int>& which, const Spot& spot, const std::string& prefix) {
    std::string out;
    for (int r : which) {
      const Fold& f = folds_[static_cast<std::size_t>(r)];
      const Reduction& reduction = view_.kernel.reductions[static_cast<std::size_t>(r)];
      const auto inside = [&](const std::string& text, const std::string& outside) {
        if (spot.count.empty() || view_.column) return text;
        return fmt::format("sel(first((int){}), {}, splat({}))", spot.count, text, outside);
      };
      std::string x = inside(printer_.value(reduction.arg, f.form, true, spot), f.neutral);
      if (reduction.at >= 0)
        x = fmt::format("{}{{{}, {}}}", f.part, x,
                        inside(printer_.value(reduction.at, f.position, true, spot), nowhere(f)));
      out += combine(f, fmt::format("{}{}{}", prefix, r, spot.suffix), x);
    }
    return out;
  }

  std::string stores(const Spot& spot) {
    std::string out;
    for (std::size_t o = 0; o < view_.kernel.outputs.size(); ++o)
      if (stores_now(o)) out += printer_.store(static_cast<int>(o), spot, plan_.stream && !columns_only_);
    return out;
  }

  /// Whether the sweep at hand writes this output: every element, or in a cross kernel's last sweep every column.
  bool stores_now(std::size_t output) const {
    const Output& o = view_.kernel.outputs[output];
    if (columns_only_) return o.per_column;
    if (o.per_row || o.per_column || o.per_part || pass_ != 0) return false;
    return sweep_ == (cpp_kind(view_.kernel).early_stores ? store_sweep_[output] : phases_);
  }

  /// `lo`, `hi` of a loop; the first loop of a split kernel takes the thread's share, in whole vectors if it is the
  /// vector loop.
  std::pair<std::string, std::string> bounds(int variable, bool outermost, bool vectors) const {
    const std::int64_t e = extent(variable);
    if (!plan_.split || !outermost) return {"0", fmt::format("{}", e)};
    if (!vectors) return {fmt::format("({}LL * tid / team)", e), fmt::format("({}LL * (tid + 1) / team)", e)};
    const std::int64_t whole = e / plan_.lanes;
    return {fmt::format("({}LL * tid / team * W)", whole),
            fmt::format("(tid + 1 == team ? {} : {}LL * (tid + 1) / team * W)", e, whole)};
  }

  /// Of parts of rows, around a sweep over one of them: their states before it, and what is stored of them after.
  std::string part_begin() const {
    std::string out;
    for (int r : parts_)
      out += fmt::format("{} s{} = {};\n", folds_[static_cast<std::size_t>(r)].state, r,
                         neutral_state(folds_[static_cast<std::size_t>(r)]));
    return out + "{\n";
  }
  std::string part_end() {
    std::vector<int> roots;
    for (const auto& o : view_.kernel.outputs)
      if (o.per_part) roots.push_back(o.node);
    std::string out = "}\n";
    for (int n : printing::closure(view_.kernel, roots, [&](int id) { return !view_.inner(id); }))
      out += view_.kernel.nodes[static_cast<std::size_t>(n)].op == Op::reduced ? reduced(n, {base_})
                                                                               : printer_.define(n, base_);
    for (std::size_t o = 0; o < view_.kernel.outputs.size(); ++o)
      if (view_.kernel.outputs[o].per_part) out += printer_.store(static_cast<int>(o), base_, false);
    return out;
  }

  std::string row_sweep(const std::vector<int>& which, const std::vector<int>& nodes, const std::vector<int>& reads) {
    std::string out, end;
    bool outermost = true;
    // The sweep that writes folds parts: loops over what says which part it is come first.
    const bool parted = which.empty() && !parts_.empty();
    const std::vector<int>& folded = parted ? parts_ : which;
    const int within = view_.variables() - view_.kernel.parts;
    bool begun = !parted;
    for (int i : loops_) {
      if (!begun && i >= within) {
        begun = true;
        out += part_begin();
        end = part_end() + end;
      }
      const auto [lo, hi] = bounds(i, outermost, false);
      out += fmt::format("for (i64 d{0} = {1}; d{0} < {2}; ++d{0}) {{\n", i, lo, hi);
      end = "}\n" + end;
      outermost = false;
    }
    if (!begun) {
      out += part_begin();
      end = part_end() + end;
    }
    const auto v = static_cast<std::size_t>(view_.v);
    for (int n : nodes)
      if (!view_.vec(n)) out += of_column(n) ? column_scalar(n) : printer_.define(n, base_);
    std::string position;
    std::int64_t stride = view_.kernel.space.extents.back();
    for (std::size_t i = loops_.size(); i-- > 0;) {
      position += fmt::format("d{} * {} + ", loops_[i], stride);
      stride *= extent(loops_[i]);
    }
    const auto body = [&](const std::string& j, const std::string& suffix, const std::string& count,
                          const std::string& prefix) {
      Spot s = base_;
      s.names[v] = j;
      s.suffix = suffix;
      s.count = count;
      std::string t = "{\n";
      s.position = "read:" + position + j;
      std::vector<int> merged = nodes;
      for (int n : reads) t += printer_.define(n, s);
      s.position = "write:" + position + j;
      for (int n : merged)
        if (view_.vec(n)) t += of_column(n) ? column_value(n, s, position + j) : printer_.define(n, s);
      t += stores(s);
      if (which.empty()) t += cross(s, position + j);
      t += accumulate(folded, s, prefix);
      return t + "}\n";
    };
    const auto declare = [&](const std::string& suffix) {
      std::string t;
      for (int r : folded) {
        const Fold& f = folds_[static_cast<std::size_t>(r)];
        t += fmt::format("{} a{}{} = {};\n", f.part, r, suffix, neutral_vector(f));
      }
      return t;
    };
    const auto merge = [&](int copies) {
      std::string t;
      for (int r : folded) {
        const Fold& f = folds_[static_cast<std::size_t>(r)];
        for (int step = 1; step < copies; step *= 2)
          for (int u = 0; u + step < copies; u += 2 * step)
            t += combine(f, fmt::format("a{}_{}", r, u), fmt::format("a{}_{}", r, u + step));
        t += combine_state(f, fmt::format("s{}", r), fmt::format("a{}_0", r));
      }
      return t;
    };
    const auto [lo, hi] = bounds(view_.v, outermost, true);
    out += fmt::format("i64 j = {};\nconst i64 end = {};\n", lo, hi);
    const int u = plan_.unroll;
    std::string inside, accs;
    for (int c = 0; c < u; ++c) {
      accs += declare(fmt::format("_{}", c));
      inside += body(c ? fmt::format("(j + {} * W)", c) : "j", fmt::format("_{}", c), "", "a");
    }
    out += fmt::format(
        "while (j + {0} * W <= end) {{\nconst i64 stop = j + {1} * W < end ? j + {1} * W : end;\n{2}for (; j + {0} * W "
        "<= stop; j += {0} * W) {{\n{3}}}\n{4}}}\n",
        u, folded.empty() ? 1 << 20 : 16 * u, accs, inside, merge(u));
    out += fmt::format("if (j < end) {{\n{}", declare("_0"));
    if (u > 1) out += fmt::format("for (; j + W <= end; j += W) {}", body("j", "_0", "", "a"));
    out += fmt::format("if (j < end) {{\nconst i64 count = end - j;\n(void)count;\n{}}}\n{}}}\n",
                       body("j", "_0", "count", "a"), merge(1));
    return "{\n" + out + end + "}\n";
  }

  std::string column_sweep(const std::vector<Spot>& spots, const std::vector<int>& which,
                           const std::vector<int>& nodes) {
    std::string out, end;
    bool outermost = true;
    for (std::size_t i = 0; i + 1 < loops_.size(); ++i) {
      const auto [lo, hi] = bounds(loops_[i], outermost, false);
      out += fmt::format("for (i64 d{0} = {1}; d{0} < {2}; ++d{0}) {{\n", loops_[i], lo, hi);
      end += "}\n";
      outermost = false;
    }
    const int last = loops_.back();
    const auto [lo, hi] = bounds(last, outermost, false);
    std::string inside;
    for (int n : nodes)
      if (!view_.vec(n)) inside += printer_.define(n, spots[0]);
    std::string accs, merges;
    for (const auto& s : spots) {
      for (int n : nodes)
        if (view_.vec(n)) inside += printer_.define(n, s);
      inside += stores(s) + accumulate(which, s, "a");
      for (int r : which) {
        const Fold& f = folds_[static_cast<std::size_t>(r)];
        accs += fmt::format("{} a{}{} = {};\n", f.part, r, s.suffix, neutral_vector(f));
        merges += combine_state(f, fmt::format("s{}{}", r, s.suffix), fmt::format("a{}{}", r, s.suffix));
      }
    }
    // Blocks of 32 steps keep the fp32 level short.
    out += fmt::format(
        "for (i64 b = {0}, e = {1}; b < e; b += 32) {{\nconst i64 stop = b + 32 < e ? b + 32 : e;\n{2}for (i64 d{3} = "
        "b; d{3} < stop; ++d{3}) {{\n{4}}}\n{5}}}\n",
        lo, hi, accs, last, inside, merges);
    return out + end;
  }

  const View& view_;
  const Plan& plan_;
  Printer& printer_;
  std::string& shared_;
  Room& memory_;
  std::vector<Fold> folds_;
  std::vector<int> needed_, loops_, first_use_;
  std::vector<int> store_sweep_;  ///< by output (row kernels)
  int sweep_ = 0;                 ///< at hand: the phase it folds, or the number of phases
  int phases_ = 0;
  Spot base_;
  // Of kernels that fold both ways:
  RowColumnRoom room_;
  std::vector<int> crossing_;  ///< reductions across the rows that the pass at hand folds
  std::vector<int> parts_;     ///< reductions of parts of rows
  std::vector<bool> active_;   ///< reductions along rows that the pass needs; empty: all
  int pass_ = 0;               ///< over all rows: a column's second reduction needs the first one's result
  bool columns_only_ = false;  ///< the sweep at hand is over columns, when all rows are done
};

}  // namespace

RowColumnRoom row_column_room(const View& view, const Plan& plan) {
  RowColumnRoom room;
  room.row = view.kernel.inner_extent() + plan.lanes;
  const auto take = [&](std::int64_t elements, std::int64_t bytes) {
    const std::int64_t at = room.bytes;
    room.bytes += (elements * bytes + 63) / 64 * 64;
    return at;
  };
  for (const auto& r : view.kernel.reductions) {
    RowColumnRoom::Place place;
    if (r.across) {
      const Fold f = fold_of(view, r);
      const std::int64_t bytes = f.form == Form::d || f.form == Form::l ? 8 : 4;
      place.part = take(plan.threads * room.row, bytes);
      place.total = f.two_level ? take(plan.threads * room.row, 8) : -1;
      place.result = take(room.row, bytes);
    }
    room.places.push_back(place);
  }
  return room;
}

std::string row_body(const View& view, const Plan& plan, Printer& printer, std::string& shared, Room& room) {
  return Row(view, plan, printer, shared, room).text();
}

}  // namespace planish::codegen::cpp
