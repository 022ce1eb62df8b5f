#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "codegen/emit/cuda_kept.h"
#include "codegen/emit/cuda_math.h"
#include "codegen/emit/cuda_stages.h"
#include "codegen/emit/cuda_writer.h"
#include "codegen/fold.h"
#include "codegen/templates/row/cuda_row_joints.h"

namespace planish::codegen::printing {
namespace {

class RowWriter {
 public:
  RowWriter(const Kernel& kernel, const CudaPlan& plan, CudaWriter& writer) : kernel_(kernel), plan_(plan), w(writer) {
    const int n = static_cast<int>(kernel.space.extents.size());
    for (int v = 0; v < n; ++v) (v < n - kernel.inner ? outer_ : inner_).push_back(v);
    if (plan.raster >= 0) {
      std::erase(outer_, plan.raster);
      outer_.push_back(plan.raster);
    }
    phase_count_ = phases(kernel);
    unroll_ = plan.unroll;
    std::vector<int> roots;
    for (const auto& r : kernel.reductions) roots.push_back(r.arg);
    for (const auto& o : kernel.outputs) roots.push_back(o.node);
    needed_ = closure(kernel, roots, [](int) { return false; });
  }

  void write() {
    thread_position();
    if (plan_.dynamic_shared > 0) w.line("extern __shared__ __align__(16) unsigned char pl_smem[];");
    meet();
    if (plan_.stages != 0) {
      StageWriter ring(kernel_, plan_, w, [&](std::string_view group) { row_position(group); });
      ring.begin();
      count_turns();
      row_position("group");
      ring.arrive();
      row();
      ring.leave();
    } else if (plan_.persistent_rows != 0) {
      w.keepers();
      w.line(fmt::format("const ix from = (ix)(blockIdx.x / {}) * {};", plan_.cluster, plan_.persistent_rows));
      w.line(fmt::format("const ix upto = from + {0} < {1} ? from + {0} : {1};", plan_.persistent_rows,
                         w.literal_index(plan_.groups)));
      w.open("{");
      row_position("from");
      load_ahead(plan_.resident);
      w.close();
      w.line("#pragma unroll 1");
      w.open("for (ix group = from; group < upto; ++group) {");
      w.line("const int turn = (int)((group - from) & 1);");
      count_turns();
      row_position("group");
      row();
      w.close();
    } else {
      row_position(plan_.cluster > 1 ? fmt::format("(ix)(blockIdx.x / {})", plan_.cluster) : "(ix)blockIdx.x");
      w.keepers();
      row();
    }
    // A block must not leave while others of its cluster read its shared memory. What is pushed into it has arrived.
    if (plan_.cluster > 1 && !plan_.push) w.line("pl_cluster_sync();");
  }

 private:
  /// Vectors between those of one thread. The blocks of a cluster take turns, or with stages each its own stretch.
  std::int64_t step() const { return plan_.stages != 0 ? plan_.across : std::int64_t{plan_.across} * plan_.cluster; }

  void row() {
    row_nodes(0);
    for (int s = 0; s < phase_count_; ++s) {
      if (!plan_.merged(kernel_, s)) {
        sweep(s);
        reduce(s);
      }
      row_nodes(s + 1);
      finish_followers(s);
    }
    if (!plan_.stored_in(phase_count_).empty()) sweep(phase_count_);
    row_outputs();
  }

  void thread_position() {
    w.line("const int tid = (int)threadIdx.x;");
    if (plan_.cluster > 1) {
      w.line(fmt::format("const int rank = (int)(blockIdx.x % {});", plan_.cluster));
      w.line(fmt::format("const int first = rank * {} + tid;", plan_.stages != 0 ? plan_.chunk : plan_.threads));
      if (plan_.stages != 0) {
        w.line(fmt::format("const int past = (rank + 1) * {0} < {1} ? (rank + 1) * {0} : {1};", plan_.chunk,
                           plan_.vectors));
      }
    } else if (plan_.rows > 1) {
      w.line(fmt::format("const int first = tid % {};", plan_.across));
    } else {
      w.line("const int first = tid;");
    }
  }

  /// The row at hand and its coordinates; `group` counts `rows` rows.
  void row_position(std::string_view group) {
    if (plan_.rows > 1) {
      const std::int64_t count = kernel_.outer_extent();
      w.line(fmt::format("const ix own = {} * {} + tid / {};", group, plan_.rows, plan_.across));
      w.line(fmt::format("const bool live = own < {};", w.literal_index(count)));
      w.line(fmt::format("const ix row = live ? own : {};", w.literal_index(count - 1)));
    } else {
      w.line(fmt::format("const ix row = {};", group));
      w.line("const bool live = true;");
    }
    w.decode("row", outer_, -1);
    w.shift();
  }

