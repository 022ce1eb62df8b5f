#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "codegen/emit/cuda_column_plan.h"
#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/cuda_writer.h"

namespace planish::codegen::printing {
namespace {

/// Which part of the whole one launch does.
struct Stage {
  int from = 0, to = 0;  ///< phases swept here; earlier ones are gathered from scratch
  bool stores = false;   ///< writes the outputs
  std::int64_t slices = 1;
};

class ColumnWriter {
 public:
  ColumnWriter(const Kernel& kernel, const ColumnPlan& plan, CudaWriter& writer, const Stage& stage)
      : kernel_(kernel), plan_(plan), base_(plan.base), w(writer), stage_(stage) {
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
  bool team() const { return plan_.teams != 0; }
  /// True where the slices of a team lie in shared memory.
  bool ring() const { return plan_.kept_trips != 0; }
  bool sliced() const { return plan_.slices > 1 && !team(); }
  std::string exponential() const { return base_.fast ? "pl_fast_exp" : "expf"; }

  void head() {
    std::string parameters;
    const auto add = [&](const std::string& text) { parameters += (parameters.empty() ? "" : ", ") + text; };
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
      add(fmt::format("const {}* __restrict__ in{}", storage_type(kernel_.inputs[i].dtype), i));
    for (std::size_t o = 0; stage_.stores && o < kernel_.outputs.size(); ++o)
      add(fmt::format("{}* __restrict__ out{}", storage_type(kernel_.outputs[o].dtype), o));
    if (sliced() || team()) add("unsigned char* partials");
    if (team()) add("unsigned* gates");
    w.line(fmt::format("typedef {} ix;", base_.wide ? "long long" : "int"));
    w.open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {}) planish_kernel({}) {{", base_.threads,
                       base_.min_blocks, parameters));
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
    if (plan_.meeting_bytes > 0)
      w.line(fmt::format("__shared__ double pl_meeting[{}];", (plan_.meeting_bytes + 7) / 8));
  }

  std::string upto_text() const {
    if (base_.vectors == plan_.slices * plan_.slice_length) return fmt::format("from + {}", plan_.slice_length);
    return fmt::format("from + {0} < {1} ? from + {0} : {1}", plan_.slice_length, base_.vectors);
  }

  /// The row of `group` and its coordinates.
  void row_position() {
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

  // ---- states ----

  static FieldName spelled(std::string prefix, int reduction, std::string lane) {
    return [=](const std::string& suffix) { return fmt::format("{}{}{}{}", prefix, reduction, suffix, lane); };
  }
  void lanes(const std::function<void()>& body) {
    w.line("#pragma unroll");
    w.open(fmt::format("for (int j = 0; j < {}; ++j) {{", base_.width));
    body();
    w.close();
  }
  std::string merged(const Fold& fold, const FieldName& a, const FieldName& b) const {
    return merge(kernel_, fold, exponential(), a, b);
  }
  void declare(const std::string& prefix, const Fold& fold) {
    for (const FoldField& field : fold.fields) {
      std::string values;
      for (int j = 0; j < base_.width; ++j) values += (j ? ", " : "") + field.neutral;
      w.line(fmt::format("{} {}{}{}[{}] = {{{}}};", field.type, prefix, fold.reduction, field.suffix, base_.width,
                         values));
    }
  }

  // ---- sweeps ----

  /// True where every thread has a vector in every trip.
  bool exact() const {
    return base_.vectors == plan_.slices * plan_.slice_length && plan_.slice_length == base_.trips * base_.across &&
           base_.trips % base_.unroll == 0;
  }

  void unrolled(const std::function<void()>& body) {
    w.line("#pragma unroll");
    w.open(fmt::format("for (int u = 0; u < {}; ++u) {{", base_.unroll));
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
    const bool full = base_.residency == Residency::registers && !base_.resident.empty();
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
      if (fold.kind != Fold::Kind::plain && fold.kind != Fold::Kind::position) continue;
      const Reduction& reduction = kernel_.reductions[static_cast<std::size_t>(fold.reduction)];
      const DType from = kernel_.nodes[static_cast<std::size_t>(fold.x)].dtype;
      std::string value = w.name(fold.x), at;
      if (fold.kind == Fold::Kind::plain) {
        value = convert(value, from, reduction.accumulate);
      } else {
        at = fmt::format("({}){}", fold.fields[1].type, w.name(reduction.at));
      }
      body += inside_only(take(kernel_, fold, spelled("a", fold.reduction, "[j]"), value, at));
    }
    return body;
  }

