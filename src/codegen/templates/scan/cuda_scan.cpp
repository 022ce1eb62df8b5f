#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/cuda_writer.h"
#include "codegen/fold.h"
#include "codegen/templates/scan/cuda_scan_plan.h"

// Names in the printed text, for scan 0: `c0` what the row held before the chunk at hand, `L0[u][j]` the fold of a
// thread's elements up to lane j of vector u, `T0` its totals, `B0` what comes before `L0`. Rows have a total and a
// base for each vector, columns for each lane.
namespace planish::codegen::printing {
namespace {

class ScanWriter {
 public:
  ScanWriter(const Kernel& kernel, const ScanPlan& plan, CudaWriter& writer, bool stores)
      : kernel_(kernel), plan_(plan), base_(plan.column.base), w(writer), stores_(stores) {
    const int n = static_cast<int>(kernel.space.extents.size());
    for (int v = n - kernel.inner; v < n; ++v) inner_.push_back(v);
    w.running = [this](int id) { return value_of(id); };
    w.backwards = kernel.reversed;
  }

  void write() {
    write_column_start(kernel_, plan_.column, stores_, w);
    if (plan_.totals_bytes > 0) {
      w.line(fmt::format("__shared__ double pl_totals[{}];", (plan_.totals_bytes + 7) / 8));
      places();
    }
    if (!base_.columns) {
      w.line(fmt::format("const int lane = y % {0}, part = y / {0};", plan_.segment));
    }
    each_scan([&](std::size_t s) { declare(state(s).carry, fmt::format("c{}", s), none_carry(s), base_.columns); });
    if (sliced() && stores_) gather();
    declare_loads("r");
    if (plan_.ahead) load("0");
    const bool loops = plan_.chunks > 1;
    if (loops) {
      w.line("#pragma unroll 1");
      w.open(fmt::format("for (int k = 0; k < {}; ++k) {{", plan_.chunks));
    } else {
      w.open("{");
      w.line("const int k = 0;");
    }
    chunk();
    w.close();
    if (!stores_) leave();
  }

 private:
  bool sliced() const { return plan_.column.slices > 1; }
  const ScanState& state(std::size_t s) const { return plan_.states[s]; }
  bool widens(std::size_t s) const { return state(s).carry != state(s).type; }
  std::string none_carry(std::size_t s) const { return widens(s) ? state(s).carry + "{0}" : state(s).none; }
  void each_scan(const std::function<void(std::size_t)>& f) const {
    for (std::size_t s = 0; s < plan_.states.size(); ++s) f(s);
  }
  /// Totals a thread has: of vectors (rows) or lanes (columns).
  int own() const { return base_.columns ? base_.width : base_.unroll; }
  std::string_view own_index() const { return base_.columns ? "j" : "u"; }