  bool is_row_node(int id) const { return !plan_.places[static_cast<std::size_t>(id)].inner; }

  /// Values fixed for the whole row that become known after reduction phase p - 1.
  void row_nodes(int p) {
    std::vector<int> now;
    for (const int id : needed_) {
      if (is_row_node(id) && plan_.places[static_cast<std::size_t>(id)].phase == p) now.push_back(id);
    }
    print_nodes(w.out, kernel_, now, w, std::string(static_cast<std::size_t>(2 * w.depth), ' '));
  }

  /// True where every thread has a vector in every trip.
  bool exact() const {
    const std::int64_t mine = plan_.stages != 0 ? plan_.chunk : plan_.vectors;
    return mine == plan_.trips * step() && plan_.trips % plan_.unroll == 0 &&
           (plan_.stages == 0 || plan_.chunk * plan_.cluster == plan_.vectors);
  }

  /// Shifted rows: vectors that the ends of a row may cut come last, so that those before need no test.
  bool ends_last() const { return plan_.shifted && plan_.stages == 0 && plan_.vectors > plan_.cut_vectors(); }

  /// Trips, a multiple of `unroll`, in which every thread has a vector that lies inside the row.
  std::int64_t whole_trips() const {
    if (plan_.stages != 0) return 0;
    std::int64_t whole = plan_.partial ? plan_.length / plan_.width : plan_.vectors;
    if (plan_.shifted) whole = plan_.vectors - plan_.cut_vectors();
    return std::max<std::int64_t>(0, whole) / step() / plan_.unroll * plan_.unroll;
  }

  void vector_header() {
    w.line(fmt::format("const int t = first + (k0 + u) * {};", step()));
    const bool stretch = plan_.stages != 0 && plan_.cluster > 1;
    w.open(exact() || w.whole ? std::string("{")
           : stretch          ? std::string("if (t < past) {")
                              : fmt::format("if (t < {}) {{", plan_.vectors));
    const bool flat = plan_.lanes.mode == Lanes::Mode::flat;
    if (flat || plan_.shifted) {
      std::string at = "t";
      if (ends_last()) {
        const std::int64_t inside = plan_.vectors - plan_.cut_vectors();
        at = w.whole ? fmt::format("(t + {})", plan_.front)
                     : fmt::format("(t < {0} ? t + {1} : t < {2} ? t - {0} : t)", inside, plan_.front,
                                   inside + plan_.front);
      }
      w.line(fmt::format("const int e0 = {} * {}{};", at, plan_.width, plan_.shifted ? " - shift" : ""));
      if (flat) return;
      w.line(fmt::format("const int own = e0 / {};", plan_.width));
      w.decode("own", inner_, plan_.lanes.variable);
    } else {
      if (plan_.stages != 0) w.line(fmt::format("const int e0 = t * {};", plan_.width));
      w.decode("t", inner_, plan_.lanes.variable);
    }
  }

  /// Copies a load's vector from shared memory into registers.
  void get(int load, std::string_view into) {
    if (plan_.stages == 0) {
      w.line(fmt::format("pl_get({}, &{});", into, w.place_of(load)));
    } else {
      const Access& access = plan_.loads[static_cast<std::size_t>(load)];
      const int unit = access.kind == Access::Kind::vector ? access.unit : 1;
      w.line(fmt::format("pl_take<{}>({}, w{} + e0);", unit, into, load));
    }
  }

  std::string guard() const {
    if (!plan_.partial || w.whole) return {};
    return fmt::format("{}e0 + {} <= {}", plan_.shifted ? "e0 >= 0 && " : "", plan_.width, plan_.length);
  }

  void unrolled_loop(const std::function<void()>& body) {
    w.line("#pragma unroll");
    w.open(fmt::format("for (int u = 0; u < {}; ++u) {{", unroll_));
    vector_header();
    body();
    w.close();
    w.close();
  }

  bool first_use(int load, int s) const {
    for (int earlier = 0; earlier < s; ++earlier) {
      if (std::ranges::binary_search(plan_.sweeps[static_cast<std::size_t>(earlier)], load)) return false;
    }
    return true;
  }

  void one_loop(const std::string& from, const std::string& to, bool whole, const std::function<void()>& body) {
    const bool full = plan_.residency == Residency::registers && !plan_.resident.empty();
    w.whole = whole;
    w.line(full ? "#pragma unroll" : "#pragma unroll 1");
    w.open(backwards_ ? fmt::format("for (int k0 = {1} - {2}; k0 >= {0}; k0 -= {2}) {{", from, to, plan_.unroll)
                      : fmt::format("for (int k0 = {}; k0 < {}; k0 += {}) {{", from, to, plan_.unroll));
    body();
    w.close();
    w.whole = false;
  }