  /// What pairs do with an element: at first what a chunk of them alone says (maximum, mean), and then, relative to it.
  struct Halves {
    std::string first, second;
  };
  Halves halves(const std::vector<Fold>& folds) {
    Halves text{taken(folds), {}};
    for (const Fold& fold : folds) {
      const int r = fold.reduction;
      if (fold.kind == Fold::Kind::exponentials) {
        text.first += inside_only(fmt::format("top{0}[j] = pl_max(top{0}[j], {1});", r, w.name(fold.x)));
        text.second += inside_only(fmt::format("a{0}s[j] += {1}({2} - a{0}m[j]);", r, exponential(), w.name(fold.x)));
      } else if (fold.kind == Fold::Kind::deviations) {
        text.first += inside_only(fmt::format("part{0}[j] += {1}; seen{0}[j] += 1.0f;", r, w.name(fold.x)));
        text.second += inside_only(
            fmt::format("{{ const float off = {1} - part{0}[j]; a{0}q[j] += off * off; }}", r, w.name(fold.x)));
      }
    }
    return text;
  }

  void start_chunk(const std::vector<Fold>& folds) {
    std::string zeros, bottoms;
    for (int j = 0; j < base_.width; ++j) {
      zeros += j ? ", 0.0f" : "0.0f";
      bottoms += fmt::format("{}{}", j ? ", " : "", fold_bottom);
    }
    for (const Fold& fold : folds) {
      if (fold.kind == Fold::Kind::exponentials)
        w.line(fmt::format("float top{}[{}] = {{{}}};", fold.reduction, base_.width, bottoms));
      if (fold.kind == Fold::Kind::deviations)
        w.line(
            fmt::format("float part{0}[{1}] = {{{2}}}, seen{0}[{1}] = {{{2}}};", fold.reduction, base_.width, zeros));
    }
  }

  /// Moves the running state to where the chunk at hand is.
  void move_state(const std::vector<Fold>& folds) {
    lanes([&] {
      for (const Fold& fold : folds) {
        const int r = fold.reduction;
        if (fold.kind == Fold::Kind::exponentials) {
          w.line(fmt::format("const float next{0} = pl_max(a{0}m[j], top{0}[j]);", r));
          w.line(fmt::format("a{0}s[j] *= {1}(a{0}m[j] - next{0});", r, exponential()));
          w.line(fmt::format("a{0}m[j] = next{0};", r));
        } else if (fold.kind == Fold::Kind::deviations) {
          w.line(fmt::format("pl_deviations(a{0}n[j], a{0}t[j], a{0}q[j], seen{0}[j], part{0}[j], 0.0f);", r));
          w.line(fmt::format("part{0}[j] /= seen{0}[j];", r));
        }
      }
    });
  }

  /// One chunk of `unroll` vectors where pairs fold.
  void chunk(const std::vector<Fold>& folds, const std::vector<int>& nodes, const std::vector<int>& kept) {
    const bool in_shared = base_.residency == Residency::shared;
    const Halves text = halves(folds);
    w.copies_ahead = true;
    if (in_shared) {
      for (const int id : kept) w.line(fmt::format("{} s{}[{}];", w.pack_type(id), id, base_.unroll));
    }
    start_chunk(folds);
    unrolled([&] {
      if (in_shared) {
        for (const int id : kept) w.line(fmt::format("pl_get(s{}[u], &{});", id, w.place_of(id)));
      }
      w.compute(nodes, text.first);
    });
    move_state(folds);
    unrolled([&] { w.compute(nodes, text.second); });
    w.copies_ahead = false;
  }

