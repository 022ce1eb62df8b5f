#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/cpp_plan.h"
#include "codegen/emit/expression.h"
#include "codegen/fold.h"

// Running values. Along a row a vector's lanes are folded with those before them in log2(W) steps and then with what
// the row held so far; across rows (columns) each lane has a state of its own. fp32 sums have two levels, as in
// reductions: fp32 within a vector or 32 rows, double beyond.
namespace planish::codegen::cpp {
namespace {

/// How one scan is kept.
struct State {
  std::string type;     ///< of a vector of states
  std::string join;     ///< prelude struct whose `join` puts an earlier and a later state together
  std::string neutral;  ///< vector
  bool two_level = false;
};

class ScanSweep {
 public:
  ScanSweep(const View& view, const Plan& plan, Printer& printer, const std::vector<Spot>& spots,
            const std::vector<int>& nodes, const std::vector<int>& reads, const std::vector<int>& loops,
            std::string& shared, Room& room)
      : view_(view),
        plan_(plan),
        printer_(printer),
        spots_(spots),
        nodes_(nodes),
        reads_(reads),
        loops_(loops),
        shared_(shared),
        room_(room) {
    for (const Scan& s : view.kernel.scans) states_.push_back(state_of(s));
  }

  std::string text() {
    std::string out = "{\n" + declare();
    if (plan_.split) {
      // Each thread folds its part of the row, then begins with what the parts before it gave.
      out += pass(false) + meet();
    }
    return out + pass(true) + "}\n";
  }

 private:
  bool reversed() const { return view_.kernel.reversed; }
  const char* flag() const { return reversed() ? "true" : "false"; }
  std::int64_t extent(int variable) const { return view_.kernel.space.extent(variable); }
  static std::string name_of(std::size_t s, const Spot& spot) { return fmt::format("c{}{}", s, spot.suffix); }
  Form form_of(const Scan& s) const {
    return s.accumulate == DType::f64   ? Form::d
           : is_floating(s.accumulate)  ? Form::f
           : s.accumulate == DType::i64 ? Form::l
                                        : Form::i;
  }
  Form position_of(const Scan& s) const { return view_.form[static_cast<std::size_t>(s.at)]; }

  State state_of(const Scan& s) {
    State out;
    const Form form = form_of(s);
    const std::string vector(type_name(form, true));
    printer_.used().insert("running");
    out.type = vector;
    const ScanInfo& kind = info(s.kind);
    out.join = kind.cpp;
    if (kind.exponents) {
      printer_.used().insert("running_exp");
      if (form == Form::d) printer_.used().insert("libm");
      out.type = fmt::format("exps<{}>", vector);
      out.neutral = fmt::format("{}{{splat({}), {}{{}}}}", out.type, lowest(form), vector);
      return out;
    }
    out.two_level = kind.totals && form == Form::f;
    const std::string z = identity_text(info(kind.fold).identity, form);
    out.neutral = fmt::format("splat({})", z);
    if (s.at >= 0) {
      printer_.used().insert("running_at");
      out.join += "_at";
      const Form at = position_of(s);
      out.type = fmt::format("seen<{}, {}>", vector, type_name(at, true));
      out.neutral = fmt::format("{}{{splat({}), splat(({})-1)}}", out.type, z, type_name(at, false));
    }
    return out;
  }
  /// The least finite value: exponentials of what is below nothing are those of nothing.
  static std::string lowest(Form form) {
    return form == Form::d ? "(-0x1.fffffffffffffp+1023)" : "(-0x1.fffffep+127f)";
  }

  /// What the row, or each column, held so far.
  std::string declare() const {
    std::string out;
    for (std::size_t s = 0; s < states_.size(); ++s) {
      for (const Spot& spot : spots_) {
        const State& state = states_[s];
        const std::string name = name_of(s, spot);
        if (!state.two_level) {
          out += fmt::format("{} {} = {};\n", state.type, name, state.neutral);
        } else if (view_.column) {
          printer_.used().insert("wide");
          out += fmt::format("wide {} = {{}};\n", name);
        } else {
          out += fmt::format("double {} = 0;\n", name);
        }
      }
    }
    return out;
  }

  std::string joined(const State& state, const std::string& a, const std::string& b) const {
    return fmt::format("{}::join({}, {})", state.join, a, b);
  }

