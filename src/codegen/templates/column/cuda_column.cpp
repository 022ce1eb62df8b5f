#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/cuda_kept.h"
#include "codegen/emit/cuda_writer.h"
#include "codegen/templates/column/cuda_column_plan.h"
#include "codegen/templates/column/cuda_cooperative_states.h"

namespace planish::codegen::printing {
namespace {

/// A team alone has the memory busy where there are no more than so many.
constexpr std::int64_t most_staggered = 4;

/// Which part of the whole one launch does.
struct Stage {
  int from = 0, to = 0;  ///< phases swept here; earlier ones are gathered from scratch
  bool stores = false;   ///< writes the outputs
  std::int64_t slices = 1;
};

/// Outputs that a launch writes.
std::vector<int> outputs_of(const ColumnPlan& plan, const Stage& stage) {
  std::vector<int> out;
  for (std::size_t o = 0; o < plan.base.store_sweep.size(); ++o) {
    const int sweep = plan.base.store_sweep[o];
    const bool last = sweep < 0 || sweep == static_cast<int>(plan.folds.size());
    if (last ? stage.stores : stage.from <= sweep && sweep < stage.to) out.push_back(static_cast<int>(o));
  }
  return out;
}

class ColumnWriter : private CooperativeStates {
 public:
  ColumnWriter(const Kernel& kernel, const ColumnPlan& plan, CudaWriter& writer, const Stage& stage)
      : CooperativeStates(kernel, plan, writer), stage_(stage) {
    const int n = static_cast<int>(kernel.space.extents.size());
    for (int v = 0; v < n; ++v) (v < n - kernel.inner ? outer_ : inner_).push_back(v);
    std::vector<int> roots;
    for (const auto& r : kernel.reductions) {
      roots.push_back(r.arg);
      if (r.at >= 0) roots.push_back(r.at);
    }
    for (const auto& s : kernel.scans) {
      roots.push_back(s.arg);
      if (s.at >= 0) roots.push_back(s.at);
    }
    for (const auto& o : kernel.outputs) roots.push_back(o.node);
    needed_ = closure(kernel, roots, [](int) { return false; });
    chained_ = base_.trips > longest_chain;
    if (!shares_lanes()) return;
    const std::int64_t step = std::int64_t{base_.across} * base_.width;
    w.load_pointer = [this, step](int load) {
      return goes_along(load) ? fmt::format("{}{} + (k0 + u) * {}", asking_later_ ? "pn" : "p", load, step) : "";
    };
    w.store_pointer = [this, step](int output) {
      return stores_along(output) ? fmt::format("po{} + (k0 + u) * {}", output, step) : "";
    };
  }

  void write() {
    if (team()) {
      write_team();
      return;
    }
    if (!reductions() || !stage_.stores) return;
    if (plan_.stores) sweep(static_cast<int>(plan_.folds.size()));
    row_outputs();
  }

  /// The head, where threads are, and the reductions of this launch. False where their states went to scratch.
  bool reductions() {
    head();
    thread_position();
    row_position();
    w.keepers();
    row_nodes(0);
    for (int p = 0; p < stage_.to; ++p) {
      const auto& folds = plan_.folds[static_cast<std::size_t>(p)];
      if (!folds.empty()) {
        if (p < stage_.from) {
          gather(folds);
        } else {
          sweep(p);
        }
        if (!stage_.stores && p + 1 == stage_.to) {
          meet(folds);
          leave(folds);
          return false;
        }
        meet(folds);
        results(folds);
      }
      row_nodes(p + 1);
      finish(folds);
    }
    return true;
  }

  /// What is stored once for each row.
  void row_outputs() {
    std::vector<int> roots, outputs;
    std::string body;
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
      if (!kernel_.outputs[o].per_row) continue;
      outputs.push_back(static_cast<int>(o));
      roots.push_back(kernel_.outputs[o].node);
      if (base_.columns) body += w.set_lane(static_cast<int>(o));
    }
    if (outputs.empty()) return;
    w.open("if (live && y == 0 && slice == 0) {");
    if (base_.columns) {
      for (const int o : outputs) {
        w.line(fmt::format("PlVec<{}, {}> o{};", storage_type(kernel_.outputs[static_cast<std::size_t>(o)].dtype),
                           base_.width, o));
      }
      w.compute(closure(kernel_, roots, [](int) { return false; }), body);
      for (const int o : outputs) w.store_vector(o, "");
    } else {
      for (const int o : outputs) {
        const auto& output = kernel_.outputs[static_cast<std::size_t>(o)];
        w.line(fmt::format(
            "out{}[{}] = {};", o, w.index(kernel_, output.index),
            store_form(w.name(output.node), kernel_.nodes[static_cast<std::size_t>(output.node)].dtype, output.dtype)));
      }
    }
    w.close();
  }

 private:
  /// True where the slices of a team lie in shared memory.
  bool ring() const { return plan_.kept_trips != 0; }
  bool sliced() const { return plan_.slices > 1 && !team(); }