  /// Pairs over what a team keeps in shared memory: all of it is one chunk, looked at twice, so that the state moves
  /// once a row. Loads that are not kept are read twice.
  void chunk_kept(bool arrive, const std::vector<Fold>& folds, const std::vector<int>& nodes,
                  const std::function<void()>& sort_loads, const std::vector<int>& along,
                  const std::vector<int>& kept) {
    const Halves text = halves(folds);
    const auto look = [&](const std::string& body) {
      sort_loads();
      for (const int id : along) w.line(fmt::format("{} r{}[{}];", w.pack_type(id), id, base_.unroll));
      if (!along.empty()) unrolled([&] { w.load_vector(along, guard(), false); });
      unrolled([&] {
        for (const int id : kept)
          w.line(fmt::format("{} s{}; pl_get(s{}, &{});", w.pack_type(id), id, id, w.place_of(id)));
        w.compute(nodes, body);
      });
    };
    w.open("{");
    start_chunk(folds);
    kept_trips(arrive, [&] { look(text.first); }, [] {});
    move_state(folds);
    kept_trips(false, [&] { look(text.second); }, [] {});
    w.close();
  }

  /// All trips of a sweep. A team keeps `kept_trips` of them in shared memory: where those `arrive`, the others are
  /// read meanwhile, and where the row is written for good, the team's next one takes their place.
  void all_trips(bool arrive, bool refill, const std::function<void()>& pass) {
    if (!ring()) {
      trips("0", fmt::format("{}", base_.trips), pass);
      return;
    }
    other_trips(pass);
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

  /// Those trips of a team's slice that did not fit on chip.
  void other_trips(const std::function<void()>& pass) {
    if (plan_.kept_trips == base_.trips) return;
    w.reloading = true;
    trips(fmt::format("{}", plan_.kept_trips), fmt::format("{}", base_.trips), pass);
    w.reloading = false;
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

  /// Asks for the chunk at hand of the row that takes the place of this one.
  void ask_later() {
    const std::string step = w.literal_index(plan_.ring * plan_.teams);
    w.open(fmt::format("if (group + {} < {}) {{", step, w.literal_index(base_.groups)));
    w.line(fmt::format("const ix later = group + {};", step));
    w.open("{");
    w.line("const ix group = later;");
    row_position();
    unrolled([&] { w.load_vector(base_.resident, guard(), true); });
    w.close();
    w.close();
  }

  void part_loop(const std::function<void(const std::string& lo, const std::string& hi)>& body) {
    if (plan_.parts == 1) {
      body("0", fmt::format("{}", plan_.kept_trips));
      return;
    }
    w.line("#pragma unroll 1");
    w.open(fmt::format("for (int q0 = 0; q0 < {}; q0 += {}) {{", plan_.kept_trips, plan_.part_trips));
    w.line(fmt::format("const int q1 = q0 + {0} < {1} ? q0 + {0} : {1};", plan_.part_trips, plan_.kept_trips));
    body("q0", "q1");
    w.close();
  }

  /// One pass over the slice: folds of phase `s`, or the stores where `s` is past them.
  void sweep(int s) {
    const auto& nodes = base_.sweeps[static_cast<std::size_t>(s)];
    const bool stores = s == static_cast<int>(plan_.folds.size());
    static const std::vector<Fold> none;
    const auto& folds = stores ? none : plan_.folds[static_cast<std::size_t>(s)];
    const bool in_shared = base_.residency == Residency::shared;
    std::vector<int> ahead, along, kept;
    const auto sort_loads = [&] {
      ahead.clear(), along.clear(), kept.clear();
      for (const int id : nodes) {
        if (!base_.swept[static_cast<std::size_t>(id)]) continue;
        if (!w.is_resident(id)) {
          along.push_back(id);
          continue;
        }
        kept.push_back(id);
        if (!ring() && !used_before(id, s)) ahead.push_back(id);
      }
    };
    sort_loads();
    const std::string all = fmt::format("{}", base_.trips);
    if (!ahead.empty()) {
      trips("0", all, [&] { unrolled([&] { w.load_vector(ahead, guard(), in_shared); }); });
      if (in_shared) {
        w.line("pl_copy_commit();");
        w.line("pl_copy_wait<0>();");
      }
    }
    std::string body = taken(folds);
    if (stores) {
      for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
        if (!kernel_.outputs[o].per_row) body += w.set_lane(static_cast<int>(o));
      }
    }
    const bool pairs = std::ranges::any_of(folds, [](const Fold& fold) { return fold.follower >= 0; });
    const auto pass = [&] {
      sort_loads();
      for (const int id : along) w.line(fmt::format("{} r{}[{}];", w.pack_type(id), id, base_.unroll));
      if (!along.empty()) unrolled([&] { w.load_vector(along, guard(), false); });
      if (pairs) {
        chunk(folds, nodes, kept);
        return;
      }
      unrolled([&] {
        if (in_shared) {
          for (const int id : kept)
            w.line(fmt::format("{} s{}; pl_get(s{}, &{});", w.pack_type(id), id, id, w.place_of(id)));
        }
        if (stores) {
          for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
            if (!kernel_.outputs[o].per_row)
              w.line(fmt::format("PlVec<{}, {}> o{};", storage_type(kernel_.outputs[o].dtype), base_.width, o));
          }
        }
        w.compute(nodes, body);
        if (!stores) return;
        w.open("if (live) {");
        for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
          if (!kernel_.outputs[o].per_row) w.store_vector(static_cast<int>(o), guard());
        }
        w.close();
      });
    };
    for (const Fold& fold : folds) declare("a", fold);
    if (!chained_ || stores) {
      backwards_ = stores && base_.reverse && !sliced();
      if (pairs && ring()) {
        other_trips(pass);
        chunk_kept(s == 0, folds, nodes, sort_loads, along, kept);
      } else {
        all_trips(s == 0, stores, pass);
      }
      backwards_ = false;
      return;
    }
    // Long sums are put aside now and then: no chain of additions is longer than `longest_chain`.
    for (const Fold& fold : folds) declare("b", fold);
    const std::int64_t chain = std::max<std::int64_t>(1, longest_chain / base_.unroll) * base_.unroll;
    w.line("#pragma unroll 1");
    w.open(fmt::format("for (int c0 = 0; c0 < {}; c0 += {}) {{", all, chain));
    w.line(fmt::format("const int c1 = c0 + {} < {} ? c0 + {} : {};", chain, all, chain, all));
    trips("c0", "c1", pass);
    lanes([&] {
      for (const Fold& fold : folds) {
        w.line(merged(fold, spelled("b", fold.reduction, "[j]"), spelled("a", fold.reduction, "[j]")));
        for (const FoldField& field : fold.fields)
          w.line(fmt::format("a{}{}[j] = {};", fold.reduction, field.suffix, field.neutral));
      }
    });
    w.close();
    lanes([&] {
      for (const Fold& fold : folds) {
        for (const FoldField& field : fold.fields)
          w.line(fmt::format("a{0}{1}[j] = b{0}{1}[j];", fold.reduction, field.suffix));
      }
    });
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
    for (int r = 0; r < plan_.ring; ++r) {
      w.open("{");
      w.line(fmt::format("const ix group = team + {};", w.literal_index(r * plan_.teams)));
      row_position();
      row_places(fmt::format("{}", r));
      part_loop([&](const std::string& lo, const std::string& hi) {
        w.open(fmt::format("if (group < {}) {{", w.literal_index(base_.groups)));
        trips(lo, hi, [&] { unrolled([&] { w.load_vector(base_.resident, guard(), true); }); });
        w.close();
        w.line("pl_copy_commit();");
      });
      w.close();
    }
  }