  /// The state of the elements at hand alone; lanes outside the row count as nothing.
  std::string taken(std::size_t s, const Spot& spot) {
    const Scan& scan = view_.kernel.scans[s];
    const State& state = states_[s];
    const Form form = form_of(scan);
    std::string x = printer_.value(scan.arg, form, true, spot);
    if (info(scan.kind).exponents) {
      x = fmt::format("exps_of({}, splat({}))", x, lowest(form));
      if (spot.count.empty() || view_.column) return x;
      return fmt::format(
          "({{ {0} x = {1}; const vi in = first((int){2}); x.m = sel(in, x.m, splat({3})); x.s = "
          "sel(in, x.s, {4}{{}}); x; }})",
          state.type, x, spot.count, lowest(form), type_name(form, true));
    }
    const auto inside = [&](const std::string& text, const std::string& outside) {
      if (spot.count.empty() || view_.column) return text;
      return fmt::format("sel(first((int){}), {}, {})", spot.count, text, outside);
    };
    if (scan.at < 0) return inside(x, state.neutral);
    const std::string at = printer_.value(scan.at, position_of(scan), true, spot);
    return fmt::format("{}{{{}, {}}}", state.type, inside(x, state.neutral + ".v"), inside(at, state.neutral + ".i"));
  }

  std::string result(std::size_t s, const Node& node, const std::string& state) const {
    const Scan& scan = view_.kernel.scans[s];
    if (info(scan.kind).exponents) return fmt::format("log_of({})", state);
    if (scan.at < 0) return state;
    return fmt::format("{}.{}", state, node.position ? "i" : "v");
  }
  Form result_form(std::size_t s, const Node& node) const {
    const Scan& scan = view_.kernel.scans[s];
    return node.position ? position_of(scan) : form_of(scan);
  }

  /// Folds the elements at hand, and defines what the kernel asks of the scan there.
  std::string step(std::size_t s, const Spot& spot, bool stores) {
    const State& state = states_[s];
    const std::string held = name_of(s, spot), own = fmt::format("x{}{}", s, spot.suffix),
                      now = fmt::format("y{}{}", s, spot.suffix);
    std::string out, before;
    if (view_.column) {
      if (state.two_level) {
        // `p` was cleared, `b` taken from the state, when the block of rows began.
        const std::string p = "p" + held, b = "b" + held;
        before = fmt::format("{} + {}", b, p);
        if (stores && used(s, true)) out += fmt::format("const vf z{}{} = {};\n", s, spot.suffix, before);
        out += fmt::format("{} += {};\n", p, taken(s, spot));
        if (stores && used(s, false)) out += fmt::format("const vf {} = {} + {};\n", now, b, p);
      } else {
        if (stores && used(s, true)) out += fmt::format("const {} z{}{} = {};\n", state.type, s, spot.suffix, held);
        out += fmt::format("{} = {};\n", held, joined(state, held, taken(s, spot)));
        if (stores && used(s, false)) out += fmt::format("const {} {} = {};\n", state.type, now, held);
      }
    } else {
      const std::string z = fmt::format("o{}{}", s, spot.suffix);
      out += fmt::format("const {} {} = {};\n", state.type, z, state.neutral);
      out += fmt::format("const {} {} = running<{}, {}>({}({}), {});\n", state.type, own, flag(), state.join,
                         state.type, taken(s, spot), z);
      if (state.two_level) {
        if (stores) {
          out += fmt::format("const vf h{0}{1} = splat((float){2});\n", s, spot.suffix, held);
          if (used(s, false)) out += fmt::format("const vf {} = h{}{} + {};\n", now, s, spot.suffix, own);
          if (used(s, true))
            out +=
                fmt::format("const vf z{0}{1} = h{0}{1} + moved<{2}>({3}, {4}, 1);\n", s, spot.suffix, flag(), own, z);
        }
        out += fmt::format("{} += (double){}[{}];\n", held, own, reversed() ? "0" : "W - 1");
      } else {
        if (stores && used(s, true))
          out += fmt::format("const {} z{}{} = {};\n", state.type, s, spot.suffix,
                             joined(state, held, fmt::format("moved<{}>({}, {}, 1)", flag(), own, z)));
        out += fmt::format("const {} {} = {};\n", state.type, now, joined(state, held, own));
        out += fmt::format("{} = edge<{}>({});\n", held, flag(), now);
      }
    }
    if (!stores) return out;
    for (const int n : nodes_) {
      const Node& node = view_.kernel.nodes[static_cast<std::size_t>(n)];
      if (node.op != Op::scanned || node.scan != static_cast<int>(s)) continue;
      const std::string from = node.exclusive ? fmt::format("z{}{}", s, spot.suffix) : now;
      const Form to = view_.form[static_cast<std::size_t>(n)];
      out += fmt::format("const {} n{}{} = {};\n", type_name(to, true), n, spot.suffix,
                         printer_.convert(result(s, node, from), result_form(s, node), to, true));
    }
    return out;
  }