  /// Trips [from, to) with both known: first those in which nothing need be tested, then the others.
  void known_loops(std::int64_t from, std::int64_t to, const std::function<void()>& body) {
    const bool all_whole = exact() && !plan_.partial;
    const std::int64_t middle = all_whole ? to : std::clamp(whole_trips(), from, to);
    // Backwards, a loop begins at a chunk: it may go past the end, where the test is.
    const auto end = [&](std::int64_t begin, std::int64_t past) {
      const std::int64_t chunks = (past - begin + plan_.unroll - 1) / plan_.unroll;
      return fmt::format("{}", backwards_ ? begin + chunks * plan_.unroll : past);
    };
    const auto whole = [&] {
      if (middle > from) one_loop(fmt::format("{}", from), end(from, middle), true, body);
    };
    const auto tail = [&] {
      if (middle == to) return;
      unroll_ = static_cast<int>(std::min<std::int64_t>(plan_.unroll, to - middle));
      one_loop(fmt::format("{}", middle), end(middle, to), false, body);
      unroll_ = plan_.unroll;
    };
    if (backwards_) tail();
    whole();
    if (!backwards_) tail();
  }

  /// All trips. Those whose data did not fit on chip come first: what is kept arrives meanwhile.
  void all_trips(const std::function<void()>& body) {
    if (plan_.kept_trips == 0) {
      known_loops(0, plan_.trips, body);
      return;
    }
    w.reloading = true;
    known_loops(plan_.kept_trips, plan_.trips, body);
    w.reloading = false;
    backwards_ = false;
    if (kept_arrives_) w.line("pl_copy_wait<0>();");
    known_loops(0, plan_.kept_trips, body);
  }

  void trips_loop(std::string_view from, std::string_view to, const std::function<void()>& body) {
    if (from == "0" && to == fmt::format("{}", plan_.trips)) {
      all_trips(body);
      return;
    }
    const std::int64_t whole = whole_trips(), rest = plan_.trips - whole;
    if (whole == 0 || (exact() && !plan_.partial)) {
      one_loop(std::string(from), std::string(to), whole != 0, body);
      return;
    }
    one_loop(std::string(from), fmt::format("({0} < {1} ? {0} : {1})", to, whole), true, body);
    if (rest == 0) return;
    unroll_ = static_cast<int>(std::min<std::int64_t>(plan_.unroll, rest));
    one_loop(fmt::format("({0} > {1} ? {0} : {1})", from, whole), std::string(to), false, body);
    unroll_ = plan_.unroll;
  }

  void part_loop(const std::function<void(const std::string& lo, const std::string& hi)>& body) {
    w.portions(plan_.parts, plan_.trips, plan_.part_trips, body);
  }

  /// Loads `unroll` vectors. What decides which others are needed comes first, for all of them, so that it is waited
  /// for once.
  void load_chunk(const std::vector<int>& loads, bool to_shared) {
    std::vector<int> first, then;
    for (const int id : loads) (plan_.asks(id) ? first : then).push_back(id);
    for (const auto& some : {first, then}) {
      if (!some.empty()) unrolled_loop([&] { w.load_vector(some, guard(), to_shared); });
    }
  }

  /// The same before the sweep that `loads` are for, which has not loaded what decides about them.
  void load_chunk_ahead(const std::vector<int>& loads, bool to_shared) {
    std::vector<int> all = loads;
    const bool decided =
        std::ranges::any_of(loads, [&](int load) { return !plan_.needs[static_cast<std::size_t>(load)].empty(); });
    for (const int id : plan_.asked) {
      if (!decided || w.is_resident(id)) continue;
      w.line(fmt::format("{} r{}[{}];", w.pack_type(id), id, plan_.unroll));
      all.push_back(id);
    }
    load_chunk(all, to_shared);
  }

  /// Asks for the whole row at hand: one group of copies a part.
  void load_ahead(const std::vector<int>& loads) {
    const bool in_shared = plan_.residency == Residency::shared;
    if (plan_.kept_trips != 0) {
      known_loops(0, plan_.kept_trips, [&] { load_chunk_ahead(loads, true); });
      w.line("pl_copy_commit();");
      return;
    }
    part_loop([&](std::string_view from, std::string_view to) {
      trips_loop(from, to, [&] { load_chunk_ahead(loads, in_shared); });
      if (in_shared) w.line("pl_copy_commit();");
    });
  }

  /// Waits for the part that a part loop is at. Empty groups, one a part, keep the number that may be outstanding
  /// constant: those of later parts plus the empty ones so far.
  void wait_part() {
    if (plan_.parts == 1) {
      w.line("pl_copy_wait<0>();");
      return;
    }
    w.line("pl_copy_commit();");
    w.line(fmt::format("pl_copy_wait<{}>();", plan_.parts));
  }