  /// Meetings alternate between two counters: a block may come to one before another has left the one before.
  std::string gate(const std::string& number) const {
    return fmt::format("gates + (team * {} + ({}) % {}) * {}", ColumnPlan::team_counters, number,
                       ColumnPlan::team_counters, ColumnPlan::counter_words);
  }
  /// Which meeting of the team that of `sweep` is, in the row that is its `turn`th.
  std::string number_of(const std::string& turn, int sweep) const {
    std::string text = plan_.sweeps == 1 ? turn : fmt::format("({}) * {}", turn, plan_.sweeps);
    return sweep == 0 ? text : fmt::format("{} + {}", text, sweep);
  }

  void come(const std::vector<Fold>& folds, const std::string& number) {
    w.line("__syncthreads();");  // what threads met in last time has been read
    meet(folds);
    leave(folds);
    if (base_.columns || base_.rows > 1) w.line("__syncthreads();");
    w.line(fmt::format("if (tid == 0) pl_team_come({});", gate(number)));
  }

  void wait(const std::vector<Fold>& folds, const std::string& number) {
    w.line(fmt::format("if (tid == 0) pl_team_wait({}, (unsigned)(({}) / {} + 1) * {}u);", gate(number), number,
                       ColumnPlan::team_counters, plan_.slices));
    w.line("__syncthreads();");
    gather(folds);
    meet(folds, true);
    results(folds);
  }