  void repeat(std::string_view index, int count, const std::function<void()>& body) {
    w.line("#pragma unroll");
    w.open(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", index, count));
    body();
    w.close();
  }

  void declare(const std::string& type, const std::string& name, const std::string& value, bool lanes) {
    if (!lanes) {
      w.line(fmt::format("{} {} = {};", type, name, value));
      return;
    }
    w.line(fmt::format("{} {}[{}];", type, name, base_.width));
    repeat("j", base_.width, [&] { w.line(fmt::format("{}[j] = {};", name, value)); });
  }

  void declare_loads(std::string_view prefix) {
    for (const int id : plan_.loads) w.line(fmt::format("{} {}{}[{}];", w.pack_type(id), prefix, id, base_.unroll));
  }

  /// The vector u of chunk `k`: position `i` counts along the sweep, `t` along the row.
  void vectors(std::string_view k, const std::function<void()>& body) {
    w.line("#pragma unroll");
    w.open(fmt::format("for (int u = 0; u < {}; ++u) {{", base_.unroll));
    const std::int64_t step = static_cast<std::int64_t>(base_.across) * base_.unroll;
    w.line(base_.columns ? fmt::format("const int i = {} * {} + y * {} + u;", k, step, base_.unroll)
                         : fmt::format("const int i = {0} * {1} + part * {2} + u * {3} + lane;", k, step,
                                       plan_.segment * base_.unroll, plan_.segment));
    w.line(kernel_.reversed ? "const ix t = upto - 1 - i;" : "const ix t = from + i;");
    const bool exact = plan_.chunks * step == plan_.column.slice_length &&
                       base_.vectors == plan_.column.slices * plan_.column.slice_length;
    w.open(exact && k != "(k + 1)" ? std::string("{") : std::string("if (i < upto - from) {"));
    if (base_.columns) {
      w.decode("t", inner_, -1);
    } else if (base_.lanes.mode == Lanes::Mode::flat) {
      w.line(fmt::format("const ix e0 = t * {}{};", base_.width, base_.shifted ? " - shift" : ""));
    } else {
      w.decode("t", inner_, base_.lanes.variable);
    }
    body();
    w.close();
    w.close();
  }

  std::string guard() const {
    if (!base_.partial) return {};
    return fmt::format("{}e0 + {} <= {}", base_.shifted ? "e0 >= 0 && " : "", base_.width,
                       w.literal_index(base_.length));
  }

  void load(std::string_view k) {
    std::vector<int> wanted;
    for (const int id : plan_.loads) {
      if (stores_ || std::ranges::binary_search(plan_.folded, id)) wanted.push_back(id);
    }
    if (!wanted.empty()) vectors(k, [&] { w.load_vector(wanted, guard(), false); });
  }

  /// One chunk: loads of the next, folds, exchange, stores.
  void chunk() {
    if (plan_.ahead) {
      declare_loads("q");
      w.open("{");
      for (const int id : plan_.loads)
        w.line(fmt::format("{} (&r{})[{}] = q{};", w.pack_type(id), id, base_.unroll, id));
      load("(k + 1)");
      w.close();
    } else {
      load("k");
    }
    fold();
    if (stores_) {
      exchange();
      store();
    } else {
      collect();
    }
    if (plan_.ahead) {
      for (const int id : plan_.loads) {
        repeat("u", base_.unroll, [&] { w.line(fmt::format("r{0}[u] = q{0}[u];", id)); });
      }
    }
  }

  std::string taken(std::size_t s) const {
    const Scan& scan = kernel_.scans[s];
    const std::string x =
        convert(w.name(scan.arg), kernel_.nodes[static_cast<std::size_t>(scan.arg)].dtype, scan.accumulate);
    if (info(scan.kind).exponents) return fmt::format("pl_exps_of({}, {})", x, state(s).none);
    if (scan.at < 0) return fmt::format("{}{{{}}}", state(s).type, x);
    const std::string place = state(s).type.ends_with("int>") ? "int" : "long long";
    return fmt::format("{}{{{}, ({}){}}}", state(s).type, x, place, w.name(scan.at));
  }

  /// Every thread's own elements.
  void fold() {
    each_scan([&](std::size_t s) {
      w.line(fmt::format("{} T{}[{}];", state(s).type, s, own()));
      if (stores_) w.line(fmt::format("{} L{}[{}][{}];", state(s).type, s, base_.unroll, base_.width));
      repeat(own_index(), own(), [&] { w.line(fmt::format("T{}[{}] = {};", s, own_index(), state(s).none)); });
    });
    std::string body;
    const std::string inside = w.lane_inside();
    each_scan([&](std::size_t s) {
      const std::string total = fmt::format("T{}[{}]", s, own_index());
      const std::string join = fmt::format("{0} = pl_join({0}, {1});", total, taken(s));
      body += inside.empty() ? join + "\n" : fmt::format("if ({}) {}\n", inside, join);
      if (stores_) body += fmt::format("L{}[u][j] = {};\n", s, total);
    });
    vectors("k", [&] { w.compute(plan_.folded, body); });
  }

  // ---- what other threads hold ----

  /// Declares h<s>: where totals of carries meet.
  void places() {
    std::int64_t offset = 0;
    each_scan([&](std::size_t s) {
      w.line(fmt::format("{0}* const h{1} = ({0}*)((unsigned char*)pl_totals + {2});", state(s).carry, s, offset));
      offset += plan_.totals_bytes / plan_.state_bytes * state(s).carry_bytes;
    });
  }
  int warps() const { return base_.across / 32; }

  std::string widened(std::size_t s, const std::string& x) const {
    return widens(s) ? fmt::format("{}{{(double){}.v}}", state(s).carry, x) : x;
  }
  std::string narrowed(std::size_t s, const std::string& x) const {
    return widens(s) ? fmt::format("{}{{(float){}.v}}", state(s).type, x) : x;
  }

  void exchange() {
    if (base_.columns) {
      exchange_columns();
    } else {
      exchange_rows();
    }
  }

  void exchange_rows() {
    // Within warps: vector by vector, a vector's lanes together.
    each_scan([&](std::size_t s) {
      const std::string& type = state(s).type;
      w.line(fmt::format("{} B{}[{}];", type, s, base_.unroll));
      if (plan_.segment > 1) {
        repeat("u", base_.unroll, [&] {
          for (int d = 1; d < plan_.segment; d *= 2) {
            w.line(fmt::format(
                "{{ const {0} z = pl_state_up(T{1}[u], {2}); if (lane >= {2}) T{1}[u] = pl_join(z, T{1}[u]); }}", type,
                s, d));
          }
          w.line(fmt::format("B{0}[u] = pl_state_up(T{0}[u], 1);", s));
          w.line(fmt::format("if (lane == 0) B{}[u] = {};", s, state(s).none));
          w.line(fmt::format("T{0}[u] = pl_state_at(T{0}[u], {1});", s,
                             plan_.segment == 32
                                 ? "31"
                                 : fmt::format("tid % 32 / {0} * {0} + {1}", plan_.segment, plan_.segment - 1)));
        });
      } else {
        repeat("u", base_.unroll, [&] { w.line(fmt::format("B{}[u] = {};", s, state(s).none)); });
      }
      w.line(fmt::format("{} all{} = T{}[0];", type, s, s));
      if (base_.unroll > 1) {
        w.line("#pragma unroll");
        w.line(fmt::format("for (int u = 1; u < {0}; ++u) all{1} = pl_join(all{1}, T{1}[u]);", base_.unroll, s));
      }
    });
    if (warps() > 1) {
      const int everybody = base_.threads / 32;
      if (plan_.chunks > 1) {
        w.line(fmt::format("const int turn = (k & 1) * {};", everybody));
      } else {
        w.line("const int turn = 0;");
      }
      w.open("if (lane == 31) {");
      each_scan([&](std::size_t s) {
        w.line(fmt::format("h{}[turn + tid / 32] = {};", s, widened(s, fmt::format("all{}", s))));
      });
      w.close();
      w.line("__syncthreads();");
    }
    each_scan([&](std::size_t s) {
      const std::string& type = state(s).type;
      if (warps() > 1) {
        w.line(fmt::format("{0} sum{1} = c{1}, before{1} = c{1};", state(s).carry, s));
        w.line(warps() <= 8 ? "#pragma unroll" : "#pragma unroll 4");
        w.open(fmt::format("for (int i = 0; i < {}; ++i) {{", warps()));
        w.line(fmt::format("if (i == part) before{0} = sum{0};", s));
        w.line(fmt::format("sum{0} = pl_join(sum{0}, h{0}[turn + tid / {1} * {2} + i]);", s, base_.across, warps()));
        w.close();
        w.line(fmt::format("{} start{} = {};", type, s, narrowed(s, fmt::format("before{}", s))));
        w.line(fmt::format("c{0} = sum{0};", s));
      } else {
        w.line(fmt::format("{} start{} = {};", type, s, narrowed(s, fmt::format("c{}", s))));
        w.line(fmt::format("c{0} = pl_join(c{0}, {1});", s, widened(s, fmt::format("all{}", s))));
      }
      repeat("u", base_.unroll, [&] {
        w.line(fmt::format("B{0}[u] = pl_join(start{0}, B{0}[u]);", s));
        w.line(fmt::format("start{0} = pl_join(start{0}, T{0}[u]);", s));
      });
    });
  }

  std::string column_slot(std::string_view y) const {
    return fmt::format("[turn + ({} * {} + j) * {} + x]", y, base_.width, base_.rows);
  }

  void exchange_columns() {
    const bool alone = base_.across == 1;
    if (!alone) {
      w.line(plan_.chunks > 1 ? fmt::format("const int turn = (k & 1) * {};", base_.threads * base_.width)
                              : std::string("const int turn = 0;"));
      repeat("j", base_.width, [&] {
        each_scan([&](std::size_t s) {
          w.line(fmt::format("h{}{} = {};", s, column_slot("y"), widened(s, fmt::format("T{}[j]", s))));
        });
      });
      w.line("__syncthreads();");
    }
    each_scan([&](std::size_t s) {
      w.line(fmt::format("{} B{}[{}];", state(s).type, s, base_.width));
      repeat("j", base_.width, [&] {
        if (alone) {
          w.line(fmt::format("B{}[j] = {};", s, narrowed(s, fmt::format("c{}[j]", s))));
          w.line(fmt::format("c{0}[j] = pl_join(c{0}[j], {1});", s, widened(s, fmt::format("T{}[j]", s))));
          return;
        }
        w.line(fmt::format("{0} before = c{1}[j];", state(s).carry, s));
        w.line(base_.across <= 8 ? "#pragma unroll" : "#pragma unroll 4");
        w.open(fmt::format("for (int i = 0; i < {}; ++i) {{", base_.across));
        w.line(fmt::format("if (i == y) before = c{}[j];", s));
        w.line(fmt::format("c{0}[j] = pl_join(c{0}[j], h{0}{1});", s, column_slot("i")));
        w.close();
        w.line(fmt::format("B{}[j] = {};", s, narrowed(s, "before")));
      });
    });
  }

  // ---- results ----

  std::string value_of(int id) const {
    const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
    const auto s = static_cast<std::size_t>(node.scan);
    const Scan& scan = kernel_.scans[s];
    const std::string base = fmt::format("B{}[{}]", s, own_index());
    std::string held = fmt::format("pl_join({}, L{}[u][j])", base, s);
    if (node.exclusive && base_.columns) {
      held = fmt::format("(u == 0 ? {0} : pl_join({0}, L{1}[u - 1][j]))", base, s);
    } else if (node.exclusive) {
      held = kernel_.reversed ? fmt::format("(j == {2} ? {0} : pl_join({0}, L{1}[u][j + 1]))", base, s, base_.width - 1)
                              : fmt::format("(j == 0 ? {0} : pl_join({0}, L{1}[u][j - 1]))", base, s);
    }
    return node.position ? fmt::format("(long long)pl_place({})", held)
                         : convert(fmt::format("pl_value({})", held), scan.accumulate, node.dtype);
  }

  void store() {
    std::string body;
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
      if (!kernel_.outputs[o].per_row) body += w.set_lane(static_cast<int>(o));
    }
    vectors("k", [&] {
      for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
        if (!kernel_.outputs[o].per_row)
          w.line(fmt::format("PlVec<{}, {}> o{};", storage_type(kernel_.outputs[o].dtype), base_.width, o));
      }
      w.compute(plan_.stored, body);
      w.open("if (live) {");
      for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
        if (!kernel_.outputs[o].per_row) w.store_vector(static_cast<int>(o), guard());
      }
      w.close();
    });
  }