  /// The nodes without the predicate's choice and what serves it alone.
  std::vector<int> unpredicated(const std::vector<int>& nodes) const {
    std::vector<bool> wanted(kernel_.nodes.size());
    for (const auto& r : kernel_.reductions) wanted[static_cast<std::size_t>(r.arg)] = true;
    for (const auto& o : kernel_.outputs) wanted[static_cast<std::size_t>(o.node)] = true;
    std::vector<int> out;
    for (std::size_t i = nodes.size(); i-- > 0;) {
      const int id = nodes[i];
      if (id == plan_.predicate->select || !wanted[static_cast<std::size_t>(id)]) continue;
      for (const int arg : kernel_.nodes[static_cast<std::size_t>(id)].args)
        wanted[static_cast<std::size_t>(arg)] = true;
      out.push_back(id);
    }
    std::ranges::reverse(out);
    return out;
  }

  /// What a sweep does to a vector; one that is hidden in all lanes needs no arithmetic of its own.
  void compute(const std::vector<int>& nodes, const std::string& body) {
    if (!plan_.predicate || !std::ranges::binary_search(nodes, plan_.predicate->select)) {
      w.compute(nodes, body);
      return;
    }
    const Node& choice = kernel_.nodes[static_cast<std::size_t>(plan_.predicate->select)];
    w.open(fmt::format("if ({}) {{", w.need(plan_.predicate->load)));
    w.compute(nodes, body);
    --w.depth;
    w.open("} else {");
    w.line(fmt::format("const {} {} = {};", computing_type(choice.dtype), w.name(plan_.predicate->select),
                       w.name(plan_.predicate->hidden)));
    w.compute(unpredicated(nodes), body);
    w.close();
  }

  /// The same where some outputs' lanes are set in it.
  void compute_and_store(const std::vector<int>& nodes, const std::string& body, const std::vector<int>& stored) {
    for (const int o : stored) {
      const DType dtype = kernel_.outputs[static_cast<std::size_t>(o)].dtype;
      w.line(fmt::format("PlVec<{}, {}> o{};", storage_type(dtype), plan_.width, o));
    }
    compute(nodes, body);
    if (stored.empty()) return;
    const bool always = plan_.rows == 1;
    if (!always) w.open("if (live) {");
    for (const int o : stored) w.store_vector(o, guard());
    if (!always) w.close();
  }

  std::string inside_only(const std::string& text) const {
    const std::string inside = w.lane_inside();
    return inside.empty() ? text + "\n" : fmt::format("if ({}) {{ {} }}\n", inside, text);
  }

  std::vector<OnlinePair> pairs_of(int s) const {
    std::vector<OnlinePair> out;
    for (const auto& pair : plan_.online) {
      if (kernel_.reductions[static_cast<std::size_t>(pair.leader)].phase == s) out.push_back(pair);
    }
    return out;
  }

  /// One chunk of `unroll` vectors for pairs: first what the chunk needs from itself alone (maximum, mean), then the
  /// running state moved there, then the elements relative to it.
  /// Where small arguments of some functions make these short, the chunk is printed for them as well.
  void online_chunk(const std::vector<OnlinePair>& pairs, const std::vector<int>& nodes, const std::vector<int>& kept,
                    const std::vector<int>& stored, const std::string& others, bool totals) {
    const bool in_shared = plan_.residency == Residency::shared;
    const auto small =
        plan_.near && !in_shared && !plan_.predicate ? near_arguments(kernel_, nodes) : std::vector<NearArgument>{};
    if (small.empty()) {
      online_steps(pairs, nodes, kept, stored, others, totals);
      return;
    }
    std::string seen;
    std::string test;
    std::vector<int> roots;
    for (const auto& [node, limit] : small) {
      w.line(fmt::format("float far{} = 0.0f;", node));
      seen += inside_only(fmt::format("far{0} = fmaxf(far{0}, fabsf({1}));", node, w.name(node)));
      test += fmt::format("{}far{} <= {:a}f", test.empty() ? "" : " && ", node, static_cast<float>(limit));
      roots.push_back(node);
    }
    const auto needed = closure(kernel_, roots, [&](int id) { return !std::ranges::binary_search(nodes, id); });
    unrolled_loop([&] { w.compute(needed, seen); });
    w.near = true;
    w.open(fmt::format("if ({}) {{", test));
    online_steps(pairs, nodes, kept, stored, others, totals);
    w.near = false;
    --w.depth;
    w.open("} else {");
    online_steps(pairs, nodes, kept, stored, others, totals);
    w.close();
  }