  /// What follows from the reductions, once they are known.
  void write_row() {
    if (plan_.stores) sweep(static_cast<int>(plan_.folds.size()));
    row_outputs();
  }

  void row_start(const std::string& group, const std::string& turn) {
    w.line(fmt::format("const ix group = {};", group));
    row_position();
    row_places(turn);
    row_nodes(0);
  }

  void write_team() {
    head();
    thread_position();
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
    come(plan_.folds[0], number_of("turn", 0));
    w.close();
    w.open("if (turn > 0) {");
    row_start(fmt::format("at - {}", teams), fmt::format("turn + {}", plan_.ring - 1));
    wait(plan_.folds[0], number_of("turn - 1", 0));
    for (int p = 0; p < count; ++p) {
      row_nodes(p + 1);
      finish(plan_.folds[static_cast<std::size_t>(p)]);
    }
    write_row();
    w.close();
    w.close();
  }

  // ---- meeting: the states a<r> of a block's threads become one, held by all of them ----

  /// `first_lane`: the others have seen nothing.
  void meet(const std::vector<Fold>& folds, bool first_lane = false) {
    if (base_.columns) {
      meet_columns(folds);
    } else {
      meet_rows(folds, first_lane);
    }
  }

  void meet_columns(const std::vector<Fold>& folds) {
    if (base_.across == 1) return;
    w.open("{");
    const auto slot = [&](const std::string& row) {
      return fmt::format("[({} * {} + j) * {} + x]", row, base_.width, base_.rows);
    };
    places(folds, static_cast<std::int64_t>(base_.threads) * base_.width);
    const auto each_field = [&](const std::string& format_left, const std::string& format_right) {
      for (const Fold& fold : folds) {
        for (const FoldField& field : fold.fields) {
          const std::string own = fmt::format("a{}{}[j]", fold.reduction, field.suffix);
          const std::string there = fmt::format("h{}{}", fold.reduction, field.suffix);
          w.line(fmt::format("{} = {};", format_left.empty() ? own : there + format_left,
                             format_right.empty() ? own : there + format_right));
        }
      }
    };
    lanes([&] { each_field(slot("y"), ""); });
    w.line("#pragma unroll 1");
    w.open(fmt::format("for (int h = {}; h > 0; h /= 2) {{", base_.across / 2));
    w.line("__syncthreads();");
    w.open("if (y < h) {");
    lanes([&] {
      for (const Fold& fold : folds) {
        const int r = fold.reduction;
        w.line(merged(fold, spelled("a", r, "[j]"),
                      [&](const std::string& suffix) { return fmt::format("h{}{}{}", r, suffix, slot("(y + h)")); }));
      }
      each_field(slot("y"), "");
    });
    w.close();
    w.close();
    w.line("__syncthreads();");
    lanes([&] { each_field("", slot("0")); });
    w.close();
  }