  // ---- slices ----

  /// A launch that only folds keeps one carry a thread (a lane of columns).
  void collect() {
    each_scan([&](std::size_t s) {
      repeat(own_index(), own(), [&] {
        const std::string carry = fmt::format("c{}{}", s, base_.columns ? "[j]" : "");
        w.line(fmt::format("{0} = pl_join({0}, {1});", carry, widened(s, fmt::format("T{}[{}]", s, own_index()))));
      });
    });
  }

  /// The carries of all threads of a row become one, which all of them hold: states that may be joined in any order.
  void meet() {
    if (base_.columns) {
      if (base_.across == 1) return;
      w.line("const int turn = 0;");
      w.line("__syncthreads();");
      repeat("j", base_.width, [&] {
        each_scan([&](std::size_t s) { w.line(fmt::format("h{}{} = c{}[j];", s, column_slot("y"), s)); });
      });
      w.line("__syncthreads();");
      repeat("j", base_.width, [&] {
        each_scan([&](std::size_t s) {
          w.line(fmt::format("c{}[j] = {};", s, none_carry(s)));
          w.line(fmt::format("for (int i = 0; i < {0}; ++i) c{1}[j] = pl_join(c{1}[j], h{1}{2});", base_.across, s,
                             column_slot("i")));
        });
      });
      w.line("__syncthreads();");
      return;
    }
    each_scan([&](std::size_t s) {
      for (int m = 1; m < plan_.segment; m *= 2)
        w.line(fmt::format("c{0} = pl_join(c{0}, pl_state_xor(c{0}, {1}));", s, m));
    });
    if (warps() <= 1) return;
    w.line("__syncthreads();");
    w.open("if (lane == 0) {");
    each_scan([&](std::size_t s) { w.line(fmt::format("h{0}[tid / 32] = c{0};", s)); });
    w.close();
    w.line("__syncthreads();");
    each_scan([&](std::size_t s) {
      w.line(fmt::format("c{} = {};", s, none_carry(s)));
      w.line(fmt::format("for (int i = 0; i < {0}; ++i) c{1} = pl_join(c{1}, h{1}[tid / {2} * {0} + i]);", warps(), s,
                         base_.across));
    });
    w.line("__syncthreads();");
  }