  bool used(std::size_t s, bool exclusive) const {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](int n) {
      const Node& node = view_.kernel.nodes[static_cast<std::size_t>(n)];
      return node.op == Op::scanned && node.scan == static_cast<int>(s) && node.exclusive == exclusive;
    });
  }

  /// Nodes that the scans' arguments need, or all of them.
  std::vector<int> nodes_for(bool stores) const {
    if (stores) return nodes_;
    std::vector<int> roots, out;
    for (const Scan& s : view_.kernel.scans) {
      roots.push_back(s.arg);
      if (s.at >= 0) roots.push_back(s.at);
    }
    for (const int n : printing::closure(view_.kernel, roots, [](int) { return false; }))
      if (std::find(nodes_.begin(), nodes_.end(), n) != nodes_.end()) out.push_back(n);
    return out;
  }

  /// Everything at one vector of elements.
  std::string element(const Spot& spot, const std::vector<int>& nodes, bool stores) {
    std::string out;
    std::vector<bool> done(states_.size(), false);
    const auto scan = [&](std::size_t s) {
      if (done[s]) return;
      done[s] = true;
      out += step(s, spot, stores);
    };
    std::vector<int> before, after;  // the scans' arguments know nothing of their results
    std::vector<bool> running(view_.kernel.nodes.size(), false);
    for (std::size_t n = 0; n < running.size(); ++n) {
      const Node& node = view_.kernel.nodes[n];
      running[n] = node.op == Op::scanned;
      for (const int a : node.args) running[n] = running[n] || running[static_cast<std::size_t>(a)];
    }
    for (const int n : nodes)
      if (view_.vec(n) && !running[static_cast<std::size_t>(n)]) out += printer_.define(n, spot);
    for (std::size_t s = 0; s < states_.size(); ++s) scan(s);
    if (!stores) return out;
    for (const int n : nodes)
      if (view_.vec(n) && running[static_cast<std::size_t>(n)]) out += printer_.define(n, spot);
    for (std::size_t o = 0; o < view_.kernel.outputs.size(); ++o)
      if (!view_.kernel.outputs[o].per_row) out += printer_.store(static_cast<int>(o), spot, plan_.stream);
    return out;
  }

  /// A thread's part of a loop: of the outermost one where threads share a row.
  std::pair<std::string, std::string> bounds(int variable, bool outermost, bool vectors) const {
    const std::int64_t e = extent(variable);
    if (!plan_.split || !outermost) return {"0", fmt::format("{}", e)};
    if (!vectors) return {fmt::format("({}LL * tid / team)", e), fmt::format("({}LL * (tid + 1) / team)", e)};
    const std::int64_t whole = e / plan_.lanes;
    return {fmt::format("({}LL * tid / team * W)", whole),
            fmt::format("(tid + 1 == team ? {} : {}LL * (tid + 1) / team * W)", e, whole)};
  }

  std::string loop(int variable, const std::string& lo, const std::string& hi) const {
    if (reversed()) return fmt::format("for (i64 d{0} = {2} - 1; d{0} >= {1}; --d{0}) {{\n", variable, lo, hi);
    return fmt::format("for (i64 d{0} = {1}; d{0} < {2}; ++d{0}) {{\n", variable, lo, hi);
  }

  std::string pass(bool stores) { return view_.column ? columns(stores) : row(stores); }

  std::string row(bool stores) {
    std::string out = "{\n", end = "}\n";
    bool outermost = true;
    for (const int i : loops_) {
      const auto [lo, hi] = bounds(i, outermost, false);
      out += loop(i, lo, hi);
      end += "}\n";
      outermost = false;
    }
    const std::vector<int> nodes = nodes_for(stores);
    for (const int n : nodes)
      if (!view_.vec(n)) out += printer_.define(n, spots_[0]);
    std::string position;
    std::int64_t stride = view_.kernel.space.extents.back();
    for (std::size_t i = loops_.size(); i-- > 0;) {
      position += fmt::format("d{} * {} + ", loops_[i], stride);
      stride *= extent(loops_[i]);
    }
    const auto body = [&](const std::string& count) {
      Spot s = spots_[0];
      s.names[static_cast<std::size_t>(view_.v)] = "j";
      s.count = count;
      s.position = "read:" + position + "j";
      std::string t;
      for (const int n : reads_) t += printer_.define(n, s);
      // What later sweeps would read is not kept: this is the last one.
      s.position.clear();
      return t + element(s, nodes, stores);
    };
    const auto [lo, hi] = bounds(view_.v, outermost, true);
    out += fmt::format("const i64 begin = {}, end = {}, whole = begin + (end - begin) / W * W;\n", lo, hi);
    const std::string rest = fmt::format(
        "if (whole < end) {{\nconst i64 j = whole, count = end - whole;\n(void)count;\n{}}}\n", body("count"));
    const std::string full =
        reversed() ? "for (i64 j = whole - W; j >= begin; j -= W) {\n" : "for (i64 j = begin; j < whole; j += W) {\n";
    const std::string most = full + body("") + "}\n";
    return out + (reversed() ? rest + most : most + rest) + end;
  }