  /// Merges the states of each group of so many lanes; all of them hold the result.
  void across_lanes(const Fold& fold, int count) {
    for (int m = count / 2; m >= 1; m /= 2) {
      w.open("{");
      for (const FoldField& field : fold.fields)
        w.line(
            fmt::format("const {0} z{1}{2} = pl_xor(a{1}{2}[0], {3});", field.type, fold.reduction, field.suffix, m));
      w.line(merged(fold, spelled("a", fold.reduction, "[0]"), spelled("z", fold.reduction, "")));
      w.close();
    }
  }

  void meet_rows(const std::vector<Fold>& folds, bool first_lane) {
    for (const Fold& fold : folds) {
      for (int step = 1; step < base_.width && !first_lane; step *= 2) {
        for (int j = 0; j + step < base_.width; j += 2 * step) {
          w.line(merged(fold, spelled("a", fold.reduction, fmt::format("[{}]", j)),
                        spelled("a", fold.reduction, fmt::format("[{}]", j + step))));
        }
      }
      across_lanes(fold, std::min(32, base_.across));
    }
    if (base_.across <= 32) return;
    const int warps = base_.across / 32;
    w.open("{");
    places(folds, base_.threads / 32);
    w.open("if (tid % 32 == 0) {");
    for (const Fold& fold : folds) {
      for (const FoldField& field : fold.fields)
        w.line(fmt::format("h{0}{1}[tid / 32] = a{0}{1}[0];", fold.reduction, field.suffix));
    }
    w.close();
    w.line("__syncthreads();");
    w.line(fmt::format("const int w0 = tid / {} * {};", base_.across, warps));
    if (team()) {
      // Who meets once a row cannot wait for one warp's state after the other.
      for (const Fold& fold : folds) {
        for (const FoldField& field : fold.fields)
          w.line(fmt::format("a{0}{1}[0] = h{0}{1}[w0 + tid % {2}];", fold.reduction, field.suffix, warps));
        across_lanes(fold, warps);
      }
      w.close();
      return;
    }
    for (const Fold& fold : folds) {
      const int r = fold.reduction;
      for (const FoldField& field : fold.fields) w.line(fmt::format("a{0}{1}[0] = h{0}{1}[w0];", r, field.suffix));
      w.line("#pragma unroll 1");
      w.open(fmt::format("for (int i = 1; i < {}; ++i) {{", warps));
      w.line(merged(fold, spelled("a", r, "[0]"),
                    [&](const std::string& suffix) { return fmt::format("h{}{}[w0 + i]", r, suffix); }));
      w.close();
    }
    w.close();
  }

  /// Declares h<r><field>: arrays of `count` elements in the meeting place, which has room for the folds of all phases:
  /// none overwrites what another still reads.
  void places(const std::vector<Fold>& folds, std::int64_t count) {
    for (const Fold& fold : folds) {
      for (const FoldField& field : fold.fields) {
        w.line(fmt::format("{0}* const h{1}{2} = ({0}*)((unsigned char*)pl_meeting + {3});", field.type, fold.reduction,
                           field.suffix, place_of(fold.reduction, field.suffix, count)));
      }
    }
  }