  std::string partial(std::size_t s, const std::string& slice) const {
    std::int64_t offset = 0;
    for (std::size_t before = 0; before < s; ++before)
      offset += (plan_.column.slices * plan_.column.cells * state(before).carry_bytes + 15) / 16 * 16;
    const std::string cell = base_.columns ? fmt::format("(long long)row * {} + j", base_.width) : "(long long)row";
    return fmt::format("(({}*)(partials + {}LL))[{} * {}LL + {}]", state(s).carry, offset, slice, plan_.column.cells,
                       cell);
  }

  void lanes_of_carries(const std::function<void(const std::string&)>& body) {
    if (base_.columns) {
      repeat("j", base_.width, [&] { body("[j]"); });
    } else {
      body("");
    }
  }

  void leave() {
    w.open("{");
    meet();
    w.open("if (live && y == 0) {");
    lanes_of_carries([&](const std::string& lane) {
      each_scan([&](std::size_t s) { w.line(fmt::format("{} = c{}{};", partial(s, "slice"), s, lane)); });
    });
    w.close();
    w.close();
  }

  /// What the slices before this one hold together.
  void gather() {
    w.open("{");
    w.line("#pragma unroll 4");
    w.open(kernel_.reversed
               ? fmt::format("for (int i = slice + 1 + y; i < {}; i += {}) {{", plan_.column.slices, base_.across)
               : fmt::format("for (int i = y; i < slice; i += {}) {{", base_.across));
    lanes_of_carries([&](const std::string& lane) {
      each_scan(
          [&](std::size_t s) { w.line(fmt::format("c{0}{1} = pl_join(c{0}{1}, {2});", s, lane, partial(s, "i"))); });
    });
    w.close();
    meet();
    w.close();
  }