  void online_steps(const std::vector<OnlinePair>& pairs, const std::vector<int>& nodes, const std::vector<int>& kept,
                    const std::vector<int>& stored, const std::string& others, bool totals) {
    const bool in_shared = plan_.residency == Residency::shared;
    w.copies_ahead = true;
    std::string first = others;
    std::string second;
    const bool counted = !w.whole;
    if (in_shared) {
      for (const int id : kept) w.line(fmt::format("{} s{}[{}];", w.pack_type(id), id, plan_.unroll));
    }
    KeptElements twice(kernel_, w, plan_.unroll, plan_.width);
    for (const auto& pair : pairs) {
      const RowJoint& joint = row_joint(pair.kind);
      const std::string value = w.name(pair.x);
      const std::string known = twice.second_name(pair.x, first);
      joint.begin_chunk(print_, pair, counted);
      first += inside_only(joint.first_look(pair, value, counted));
      second += inside_only(joint.second_look(print_, pair, known));
    }
    unrolled_loop([&] {
      if (in_shared) {
        for (const int id : kept) get(id, fmt::format("s{}[u]", id));
      }
      compute_and_store(nodes, first, stored);
    });
    for (const auto& pair : pairs) row_joint(pair.kind).join_chunk(print_, pair, totals);
    unrolled_loop([&] { compute(twice.computed_again(nodes), second); });
    w.copies_ahead = false;
  }

  void finish_followers(int s) {
    for (const auto& pair : pairs_of(s)) row_joint(pair.kind).finish_follower(print_, pair);
  }

  /// The sweep after which nothing of the row is read.
  int last_sweep() const {
    int s = phase_count_;
    if (!plan_.stored_in(s).empty()) return s;
    while (s > 0 && plan_.merged(kernel_, s - 1)) --s;
    return s - 1;
  }

  /// The vectors at hand were read for the last time: the next row's take their place.
  void refill() {
    w.open("if (group + 1 < upto) {");
    row_position("(group + 1)");
    unrolled_loop([&] { w.load_vector(plan_.resident, guard(), true); });
    w.close();
  }

  /// What one sweep over the row loads, computes and leaves.
  struct Sweep {
    std::vector<int> nodes;
    std::vector<int> ahead;  ///< resident loads: all of the row is asked for before the first use
    std::vector<int> along;  ///< loads that come chunk by chunk
    std::vector<int> kept;   ///< resident ones, loaded now or before
    std::vector<OnlinePair> pairs;
    std::vector<int> stored;              ///< outputs
    std::vector<std::size_t> reductions;  ///< those summed up here, followers last
    bool waits = false;                   ///< for copies that are under way
    bool refills = false;                 ///< the next row takes the place of this one
    bool totals = false;                  ///< sums are put aside now and then: no chain of additions is too long
  };

  Sweep plan_sweep(int s) const {
    Sweep out;
    out.nodes = plan_.sweeps[static_cast<std::size_t>(s)];
    plan_loads(s, out);
    const bool in_shared = plan_.residency == Residency::shared;
    out.waits = in_shared && plan_.stages == 0 && (plan_.persistent_rows != 0 ? s == 0 : !out.ahead.empty());
    out.refills = s == last_sweep() && plan_.persistent_rows != 0;
    out.pairs = pairs_of(s);
    out.stored = plan_.stored_in(s);
    if (s == phase_count_) return out;
    for (std::size_t r = 0; r < kernel_.reductions.size(); ++r) {
      if (kernel_.reductions[r].phase == s) out.reductions.push_back(r);
    }
    for (const auto& pair : out.pairs) out.reductions.push_back(static_cast<std::size_t>(pair.follower));
    const bool sums = std::ranges::any_of(out.reductions, [&](std::size_t r) {
      const auto& reduction = kernel_.reductions[r];
      return is_floating(reduction.accumulate) && info(reduction.kind).adds;
    });
    out.totals = sums && plan_.trips > longest_chain && plan_.residency != Residency::registers;
    return out;
  }

  /// Which of the sweep's loads come when.
  void plan_loads(int s, Sweep& out) const {
    for (const int id : out.nodes) {
      if (!plan_.swept[static_cast<std::size_t>(id)]) continue;
      if (!w.is_resident(id)) {
        out.along.push_back(id);
        continue;
      }
      out.kept.push_back(id);
      if (first_use(id, s) && !plan_.takes_turns()) out.ahead.push_back(id);
    }
  }

  void sweep(int s) {
    const Sweep now = plan_sweep(s);
    if (!now.ahead.empty()) load_ahead(now.ahead);
    if (s != phase_count_) {
      for (const auto& pair : now.pairs) row_joint(pair.kind).declare(print_, pair);
    }
    backwards_ = s == phase_count_ && plan_.reverse;
    w.begin_pieces(now.stored);
    for (const std::size_t r : now.reductions) declare(fmt::format("acc{}", r), r);
    if (now.totals) {
      chained_trips(now);
    } else {
      plain_trips(now);
    }
    backwards_ = false;
  }