  /// Wider elements first: everything is aligned.
  std::int64_t place_of(int reduction, const std::string& suffix, std::int64_t count) const {
    std::int64_t offset = 0;
    for (const int bytes : {8, 4, 1}) {
      for (const auto& phase : plan_.folds) {
        for (const Fold& fold : phase) {
          for (const FoldField& field : fold.fields) {
            if (field.bytes != bytes) continue;
            if (fold.reduction == reduction && field.suffix == suffix) return offset;
            offset += count * bytes;
          }
        }
      }
    }
    return offset;
  }

  // ---- scratch ----

  std::string partial(const Fold& fold, const FoldField& field, const std::string& slice) const {
    const std::string cell = base_.columns ? fmt::format("(long long)row * {} + j", base_.width) : "(long long)row";
    if (team() && !base_.columns) {
      return fmt::format("(({}*)(partials + {}LL))[(long long)row * {} + {}]", field.type,
                         plan_.offset_of(fold.reduction, field.suffix), plan_.slices, slice);
    }
    return fmt::format("(({}*)(partials + {}LL))[{} * {}LL + {}]", field.type,
                       plan_.offset_of(fold.reduction, field.suffix), slice, plan_.cells, cell);
  }

  void leave(const std::vector<Fold>& folds) {
    w.open("if (live && y == 0) {");
    const auto all = [&](const char* lane) {
      for (const Fold& fold : folds) {
        for (const FoldField& field : fold.fields)
          w.line(fmt::format("{} = a{}{}{};", partial(fold, field, "slice"), fold.reduction, field.suffix, lane));
      }
    };
    if (base_.columns) {
      lanes([&] { all("[j]"); });
    } else {
      all("[0]");
    }
    w.close();
  }

  void gather(const std::vector<Fold>& folds) {
    for (const Fold& fold : folds) declare("a", fold);
    w.line("#pragma unroll 4");
    w.open(fmt::format("for (int i = y; i < {}; i += {}) {{", plan_.slices, base_.across));
    const auto all = [&](const char* lane) {
      for (const Fold& fold : folds) {
        for (const FoldField& field : fold.fields)
          w.line(
              fmt::format("const {} z{}{} = {};", field.type, fold.reduction, field.suffix, partial(fold, field, "i")));
        w.line(merged(fold, spelled("a", fold.reduction, lane), spelled("z", fold.reduction, "")));
      }
    };
    if (base_.columns) {
      lanes([&] { all("[j]"); });
    } else {
      all("[0]");
    }
    w.close();
  }

  // ---- results ----

  void results(const std::vector<Fold>& folds) {
    const std::string lane = base_.columns ? "[j]" : "";
    const std::string from = base_.columns ? "[j]" : "[0]";
    for (const Fold& fold : folds) {
      for (const int r : {fold.reduction, fold.follower}) {
        if (r < 0) continue;
        const auto type = computing_type(kernel_.reductions[static_cast<std::size_t>(r)].accumulate);
        w.line(fmt::format("{} red{}{};", type, r, base_.columns ? fmt::format("[{}]", base_.width) : ""));
      }
    }
    const auto all = [&] {
      for (const Fold& fold : folds) {
        const int r = fold.reduction;
        const auto value = [&](const char* suffix) { return fmt::format("a{}{}{}", r, suffix, from); };
        switch (fold.kind) {
          case Fold::Kind::plain:
            w.line(fmt::format("red{}{} = {};", r, lane, value("")));
            break;
          case Fold::Kind::position:
            // Nothing beyond the start was seen: every element is as the first.
            w.line(fold.rising
                       ? fmt::format("red{0}{1} = {2} == {3} ? 0 : {2};", r, lane, value("i"), fold.fields[1].neutral)
                       : fmt::format("red{}{} = {};", r, lane, value("i")));
            break;
          case Fold::Kind::exponentials:
            // The element that is the maximum adds 1 to the sum: a sum of 0 saw nothing above -inf.
            w.line(fmt::format("red{}{} = {} == 0.0f ? -PL_INF_F32 : {};", r, lane, value("s"), value("m")));
            w.line(fmt::format("red{}{} = {};", fold.follower, lane, value("s")));
            break;
          case Fold::Kind::deviations:
            w.line(fmt::format("red{}{} = {};", r, lane, value("t")));
            w.line(fmt::format("red{}{} = {};", fold.follower, lane, value("q")));
            break;
        }
      }
    };
    if (base_.columns) {
      lanes(all);
    } else {
      all();
    }
  }