  const Kernel& kernel_;
  const ScanPlan& plan_;
  const CudaPlan& base_;
  CudaWriter& w;
  const bool stores_;
  std::vector<int> inner_;
};

}  // namespace

Result<Emitted> emit_scan(const Kernel& kernel, const Device& device, const Genome& genome) {
  const ScanPlan plan = make_scan_plan(kernel, device, genome);
  const CudaPlan& base = plan.column.base;
  const auto launch = [&](bool stores) {
    CudaWriter writer(kernel, base);
    writer.out = std::string(prelude(true)) + std::string(cuda_memory_prelude()) + std::string(fold_prelude()) +
                 std::string(scan_prelude());
    ScanWriter(kernel, plan, writer, stores).write();
    writer.close();
    Emitted one;
    one.language = "cuda";
    one.source = std::move(writer.out);
    one.entry = "planish_kernel";
    one.grid[0] = base.grid;
    one.block[0] = base.threads;
    using Kind = Emitted::Argument::Kind;
    for (std::size_t i = 0; i < kernel.inputs.size(); ++i) one.args.push_back({Kind::input, static_cast<int>(i)});
    for (std::size_t o = 0; stores && o < kernel.outputs.size(); ++o)
      one.args.push_back({Kind::output, static_cast<int>(o)});
    if (plan.column.slices > 1) one.args.push_back({Kind::scratch, 0});
    return one;
  };
  if (plan.column.slices == 1) return launch(true);
  Emitted emitted = launch(false);
  emitted.scratch_bytes = {plan.scratch_bytes};
  emitted.after.push_back(launch(true));
  return emitted;
}

}  // namespace planish::codegen::printing