  void plain_trips(const Sweep& now) {
    const auto part = [&](std::string_view from, std::string_view to) {
      if (now.waits && plan_.kept_trips == 0) wait_part();
      kept_arrives_ = now.waits;
      trips_loop(from, to, [&] { sweep_chunk(now); });
      if (now.refills) w.line("pl_copy_commit();");
    };
    if (now.waits || now.refills) {
      part_loop(part);
    } else {
      part("0", fmt::format("{}", plan_.trips));
    }
  }

  /// The same where sums go to totals after each `longest_chain` of additions.
  void chained_trips(const Sweep& now) {
    if (now.waits) w.line("pl_copy_wait<0>();");
    for (const std::size_t r : now.reductions) declare(fmt::format("total{}", r), r);
    const std::int64_t chain = longest_chain / plan_.unroll * plan_.unroll;
    w.line("#pragma unroll 1");
    w.open(fmt::format("for (int c0 = 0; c0 < {}; c0 += {}) {{", plan_.trips, chain));
    w.line(fmt::format("const int c1 = c0 + {0} < {1} ? c0 + {0} : {1};", chain, plan_.trips));
    trips_loop("c0", "c1", [&] { sweep_chunk(now); });
    w.line("#pragma unroll");
    w.open(fmt::format("for (int j = 0; j < {}; ++j) {{", plan_.width));
    for (const std::size_t r : now.reductions) {
      const auto& reduction = kernel_.reductions[r];
      w.line(fmt::format(
          "total{0}[j] = {1};", r,
          combine(reduction.kind, reduction.accumulate, fmt::format("total{}[j]", r), fmt::format("acc{}[j]", r))));
      w.line(fmt::format("acc{}[j] = {};", r, neutral(reduction.kind, reduction.accumulate)));
    }
    w.close();
    w.close();
    w.line("#pragma unroll");
    w.open(fmt::format("for (int j = 0; j < {}; ++j) {{", plan_.width));
    for (const std::size_t r : now.reductions) w.line(fmt::format("acc{0}[j] = total{0}[j];", r));
    w.close();
  }

  /// What a sweep does with the chunk of `unroll` vectors at hand.
  void sweep_chunk(const Sweep& now) {
    w.backwards_chunks = backwards_;
    std::vector<int> loads = now.along, held = now.kept;  // loaded in this step, and had
    if (w.reloading) loads.insert(loads.end(), now.kept.begin(), now.kept.end());
    if (w.reloading) held.clear();
    const std::string body = lane_text(now);
    load_step(loads);
    if (now.pairs.empty()) {
      unrolled_loop([&] {
        if (plan_.residency == Residency::shared) {
          for (const int id : held) {
            w.line(fmt::format("{} s{};", w.pack_type(id), id));
            get(id, fmt::format("s{}", id));
          }
        }
        compute_and_store(now.nodes, body, now.stored);
      });
    } else {
      online_chunk(now.pairs, now.nodes, held, now.stored, body, now.totals);
    }
    if (now.refills) refill();
  }

  /// What is done with each lane. Where every lane is inside the row, its text is shorter.
  std::string lane_text(const Sweep& now) {
    std::string body;
    for (const int o : now.stored) body += w.set_lane(o);
    for (const std::size_t r : now.reductions) {
      const bool leads = plan_.led_by(static_cast<int>(r)) != nullptr;
      if (!leads && plan_.followed_by(static_cast<int>(r)) == nullptr) body += accumulate(r);
    }
    return body;
  }

  /// Loads of the chunk at hand: once for all of it, or vector by vector.
  void load_step(const std::vector<int>& loads) {
    const std::vector<int> each = w.begin_loads(loads);
    const auto& once = w.chunk_loads;
    if (!once.empty()) {
      const int count = std::exchange(unroll_, 1);
      load_chunk(once, false);
      unroll_ = count;
    }
    load_chunk(each, false);
  }

  void declare(const std::string& name, std::size_t r) {
    const auto& reduction = kernel_.reductions[r];
    std::string values;
    for (int j = 0; j < plan_.width; ++j) values += (j ? ", " : "") + neutral(reduction.kind, reduction.accumulate);
    w.line(fmt::format("{} {}[{}] = {{{}}};", computing_type(reduction.accumulate), name, plan_.width, values));
  }

  std::string accumulate(std::size_t r) {
    const auto& reduction = kernel_.reductions[r];
    const std::string value = convert(
        w.name(reduction.arg), kernel_.nodes[static_cast<std::size_t>(reduction.arg)].dtype, reduction.accumulate);
    const std::string sum = combine(reduction.kind, reduction.accumulate, fmt::format("acc{}[j]", r), value);
    const std::string inside = w.lane_inside();
    return inside.empty() ? fmt::format("acc{}[j] = {};\n", r, sum)
                          : fmt::format("if ({}) acc{}[j] = {};\n", inside, r, sum);
  }