  void head() {
    std::string parameters;
    const auto add = [&](const std::string& text) { parameters += (parameters.empty() ? "" : ", ") + text; };
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
      add(fmt::format("const {}* __restrict__ in{}", storage_type(kernel_.inputs[i].dtype), i));
    for (const int o : outputs_of(plan_, stage_)) {
      const DType dtype = kernel_.outputs[static_cast<std::size_t>(o)].dtype;
      add(fmt::format("{}* __restrict__ out{}", storage_type(dtype), o));
    }
    if (sliced() || team()) add("unsigned char* partials");
    if (team()) add("unsigned* gates");
    w.line(fmt::format("typedef {} ix;", base_.wide ? "long long" : "int"));
    w.open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {}) planish_kernel({}) {{",
                       plan_.block_threads(), base_.min_blocks, parameters));
  }

  /// `x`, `y`: place along the fastest variable and along the reduced extent. [from, upto): the block's positions.
  void thread_position() {
    w.line("const int tid = (int)threadIdx.x;");
    if (base_.columns) {
      w.line(fmt::format("const int x = tid % {}, y = tid / {};", base_.rows, base_.rows));
    } else {
      w.line(fmt::format("const int x = tid / {}, y = tid % {};", base_.across, base_.across));
    }
    // What the launch before read last is in the cache still.
    const bool turned = sliced() && base_.reverse && stage_.stores && stage_.slices > 1;
    if (team()) {
      // The blocks of a team lie side by side: with several blocks a multiprocessor, those there are of several teams.
      w.line(fmt::format("const ix team = (ix)(blockIdx.x / {});", plan_.slices));
      w.line(fmt::format("const int slice = (int)(blockIdx.x % {});", plan_.slices));
      w.line(fmt::format("const int from = slice * {}, upto = {};", plan_.slice_length, upto_text()));
      if (split_loops()) {
        // Trips, whole chunks of them, in which every thread has a vector.
        w.line(fmt::format("const int whole = (upto - from) / {0} * {1};", std::int64_t{base_.across} * base_.unroll,
                           base_.unroll));
      }
      shared_places();
      return;
    }
    const std::string block =
        turned ? fmt::format("({}u - blockIdx.x)", base_.groups * stage_.slices - 1) : std::string("blockIdx.x");
    w.line(fmt::format("const ix group = (ix)({} % {});", block, base_.groups));
    if (stage_.slices > 1) {
      w.line(fmt::format("const int slice = (int)({} / {});", block, base_.groups));
      w.line(fmt::format("const int from = slice * {}, upto = {};", plan_.slice_length, upto_text()));
    } else {
      w.line(fmt::format("const int slice = 0, from = 0, upto = {};", base_.vectors));
    }
    shared_places();
  }

  void shared_places() {
    if (base_.dynamic_shared > 0) w.line("extern __shared__ __align__(16) unsigned char pl_smem[];");
    if (plan_.meeting_bytes > 0) w.line(fmt::format("__shared__ double pl_meeting[{}];", plan_.meeting_shared() / 8));
  }

  std::string upto_text() const {
    if (base_.vectors == plan_.slices * plan_.slice_length) return fmt::format("from + {}", plan_.slice_length);
    return fmt::format("from + {0} < {1} ? from + {0} : {1}", plan_.slice_length, base_.vectors);
  }

  /// True where a team's block moves along memory as it moves along its slice: pointers go with it.
  bool goes_along(const ir::IndexExpr& e) const {
    return (base_.lanes.mode == Lanes::Mode::flat || base_.lanes.variable == inner_.back()) &&
           is_linear(e, inner_, kernel_.space);
  }
  bool goes_along(int load) const {
    const auto id = static_cast<std::size_t>(load);
    const Node& node = kernel_.nodes[id];
    return base_.swept[id] && base_.needs[id].empty() && !gathers(node) && node.where.empty() &&
           base_.loads[id].kind == Access::Kind::vector && goes_along(node.index);
  }
  bool stores_along(int output) const {
    const auto o = static_cast<std::size_t>(output);
    return !kernel_.outputs[o].per_row && !kernel_.outputs[o].folded && base_.stores[o].kind == Access::Kind::vector &&
           goes_along(kernel_.outputs[o].index);
  }
  /// Where the thread begins in the row at hand.
  std::string beginning(const ir::IndexExpr& e) {
    return fmt::format("({}) + (from + y) * {}{}", w.index(kernel_, outside_domain(e, inner_, kernel_.space)),
                       base_.width, base_.shifted ? " - shift" : "");
  }
  std::string beginning(int load) {
    const Node& node = kernel_.nodes[static_cast<std::size_t>(load)];
    return fmt::format("in{} + ({})", node.input, beginning(node.index));
  }
  std::string element_type(int load) const {
    const Node& node = kernel_.nodes[static_cast<std::size_t>(load)];
    return std::string(storage_type(kernel_.inputs[static_cast<std::size_t>(node.input)].dtype));
  }
  int input_of(int load) const { return kernel_.nodes[static_cast<std::size_t>(load)].input; }
  void row_pointers() {
    if (!shares_lanes()) return;
    for (int id = 0; id < static_cast<int>(kernel_.nodes.size()); ++id) {
      if (kernel_.nodes[static_cast<std::size_t>(id)].op == Op::load && goes_along(id))
        w.line(fmt::format("const {}* const p{} = {};", element_type(id), id, beginning(id)));
    }
    for (int o = 0; o < static_cast<int>(kernel_.outputs.size()); ++o) {
      const Output& output = kernel_.outputs[static_cast<std::size_t>(o)];
      if (stores_along(o))
        w.line(
            fmt::format("{}* const po{} = out{} + ({});", storage_type(output.dtype), o, o, beginning(output.index)));
    }
  }