  /// A sum of exponentials is relative to the maximum; what the kernel subtracts may be made of it (and an infinite or
  /// NaN maximum decides the sum alone).
  void finish(const std::vector<Fold>& folds) {
    const std::string lane = base_.columns ? "[j]" : "";
    for (const Fold& fold : folds) {
      if (fold.kind != Fold::Kind::exponentials) continue;
      const std::string leader = fmt::format("red{}{}", fold.reduction, lane);
      const std::string sum = fmt::format("red{}{}", fold.follower, lane);
      const Node& base = kernel_.nodes[static_cast<std::size_t>(fold.base)];
      const bool itself = base.op == Op::reduced && base.reduction == fold.reduction;
      const std::string text =
          itself ? fmt::format("if (!(fabsf({}) < PL_INF_F32)) {} = PL_NAN_F32;", leader, sum)
                 : fmt::format("{0} = fabsf({1}) < PL_INF_F32 ? {0} * expf({1} - {2}) : expf({1} - {2});", sum, leader,
                               w.name(fold.base));
      if (!base_.columns) {
        w.line(text);
      } else if (itself) {
        lanes([&] { w.line(text); });
      } else {
        const int roots[] = {fold.base};
        w.open("{");
        w.compute(closure(kernel_, roots, [](int) { return false; }), text + "\n");
        w.close();
      }
    }
  }

  const Kernel& kernel_;
  const ColumnPlan& plan_;
  const CudaPlan& base_;
  CudaWriter& w;
  const Stage stage_;
  std::vector<int> outer_, inner_, needed_;
  bool chained_ = false;
  bool backwards_ = false;    ///< the sweep at hand begins at the end
  bool chunk_whole_ = false;  ///< every thread has all vectors of the chunk at hand
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
    writer.out = std::string(prelude(true)) + std::string(team ? team_prelude() : "") +
                 std::string(cuda_memory_prelude()) + std::string(fold_prelude());
    ColumnWriter(kernel, plan, writer, stage).write();
    writer.close();
    Emitted one;
    one.language = "cuda";
    one.source = std::move(writer.out);
    one.entry = "planish_kernel";
    one.grid[0] = team ? plan.base.grid : plan.base.groups * stage.slices;
    one.block[0] = plan.base.threads;
    one.shared = plan.base.dynamic_shared;
    using Kind = Emitted::Argument::Kind;
    for (std::size_t i = 0; i < kernel.inputs.size(); ++i) one.args.push_back({Kind::input, static_cast<int>(i)});
    for (std::size_t o = 0; stage.stores && o < kernel.outputs.size(); ++o)
      one.args.push_back({Kind::output, static_cast<int>(o)});
    if (plan.slices > 1) one.args.push_back({Kind::scratch, 0});
    if (team) one.args.push_back({Kind::scratch, 1});
    launches.push_back(std::move(one));
  }
  Emitted emitted = std::move(launches.front());
  if (plan.slices > 1) emitted.scratch_bytes = {plan.scratch_bytes};
  if (team) {
    emitted.scratch_bytes.push_back(plan.counter_bytes);
    emitted.zeroed = {1};
    emitted.cooperative = true;
  }
  emitted.after.assign(std::make_move_iterator(launches.begin() + 1), std::make_move_iterator(launches.end()));
  return emitted;
}

}  // namespace planish::codegen::printing