  /// Butterfly over `width` neighbouring lanes: every lane ends with the same bits.
  void butterfly(std::size_t r, int width) {
    const auto& reduction = kernel_.reductions[r];
    for (int m = width / 2; m >= 1; m /= 2) {
      w.line(fmt::format("red{0} = {1};", r,
                         combine(reduction.kind, reduction.accumulate, fmt::format("red{}", r),
                                 fmt::format("pl_xor(red{}, {})", r, m))));
    }
  }

  /// Folds every reduction of `mine` over `width` lanes. A follower is first moved to its leader's common result.
  void fold(const std::vector<std::size_t>& mine, int width, bool of_threads) {
    for (const std::size_t r : mine) {
      const OnlinePair* pair = plan_.led_by(static_cast<int>(r));
      if (plan_.followed_by(static_cast<int>(r)) != nullptr) continue;
      if (pair == nullptr) {
        butterfly(r, width);
        continue;
      }
      w.open("{");
      row_joint(pair->kind).across(print_, *pair, width, of_threads, [&](int of, int lanes) {
        butterfly(static_cast<std::size_t>(of), lanes);
      });
      w.close();
    }
  }

  /// What threads exchange: variable, type, what an absent partner counts as.
  struct Slot {
    std::string variable, name, type, absent;
  };

  /// Phases in which the blocks of a cluster exchange anything.
  std::vector<int> exchanges() const {
    std::vector<int> out;
    for (int s = 0; s < phase_count_; ++s) {
      const bool any = std::ranges::any_of(kernel_.reductions, [&](const Reduction& r) { return r.phase == s; });
      if (any && !plan_.merged(kernel_, s)) out.push_back(s);
    }
    return out;
  }

  /// Every block writes its values into all blocks of the cluster, whose own barriers count the bytes: nobody waits for
  /// anything else that is under way, as a barrier of the whole cluster makes them do.
  /// Where one value of each warp of the cluster has a lane, warps do so themselves, without meeting in their block.
  void push(int s, const std::vector<std::size_t>& mine, const std::vector<Slot>& slots) {
    const int givers = plan_.pushers();
    const std::string lane = plan_.warps_push() ? "tid % 32" : "tid";
    const std::string place = plan_.warps_push() ? fmt::format("rank * {} + tid / 32", givers / plan_.cluster) : "rank";
    const std::string turn = plan_.takes_turns() ? "turn" : "0";
    const std::string parity = plan_.takes_turns() ? "again" : "0";
    std::int64_t bytes = 0;
    for (const auto& slot : slots) bytes += slot.type == "double" || slot.type == "long long" ? 8 : 4;
    for (const auto& slot : slots) {
      const bool wide = slot.type == "double" || slot.type == "long long";
      w.line(fmt::format("__shared__ {} cl{}[{}];", wide ? "unsigned long long" : "unsigned", slot.name,
                         (plan_.takes_turns() ? 2 : 1) * givers));
    }
    w.line(fmt::format("if (tid == 0) pl_barrier_expect(&met{}[{}], {});", s, turn, bytes * givers));
    w.open(fmt::format("if ({} < {}) {{", lane, plan_.cluster));
    for (const auto& slot : slots) {
      w.line(fmt::format("pl_push(&cl{}[{} * {} + {}], {}, &met{}[{}], {});", slot.name, turn, givers, place,
                         slot.variable, s, turn, lane));
    }
    w.close();
    w.line(fmt::format("pl_barrier_wait(&met{}[{}], {});", s, turn, parity));
    for (const auto& slot : slots) {
      w.line(fmt::format("{0} = pl_bits<{1}>(cl{2}[{3} * {4} + tid % {4}]);", slot.variable, slot.type, slot.name, turn,
                         givers));
    }
    fold(mine, givers, false);
  }

  /// Barriers of the exchange, known to all blocks of the cluster before the first one uses them.
  void meet() {
    if (plan_.cluster == 1 || !plan_.push) return;
    const int sets = plan_.takes_turns() ? 2 : 1;
    for (const int s : exchanges()) {
      w.line(fmt::format("__shared__ unsigned long long met{}[{}];", s, sets));
      w.line(fmt::format("if (tid < {}) pl_barrier_init(&met{}[tid], 1);", sets, s));
    }
    w.line("pl_barrier_ready();");
    w.line("pl_cluster_meet();");
    if (plan_.takes_turns()) w.line("int again = 1;");
  }

  /// Which phase the barriers of the exchange are in: each is used every second row.
  void count_turns() {
    if (plan_.cluster > 1 && plan_.push) w.line("again ^= turn == 0;");
  }