  /// The row of `group` and its coordinates.
  void row_position() {
    if (shares_lanes()) {
      w.line("const bool live = true;");
      w.line("const ix row = group;");
      w.decode("row", outer_, -1);
      w.shift();
      return;
    }
    const std::int64_t count = base_.columns ? kernel_.outer_extent() / base_.width : kernel_.outer_extent();
    w.line(fmt::format("const ix own = group * {} + x;", base_.rows));
    w.line(fmt::format("const bool live = own < {};", w.literal_index(count)));
    w.line(fmt::format("const ix row = live ? own : {};", w.literal_index(count - 1)));
    w.decode("row", outer_, base_.columns ? base_.lanes.variable : -1);
    w.shift();
  }

  /// Values fixed for the whole row that become known after phase p - 1. With columns every lane has its own.
  void row_nodes(int p) {
    if (base_.columns) return;
    std::vector<int> now;
    for (const int id : needed_) {
      const Place& place = base_.places[static_cast<std::size_t>(id)];
      if (!place.inner && place.phase == p) now.push_back(id);
    }
    print_nodes(w.out, kernel_, now, w, std::string(static_cast<std::size_t>(2 * w.depth), ' '));
  }

  // ---- sweeps ----

  /// True where every thread has a vector in every trip.
  bool exact() const {
    return base_.vectors == plan_.slices * plan_.slice_length && plan_.slice_length == base_.trips * base_.across &&
           base_.trips % base_.unroll == 0;
  }