  std::string columns(bool stores) {
    std::string out, end;
    bool outermost = true;
    for (std::size_t i = 0; i + 1 < loops_.size(); ++i) {
      const auto [lo, hi] = bounds(loops_[i], outermost, false);
      out += loop(loops_[i], lo, hi);
      end += "}\n";
      outermost = false;
    }
    const int last = loops_.back();
    const auto [lo, hi] = bounds(last, outermost, false);
    const std::vector<int> nodes = nodes_for(stores);
    std::string inside, begin, finish;
    for (const int n : nodes)
      if (!view_.vec(n)) inside += printer_.define(n, spots_[0]);
    for (const Spot& spot : spots_) inside += element(spot, nodes, stores);
    for (std::size_t s = 0; s < states_.size(); ++s) {
      if (!states_[s].two_level) continue;
      for (const Spot& spot : spots_) {
        const std::string held = name_of(s, spot);
        begin += fmt::format("const vf b{0} = narrow({0});\n(void)b{0};\nvf p{0} = {{}};\n", held);
        finish += fmt::format("add({0}, p{0});\n", held);
      }
    }
    // Blocks of 32 steps keep the fp32 level short.
    if (reversed()) {
      out += fmt::format("for (i64 e = {1}, b = {0}; e > b; e -= 32) {{\nconst i64 from = e - 32 > b ? e - 32 : b;\n",
                         lo, hi);
      out += begin + loop(last, "from", "e");
    } else {
      out += fmt::format("for (i64 b = {0}, e = {1}; b < e; b += 32) {{\nconst i64 to = b + 32 < e ? b + 32 : e;\n", lo,
                         hi);
      out += begin + loop(last, "b", "to");
    }
    return out + inside + "}\n" + finish + "}\n" + end;
  }

  /// Parts before a thread's own, in the order of the sweep.
  std::string meet() {
    std::string put, take;
    for (std::size_t s = 0; s < states_.size(); ++s) {
      const State& state = states_[s];
      for (const Spot& spot : spots_) {
        const std::string held = name_of(s, spot), part = "part_" + held;
        const std::string type = !state.two_level ? state.type : view_.column ? "wide" : "double";
        shared_ += room_.shared(type, part, plan_.threads, state_bytes(plan_));
        put += fmt::format("{}[tid] = {};\n", part, held);
        const std::string each = !state.two_level ? fmt::format("{} = {}", held, joined(state, held, part + "[t]"))
                                 : view_.column   ? fmt::format("add({}, {}[t])", held, part)
                                                  : fmt::format("{} += {}[t]", held, part);
        take += fmt::format("{} = {};\n", held,
                            !state.two_level ? state.neutral
                            : view_.column   ? std::string("wide{}")
                                             : std::string("0"));
        take += reversed() ? fmt::format("for (i64 t = team - 1; t > tid; --t) {};\n", each)
                           : fmt::format("for (i64 t = 0; t < tid; ++t) {};\n", each);
      }
    }
    return put + "#pragma omp barrier\n" + take + "#pragma omp barrier\n";
  }

  const View& view_;
  const Plan& plan_;
  Printer& printer_;
  const std::vector<Spot>& spots_;
  const std::vector<int>& nodes_;
  const std::vector<int>& reads_;
  const std::vector<int>& loops_;
  std::string& shared_;
  Room& room_;
  std::vector<State> states_;
};

}  // namespace

std::string scan_sweep(const View& view, const Plan& plan, Printer& printer, const std::vector<Spot>& spots,
                       const std::vector<int>& nodes, const std::vector<int>& reads, const std::vector<int>& loops,
                       std::string& shared, Room& room) {
  return ScanSweep(view, plan, printer, spots, nodes, reads, loops, shared, room).text();
}

}  // namespace planish::codegen::cpp