  void reduce(int s) {
    std::vector<std::size_t> mine;
    const auto pairs = pairs_of(s);
    for (std::size_t r = 0; r < kernel_.reductions.size(); ++r) {
      if (kernel_.reductions[r].phase == s) mine.push_back(r);
    }
    if (mine.empty()) return;
    for (const auto& pair : pairs) mine.push_back(static_cast<std::size_t>(pair.follower));
    // Of a leader whose part is one variable, its object.
    const auto running = [&](std::size_t r) {
      const OnlinePair* pair = plan_.led_by(static_cast<int>(r));
      return pair != nullptr && !row_joint(pair->kind).leader(*pair).empty() ? pair : nullptr;
    };
    for (const std::size_t r : mine) {
      const auto& reduction = kernel_.reductions[r];
      const OnlinePair* pair = running(r);
      w.line(fmt::format("{} red{} = {};", computing_type(reduction.accumulate), r,
                         pair != nullptr ? row_joint(pair->kind).leader(*pair)
                                         : combined_lanes(reduction.kind, reduction.accumulate, fmt::format("acc{}", r),
                                                          plan_.width)));
    }
    fold(mine, std::min(32, plan_.across), true);

    std::vector<Slot> slots;
    for (const std::size_t r : mine) {
      const auto& reduction = kernel_.reductions[r];
      const OnlinePair* pair = running(r);
      slots.push_back(
          {fmt::format("red{}", r), fmt::format("{}", r), std::string(computing_type(reduction.accumulate)),
           pair != nullptr ? row_joint(pair->kind).absent() : neutral(reduction.kind, reduction.accumulate)});
    }
    for (const auto& pair : pairs) {
      if (row_joint(pair.kind).counts())
        slots.push_back({fmt::format("count{}", pair.leader), fmt::format("n{}", pair.leader), "float", "0.0f"});
    }
    const bool turns = plan_.takes_turns();
    if (plan_.across > 32 && !plan_.warps_push()) {
      const int warps = plan_.across / 32;
      const int all = plan_.threads / 32;
      const std::string base = turns ? fmt::format("turn * {} + ", all) : "";
      for (const auto& slot : slots) {
        w.line(fmt::format("__shared__ {} sh{}[{}];", slot.type, slot.name, turns ? 2 * all : all));
        w.line(fmt::format("if (tid % 32 == 0) sh{}[{}tid / 32] = {};", slot.name, base, slot.variable));
      }
      w.line("__syncthreads();");
      for (const auto& slot : slots) {
        w.line(fmt::format("{} = tid % 32 < {} ? sh{}[{}tid / {} * {} + tid % 32] : {};", slot.variable, warps,
                           slot.name, base, plan_.across, warps, slot.absent));
      }
      fold(mine, 32, false);
    }
    if (plan_.cluster > 1 && plan_.push) {
      push(s, mine, slots);
    } else if (plan_.cluster > 1) {
      for (const auto& slot : slots) {
        w.line(fmt::format("__shared__ {} cl{}{};", slot.type, slot.name, turns ? "[2]" : ""));
        w.line(fmt::format("if (tid == 0) cl{}{} = {};", slot.name, turns ? "[turn]" : "", slot.variable));
      }
      w.line("pl_cluster_sync();");
      for (const auto& slot : slots) {
        w.line(fmt::format("{} = pl_remote(&cl{}{}, tid % {});", slot.variable, slot.name, turns ? "[turn]" : "",
                           plan_.cluster));
      }
      fold(mine, plan_.cluster, false);
    }
    for (const auto& pair : pairs) row_joint(pair.kind).finish_leader(print_, pair);
  }

  void row_outputs() {
    std::vector<int> outputs;
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
      if (!kernel_.outputs[o].per_row) continue;
      outputs.push_back(static_cast<int>(o));
    }
    if (outputs.empty()) return;
    w.open("if (live && first == 0) {");
    for (const int o : outputs) {
      const auto& output = kernel_.outputs[static_cast<std::size_t>(o)];
      w.line(fmt::format(
          "out{}[{}] = {};", o, w.index(kernel_, output.index),
          store_form(w.name(output.node), kernel_.nodes[static_cast<std::size_t>(output.node)].dtype, output.dtype)));
    }
    w.close();
  }

  const Kernel& kernel_;
  const CudaPlan& plan_;
  CudaWriter& w;
  const RowJointPrint print_{kernel_, plan_, w};
  std::vector<int> outer_, inner_, needed_;
  int phase_count_ = 0;
  int unroll_ = 1;  ///< of the loop at hand
  bool kept_arrives_ = false;
  bool backwards_ = false;  ///< the sweep at hand begins at the row's end
};

}  // namespace

void write_row(const Kernel& kernel, const CudaPlan& plan, CudaWriter& writer) {
  RowWriter(kernel, plan, writer).write();
}

}  // namespace planish::codegen::printing