  void unrolled(const std::function<void()>& body, int count = 0) {
    w.line("#pragma unroll");
    w.open(fmt::format("for (int u = 0; u < {}; ++u) {{", count > 0 ? count : base_.unroll));
    w.line(fmt::format("const ix t = from + y + (k0 + u) * {};", base_.across));
    w.open(exact() || chunk_whole_ ? std::string("{") : std::string("if (t < upto) {"));
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

  /// True where chunks of which every thread has all vectors get a loop of their own, without tests.
  bool split_loops() const {
    return team() && !exact() && !base_.reverse && (base_.residency != Residency::registers || base_.resident.empty());
  }

  void trips(std::string_view lo, std::string_view hi, const std::function<void()>& body) {
    if (split_loops() && !chunk_whole_) {
      const std::string least = fmt::format("({0} < whole ? {0} : whole)", hi);
      chunk_whole_ = true;
      trips(lo, lo == "0" && hi == fmt::format("{}", base_.trips) ? "whole" : least, body);
      chunk_whole_ = false;
      one_loop(lo == "0" ? "whole" : fmt::format("({0} > whole ? {0} : whole)", lo), hi, body);
      return;
    }
    one_loop(lo, hi, body);
  }

  void one_loop(std::string_view lo, std::string_view hi, const std::function<void()>& body) {
    const bool full = (base_.residency == Residency::registers && !base_.resident.empty()) || w.held_from >= 0;
    w.line(full ? "#pragma unroll" : "#pragma unroll 1");
    if (backwards_) {
      const std::int64_t last = (base_.trips - 1) / base_.unroll * base_.unroll;
      w.open(fmt::format("for (int k0 = {}; k0 >= 0; k0 -= {}) {{", last, base_.unroll));
    } else {
      w.open(fmt::format("for (int k0 = {}; k0 < {}; k0 += {}) {{", lo, hi, base_.unroll));
    }
    body();
    w.close();
  }

  std::string inside_only(const std::string& text) const {
    const std::string inside = w.lane_inside();
    return inside.empty() ? text + "\n" : fmt::format("if ({}) {{ {} }}\n", inside, text);
  }

  bool used_before(int load, int s) const {
    for (int earlier = stage_.from; earlier < s; ++earlier) {
      if (std::ranges::binary_search(base_.sweeps[static_cast<std::size_t>(earlier)], load)) return true;
    }
    return false;
  }

  /// What the lane loop does with an element, apart from pairs.
  std::string taken(const std::vector<Fold>& folds) {
    std::string body;
    for (const Fold& fold : folds) {
      if (fold.joint != nullptr) continue;
      const int at = kernel_.reductions[static_cast<std::size_t>(fold.reduction)].at;
      body += inside_only(fold.state->absorb(kernel_, fold, spelled("a", fold.reduction, "[j]"), w.name(fold.x),
                                             at < 0 ? std::string() : w.name(at)));
    }
    return body;
  }

  /// What pairs do with an element: at first what a chunk of them alone says (maximum, mean), and then, relative to it.
  struct Halves {
    std::string first, second;
  };
  Halves halves(const std::vector<Fold>& folds, KeptElements& twice) {
    Halves text{taken(folds), {}};
    for (const Fold& fold : folds) {
      const int r = fold.reduction;
      if (fold.joint == nullptr) continue;
      const std::string x = w.name(fold.x), known = twice.second_name(fold.x, text.first);
      text.first += inside_only(team() ? first_look(fold, x, counted()) : fold.joint->first_look(r, x));
      text.second += inside_only(team() ? second_look(fold, known) : fold.joint->second_look(r, known, exponential()));
    }
    return text;
  }

  /// True where threads may lack some elements of the chunk at hand.
  bool counted() const { return base_.partial || !(exact() || chunk_whole_); }

  void start_chunk(const std::vector<Fold>& folds) {
    if (team()) {
      begin_chunk(folds, counted());
      return;
    }
    for (const Fold& fold : folds) {
      if (fold.joint != nullptr) w.line(fold.joint->begin_chunk(fold.reduction, base_.width));
    }
  }

  /// Moves the running state to where the chunk at hand is.
  void move_state(const std::vector<Fold>& folds) {
    if (team()) {
      join_chunk(folds, counted());
      return;
    }
    lanes([&] {
      for (const Fold& fold : folds) {
        if (fold.joint == nullptr) continue;
        for (const std::string& line : fold.joint->join_chunk(fold.reduction, exponential())) w.line(line);
      }
    });
  }

  /// What a sweep does to a vector, some outputs' lanes being set in `body`.
  void compute_and_store(const std::vector<int>& nodes, const std::string& body, const std::vector<int>& stored) {
    for (const int o : stored) {
      const DType dtype = kernel_.outputs[static_cast<std::size_t>(o)].dtype;
      w.line(fmt::format("PlVec<{}, {}> o{};", storage_type(dtype), base_.width, o));
    }
    w.compute(nodes, body);
    if (stored.empty()) return;
    if (!shares_lanes()) w.open("if (live) {");
    for (const int o : stored) w.store_vector(o, guard());
    if (!shares_lanes()) w.close();
  }

  /// One chunk of `unroll` vectors where pairs fold.
  void chunk(const std::vector<Fold>& folds, const std::vector<int>& nodes, const std::vector<int>& kept,
             const std::vector<int>& stored) {
    const bool in_shared = base_.residency == Residency::shared;
    KeptElements twice(kernel_, w, base_.unroll, base_.width);
    Halves text = halves(folds, twice);
    for (const int o : stored) text.first += w.set_lane(o);
    w.copies_ahead = true;
    if (in_shared) {
      for (const int id : kept) w.line(fmt::format("{} s{}[{}];", w.pack_type(id), id, base_.unroll));
    }
    start_chunk(folds);
    unrolled([&] {
      if (in_shared) {
        for (const int id : kept) w.line(fmt::format("pl_get(s{}[u], &{});", id, w.place_of(id)));
      }
      if (team()) count_vector(folds, counted());
      compute_and_store(nodes, text.first, stored);
    });
    move_state(folds);
    unrolled([&] { w.compute(twice.computed_again(nodes), text.second); });
    w.copies_ahead = false;
  }

  /// All trips of a sweep. A team keeps `kept_trips` of them in shared memory: where those `arrive`, the others are
  /// read meanwhile, and where the row is written for good, the team's next one takes their place.
  void all_trips(bool arrive, bool refill, const std::function<void()>& pass) {
    if (!ring()) {
      trips("0", fmt::format("{}", base_.trips), pass);
      return;
    }
    other_trips(refill, pass);
    kept_trips(
        arrive,
        [&] {
          pass();
          if (refill) ask_later();
        },
        [&] {
          if (refill) w.line("pl_copy_commit();");
        });
  }

  /// Those trips of a team's slice that did not fit in shared memory.
  void other_trips(bool refill, const std::function<void()>& pass) {
    if (plan_.kept_trips == base_.trips) return;
    w.reloading = true;
    if (plan_.held_trips != 0) {
      held_trips(pass);
      if (refill) held_trips([&] { ask_later(); });
    } else {
      trips(fmt::format("{}", plan_.kept_trips), fmt::format("{}", base_.trips), pass);
    }
    w.reloading = false;
  }
  /// Every register has a number: one loop, unrolled.
  void held_trips(const std::function<void()>& pass) {
    w.held_from = static_cast<int>(plan_.kept_trips);
    one_loop(fmt::format("{}", plan_.kept_trips), fmt::format("{}", base_.trips), pass);
    w.held_from = -1;
  }

  /// Those that did, portion by portion where they `arrive`; `after` each portion.
  void kept_trips(bool arrive, const std::function<void()>& pass, const std::function<void()>& after) {
    part_loop([&](const std::string& lo, const std::string& hi) {
      if (arrive && plan_.parts > 1) {
        // Groups without copies, one a part, keep the number that may be outstanding the same.
        w.line("pl_copy_commit();");
        w.line(fmt::format("pl_copy_wait<{}>();", plan_.parts));
      } else if (arrive) {
        w.line(fmt::format("pl_copy_wait<{}>();", plan_.ahead > 1 ? plan_.ahead - 1 : 0));
      }
      trips(lo, hi, pass);
      after();
    });
  }

  /// Whether the block has another row for the place of this one, and where that begins.
  void look_later() {
    const std::string step = w.literal_index(plan_.ring * plan_.teams), groups = w.literal_index(base_.groups);
    w.line(fmt::format("const ix later = group + {};", step));
    w.line(fmt::format("const bool more = later < {};", groups));
    std::vector<int> along;
    for (const int id : base_.resident) {
      if (shares_lanes() && goes_along(id)) along.push_back(id);
    }
    for (const int id : along) w.line(fmt::format("const {}* pn{} = in{};", element_type(id), id, input_of(id)));
    if (along.empty()) return;
    w.open("if (more) {");
    w.line("const ix group = later;");
    row_position();
    for (const int id : along) w.line(fmt::format("pn{} = {};", id, beginning(id)));
    w.close();
  }

  /// Asks for the chunk at hand of that row.
  void ask_later() {
    w.open("if (more) {");
    const bool along = shares_lanes() && std::ranges::all_of(base_.resident, [&](int id) { return goes_along(id); });
    if (!along || base_.partial) {
      w.line("const ix group = later;");
      row_position();
    }
    asking_later_ = true;
    unrolled([&] { w.load_vector(base_.resident, guard(), w.held_from < 0); });
    asking_later_ = false;
    w.close();
  }

  void part_loop(const std::function<void(const std::string& lo, const std::string& hi)>& body) {
    w.portions(plan_.parts, plan_.kept_trips, plan_.part_trips, body);
  }

  /// One more than the number of the last sweep there is.
  int last_sweep() const {
    int count = static_cast<int>(plan_.folds.size());
    if (plan_.stores) return count + 1;
    while (count > 0 && plan_.folds[static_cast<std::size_t>(count) - 1].empty()) --count;
    return count;
  }

  /// One pass over the slice.
  struct Sweep {
    int number = 0;
    bool stores = false;  ///< comes after all folds
    std::vector<int> nodes;
    std::vector<Fold> folds;  ///< of this phase
    std::vector<int> stored;  ///< outputs
    bool pairs = false;       ///< some folds are two that run along together
    std::string taken;        ///< what is done with each lane, where there are no pairs
  };

  Sweep plan_sweep(int s) {
    Sweep out;
    out.number = s;
    out.nodes = base_.sweeps[static_cast<std::size_t>(s)];
    out.stores = s == static_cast<int>(plan_.folds.size());
    if (!out.stores) out.folds = plan_.folds[static_cast<std::size_t>(s)];
    out.stored = base_.stored_in(s);
    out.pairs = std::ranges::any_of(out.folds, [](const Fold& fold) { return fold.follower >= 0; });
    return out;
  }

  /// Loads of a sweep as they are where it stands: what is resident may not be everywhere in the slice.
  struct Loads {
    std::vector<int> ahead;  ///< all of the slice is asked for before the first use
    std::vector<int> along;  ///< come chunk by chunk
    std::vector<int> kept;   ///< lie on chip
  };

  Loads loads_of(const Sweep& now) const {
    Loads out;
    for (const int id : now.nodes) {
      if (!base_.swept[static_cast<std::size_t>(id)]) continue;
      if (!w.is_resident(id)) {
        if (!w.is_held(id)) out.along.push_back(id);
        continue;
      }
      out.kept.push_back(id);
      if (!ring() && !used_before(id, now.number)) out.ahead.push_back(id);
    }
    return out;
  }

  /// Folds of phase `s`, or the stores where `s` is past them.
  void sweep(int s) {
    Sweep now = plan_sweep(s);
    load_ahead(loads_of(now).ahead);
    now.taken = taken(now.folds);
    for (const int o : now.stored) now.taken += w.set_lane(o);
    w.begin_pieces(now.stored);
    for (const Fold& fold : now.folds) declare("a", fold);
    if (team()) begin_sweep(now.folds);
    if (chained_ && !now.stores) {
      chained_trips(now);
    } else {
      plain_trips(now);
    }
  }

  void load_ahead(const std::vector<int>& loads) {
    if (loads.empty()) return;
    const bool in_shared = base_.residency == Residency::shared;
    trips("0", fmt::format("{}", base_.trips), [&] { unrolled([&] { w.load_vector(loads, guard(), in_shared); }); });
    if (!in_shared) return;
    w.line("pl_copy_commit();");
    w.line("pl_copy_wait<0>();");
  }

  void plain_trips(const Sweep& now) {
    backwards_ = now.stores && base_.reverse && !sliced();
    // The last sweep leaves room for the next row.
    const bool refills = ring() && now.number + 1 == last_sweep();
    if (refills) look_later();
    all_trips(now.number == 0, refills, [&] { sweep_chunk(now); });
    backwards_ = false;
    if (team()) end_sweep(now.folds);
  }

  /// The same where long sums are put aside now and then: no chain of additions is longer than `longest_chain`.
  void chained_trips(const Sweep& now) {
    for (const Fold& fold : now.folds) declare("b", fold);
    const std::int64_t chain = std::max<std::int64_t>(1, longest_chain / base_.unroll) * base_.unroll;
    w.line("#pragma unroll 1");
    w.open(fmt::format("for (int c0 = 0; c0 < {}; c0 += {}) {{", base_.trips, chain));
    w.line(fmt::format("const int c1 = c0 + {0} < {1} ? c0 + {0} : {1};", chain, base_.trips));
    trips("c0", "c1", [&] { sweep_chunk(now); });
    put_aside(now.folds);
    w.close();
    lanes([&] {
      for (const Fold& fold : now.folds) {
        for (const FoldField& field : fold.fields)
          w.line(fmt::format("a{0}{1}[j] = b{0}{1}[j];", fold.reduction, field.suffix));
      }
    });
  }

  /// Adds the states at hand to those that were put aside, and begins them anew.
  void put_aside(const std::vector<Fold>& folds) {
    const auto merged_at = [&](const Fold& fold, const char* lane) {
      return merged(fold, spelled("b", fold.reduction, lane), spelled("a", fold.reduction, lane));
    };
    if (shares_lanes()) {
      end_sweep(folds);
      for (const Fold& fold : folds) w.line(merged_at(fold, "[0]"));
      begin_again(folds);
      return;
    }
    lanes([&] {
      for (const Fold& fold : folds) {
        w.line(merged_at(fold, "[j]"));
        for (const FoldField& field : fold.fields)
          w.line(fmt::format("a{}{}[j] = {};", fold.reduction, field.suffix, field.neutral));
      }
    });
    if (team()) begin_again(folds);
  }

  /// What a sweep does with the chunk of `unroll` vectors at hand.
  void sweep_chunk(const Sweep& now) {
    w.backwards_chunks = backwards_;
    const Loads loads = loads_of(now);
    const std::vector<int> each = w.begin_loads(loads.along);
    if (!w.chunk_loads.empty()) unrolled([&] { w.load_vector(w.chunk_loads, guard(), false); }, 1);
    if (!each.empty()) unrolled([&] { w.load_vector(each, guard(), false); });
    if (now.pairs) {
      chunk(now.folds, now.nodes, loads.kept, now.stored);
      return;
    }
    unrolled([&] {
      if (base_.residency == Residency::shared) {
        for (const int id : loads.kept)
          w.line(fmt::format("{} s{}; pl_get(s{}, &{});", w.pack_type(id), id, id, w.place_of(id)));
      }
      compute_and_store(now.nodes, now.taken, now.stored);
    });
  }

  /// Asks the cache for the beginning of the slice that the team takes next: while the blocks meet, nothing else would
  /// use the memory.
  void touch_next() {
    if (plan_.touched_trips == 0) return;
    w.open(fmt::format("if (at + {} < {}) {{", w.literal_index(plan_.teams), w.literal_index(base_.groups)));
    w.line(fmt::format("const ix group = at + {};", w.literal_index(plan_.teams)));
    row_position();
    row_pointers();
    w.touches = true;
    trips("0", fmt::format("{}", plan_.touched_trips),
          [&] { unrolled([&] { w.load_vector(base_.resident, guard(), false); }); });
    w.touches = false;
    w.close();
  }

  // ---- teams: a row has `slices` blocks, which leave their states, wait for each other and go on ----

  /// Where the row of `group` lies on chip.
  void row_places(const std::string& turn) {
    if (!ring()) {
      w.keepers();
      return;
    }
    for (std::size_t i = 0; i < base_.resident.size(); ++i) {
      const int id = base_.resident[i];
      const std::string slot =
          plan_.ring == 1 ? "" : fmt::format(" + ({}) % {} * {}", turn, plan_.ring, plan_.kept_trips * base_.threads);
      w.line(fmt::format("{0}* const S{1} = ({0}*)(pl_smem + {2}) + tid{3};", w.pack_type(id), id,
                         base_.shared_offset[i], slot));
    }
  }

  /// Asks for the first rows of the team.
  void load_first() {
    for (const int id : base_.resident) {
      if (plan_.held_trips != 0) w.line(fmt::format("{} K{}[{}];", w.pack_type(id), id, plan_.held_trips));
    }
    for (int r = 0; r < plan_.ring; ++r) {
      w.open("{");
      w.line(fmt::format("const ix group = team + {};", w.literal_index(r * plan_.teams)));
      row_position();
      row_pointers();
      row_places(fmt::format("{}", r));
      part_loop([&](const std::string& lo, const std::string& hi) {
        w.open(fmt::format("if (group < {}) {{", w.literal_index(base_.groups)));
        trips(lo, hi, [&] { unrolled([&] { w.load_vector(base_.resident, guard(), true); }); });
        w.close();
        w.line("pl_copy_commit();");
      });
      if (plan_.held_trips != 0) {
        w.open(fmt::format("if (group < {}) {{", w.literal_index(base_.groups)));
        w.reloading = true;
        held_trips([&] { unrolled([&] { w.load_vector(base_.resident, guard(), false); }); });
        w.reloading = false;
        w.close();
      }
      w.close();
    }
  }

  /// Meetings alternate between two counters: a block may come to one before another has left the one before.
  std::string gate(const std::string& number) const {
    return fmt::format("gates + (team * {} + ({}) % {}) * {}", ColumnPlan::cooperative_counters, number,
                       ColumnPlan::cooperative_counters, ColumnPlan::counter_words);
  }
  /// Which meeting of the team that of `sweep` is, in the row that is its `turn`th.
  std::string number_of(const std::string& turn, int sweep) const {
    std::string text = plan_.sweeps == 1 ? turn : fmt::format("({}) * {}", turn, plan_.sweeps);
    return sweep == 0 ? text : fmt::format("{} + {}", text, sweep);
  }

  /// What blocks of rows leave says itself of which meeting it is; columns leave more, which the counter speaks for.
  std::string coming(const std::string& number) const {
    return fmt::format("if (tid == 0) pl_team_come<{}>({});", !shares_lanes(), gate(number));
  }
  std::string waiting(const std::string& number) const {
    return fmt::format("if (tid == 0) pl_team_wait<{}>({}, (unsigned)(({}) / {} + 1) * {}u);", !shares_lanes(),
                       gate(number), number, ColumnPlan::cooperative_counters, plan_.slices);
  }

  void come(const std::vector<Fold>& folds, const std::string& number) {
    if (shares_lanes()) {
      leave_warps(folds, "turn");
      w.line("__syncthreads();");
      w.open("if (tid < 32) {");
      leave_block(folds, "turn", number);
      w.line(coming(number));
      w.close();
      return;
    }
    w.line("__syncthreads();");  // what threads met in last time has been read
    meet(folds);
    leave(folds);
    w.line("__syncthreads();");
    w.line(coming(number));
  }

  void wait(const std::vector<Fold>& folds, const std::string& number) {
    if (shares_lanes()) {
      w.open("if (tid < 32) {");
      w.line(waiting(number));
      w.line("pl_warp_meet();");
      merge_blocks(folds, "turn", number);
      w.close();
      w.line("__syncthreads();");
      tell(folds, "turn");
    } else {
      w.line(waiting(number));
      w.line("__syncthreads();");
      gather(folds);
      meet(folds);
    }
    results(folds);
  }

  /// Once a row and once more all warps of the block meet: the others have left their states of a row, the scout the
  /// results of the row before. States and results have two places each, by the row's turn: in between, neither side
  /// writes what the other reads.
  std::string all_meet() const { return fmt::format("pl_block_meet<{}>();", plan_.block_threads()); }

  /// A warp that does not sweep meets the team, so that nobody else waits for more than its results: for each row, once
  /// the others have left their states, it comes and waits.
  void scout() {
    w.open(fmt::format("if (tid >= {}) {{", base_.threads));
    w.line(fmt::format("const int tid = (int)threadIdx.x - {};", base_.threads));
    w.line("int turn = 0;");
    w.line("#pragma unroll 1");
    w.open(fmt::format("for (ix group = team; group < {}; group += {}, ++turn) {{", w.literal_index(base_.groups),
                       w.literal_index(plan_.teams)));
    row_position();
    for (const Fold& fold : plan_.folds[0]) declare("a", fold);
    w.line(all_meet());
    w.open("{");
    leave_block(plan_.folds[0], "turn", number_of("turn", 0));
    w.close();
    w.line(coming(number_of("turn", 0)));
    w.line(waiting(number_of("turn", 0)));
    w.line("pl_warp_meet();");
    w.open("{");
    merge_blocks(plan_.folds[0], "turn", number_of("turn", 0));
    w.close();
    w.close();
    w.line(all_meet());
    w.line("return;");
    w.close();
  }

  /// What follows from the reductions, once they are known.
  void write_row() {
    if (plan_.stores) sweep(static_cast<int>(plan_.folds.size()));
    row_outputs();
  }

  /// Few teams that fold, meet and write one row after the other: each begins when the one before it has its first row,
  /// so that some use the memory while others meet. Begun at once, all would wait at once.
  void stagger() {
    if (plan_.ahead != 0 || plan_.teams < 2 || plan_.teams > most_staggered) return;
    w.open("if (team > 0) {");
    w.line(fmt::format("if (tid == 0) pl_team_wait<false>(gates + (team - 1) * {}, {}u);",
                       ColumnPlan::cooperative_counters * ColumnPlan::counter_words, plan_.slices));
    w.line("__syncthreads();");
    w.close();
  }

  void row_start(const std::string& group, const std::string& turn) {
    w.line(fmt::format("const ix group = {};", group));
    row_position();
    row_pointers();
    row_places(turn);
    row_nodes(0);
  }

  void write_team() {
    head();
    thread_position();
    if (plan_.scouts()) scout();
    stagger();
    if (ring()) load_first();
    const std::string teams = w.literal_index(plan_.teams), groups = w.literal_index(base_.groups);
    const int count = static_cast<int>(plan_.folds.size());
    w.line("int turn = 0;");
    w.line("#pragma unroll 1");
    if (plan_.ahead == 0) {
      w.open(fmt::format("for (ix at = team; at < {}; at += {}, ++turn) {{", groups, teams));
      row_start("at", "turn");
      int sweeps = 0;
      for (int p = 0; p < count; ++p) {
        const auto& folds = plan_.folds[static_cast<std::size_t>(p)];
        if (!folds.empty()) {
          const std::string number = number_of("turn", sweeps++);
          w.open("{");
          sweep(p);
          come(folds, number);
          w.close();
          if (sweeps == 1) touch_next();
          wait(folds, number);
        }
        row_nodes(p + 1);
        finish(folds);
      }
      write_row();
      w.close();
      return;
    }
    // The next row is folded before this one is written: who waits for the team has had something to do meanwhile.
    w.open(fmt::format("for (ix at = team; at < {} + {}; at += {}, ++turn) {{", groups, teams, teams));
    w.open(fmt::format("if (at < {}) {{", groups));
    row_start("at", "turn");
    sweep(0);
    if (plan_.scouts()) {
      leave_warps(plan_.folds[0], "turn");
      w.line("if (turn == 0) " + all_meet());  // later ones when the row before is written, below
    } else {
      come(plan_.folds[0], number_of("turn", 0));
    }
    w.close();
    w.open("if (turn > 0) {");
    row_start(fmt::format("at - {}", teams), fmt::format("turn + {}", plan_.ring - 1));
    if (plan_.scouts()) {
      w.line(all_meet());
      tell(plan_.folds[0], "turn + 1");
      results(plan_.folds[0]);
    } else {
      wait(plan_.folds[0], number_of("turn - 1", 0));
    }
    for (int p = 0; p < count; ++p) {
      row_nodes(p + 1);
      finish(plan_.folds[static_cast<std::size_t>(p)]);
    }
    write_row();
    w.close();
    w.close();
  }

  const Stage stage_;
  std::vector<int> outer_, inner_, needed_;
  bool chained_ = false;
  bool backwards_ = false;     ///< the sweep at hand begins at the end
  bool asking_later_ = false;  ///< a row's data are asked for while another is at hand
  bool chunk_whole_ = false;   ///< every thread has all vectors of the chunk at hand
};

}  // namespace

void write_column_start(const Kernel& kernel, const ColumnPlan& plan, bool stores, CudaWriter& writer) {
  ColumnWriter column(kernel, plan, writer, {0, static_cast<int>(plan.folds.size()), stores, plan.slices});
  column.reductions();
  if (stores) column.row_outputs();
}

Result<Emitted> emit_column(const Kernel& kernel, const Device& device, const Genome& genome) {
  const ColumnPlan plan = make_column_plan(kernel, device, genome);
  const int count = static_cast<int>(plan.folds.size());
  // Blocks that share a row meet between launches: one a sweep, and one for the end.
  std::vector<Stage> stages;
  int from = 0;
  const bool team = plan.teams != 0;
  for (int p = 0; plan.slices > 1 && !team && p < count; ++p) {
    if (plan.folds[static_cast<std::size_t>(p)].empty()) continue;
    stages.push_back({from, p + 1, false, plan.slices});
    from = p + 1;
  }
  stages.push_back({from, count, true, plan.slices > 1 && !team && !plan.stores ? 1 : plan.slices});

  std::vector<Emitted> launches;
  for (const Stage& stage : stages) {
    CudaWriter writer(kernel, plan.base);
    writer.out = std::string(prelude(true)) + std::string(team ? cooperative_prelude() : "") +
                 std::string(cuda_memory_prelude()) + std::string(fold_prelude()) +
                 std::string(team ? cooperative_fold_prelude() : "");
    ColumnWriter(kernel, plan, writer, stage).write();
    writer.close();
    Emitted one;
    one.language = "cuda";
    one.source = std::move(writer.out);
    one.entry = "planish_kernel";
    one.grid[0] = team ? plan.base.grid : plan.base.groups * stage.slices;
    one.block[0] = plan.block_threads();
    one.shared = plan.base.dynamic_shared;
    using Kind = Emitted::Argument::Kind;
    for (std::size_t i = 0; i < kernel.inputs.size(); ++i) one.args.push_back({Kind::input, static_cast<int>(i)});
    for (const int o : outputs_of(plan, stage)) one.args.push_back({Kind::output, o});
    if (plan.slices > 1) one.args.push_back({Kind::scratch, 0});
    if (team) one.args.push_back({Kind::scratch, 1});
    launches.push_back(std::move(one));
  }
  Emitted emitted = std::move(launches.front());
  if (plan.slices > 1) emitted.scratch_bytes = {plan.scratch_bytes};
  if (team) {
    emitted.scratch_bytes.push_back(plan.counter_bytes);
    emitted.zeroed = {1};
    if (!plan.base.columns) emitted.zeroed.insert(emitted.zeroed.begin(), 0);
    emitted.cooperative = true;
  }
  emitted.after.assign(std::make_move_iterator(launches.begin() + 1), std::make_move_iterator(launches.end()));
  return emitted;
}

}  // namespace planish::codegen::printing
