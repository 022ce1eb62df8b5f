#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "codegen/emit/cuda_writer.h"

namespace planish::codegen::printing {
namespace {

/// Longest chain of additions before a partial sum is put aside: keeps long rows as accurate as a pairwise sum.
constexpr std::int64_t longest_chain = 256;

class RowWriter {
 public:
  RowWriter(const Kernel& kernel, const CudaPlan& plan, CudaWriter& writer) : kernel_(kernel), plan_(plan), w(writer) {
    const int n = static_cast<int>(kernel.space.extents.size());
    for (int v = 0; v < n; ++v) (v < n - kernel.inner ? outer_ : inner_).push_back(v);
    phase_count_ = phases(kernel);
    std::vector<int> roots;
    for (const auto& r : kernel.reductions) roots.push_back(r.arg);
    for (const auto& o : kernel.outputs) roots.push_back(o.node);
    needed_ = closure(kernel, roots, [](int) { return false; });
  }

  void write() {
    position();
    keepers();
    row_nodes(0);
    for (int s = 0; s < phase_count_; ++s) {
      sweep(s);
      reduce(s);
      row_nodes(s + 1);
    }
    if (std::ranges::any_of(kernel_.outputs, [](const Output& o) { return !o.per_row; })) sweep(phase_count_);
    row_outputs();
    // A block must not leave while others of its cluster read its shared memory.
    if (plan_.cluster > 1) w.line("pl_cluster_sync();");
  }

 private:
  std::int64_t step() const { return static_cast<std::int64_t>(plan_.across) * plan_.cluster; }

  void position() {
    w.line("const int tid = (int)threadIdx.x;");
    if (plan_.columns) {
      w.line(fmt::format("const int x = tid % {}, y = tid / {};", plan_.rows, plan_.rows));
      const std::int64_t count = kernel_.outer_extent() / plan_.width;
      w.line(fmt::format("const ix own = (ix)blockIdx.x * {} + x;", plan_.rows));
      w.line(fmt::format("const bool live = own < {};", w.literal_index(count)));
      w.line(fmt::format("const ix row = live ? own : {};", w.literal_index(count - 1)));
      w.decode("row", outer_, plan_.lanes.variable);
      w.line("const int first = y;");
      return;
    }
    const std::int64_t count = kernel_.outer_extent();
    if (plan_.cluster > 1) {
      w.line(fmt::format("const int rank = (int)(blockIdx.x % {});", plan_.cluster));
      w.line(fmt::format("const int first = rank * {} + tid;", plan_.threads));
      w.line(fmt::format("const ix row = (ix)(blockIdx.x / {});", plan_.cluster));
      w.line("const bool live = true;");
    } else if (plan_.rows > 1) {
      w.line(fmt::format("const int first = tid % {};", plan_.across));
      w.line(fmt::format("const ix own = (ix)blockIdx.x * {} + tid / {};", plan_.rows, plan_.across));
      w.line(fmt::format("const bool live = own < {};", w.literal_index(count)));
      w.line(fmt::format("const ix row = live ? own : {};", w.literal_index(count - 1)));
    } else {
      w.line("const int first = tid;");
      w.line("const ix row = blockIdx.x;");
      w.line("const bool live = true;");
    }
    w.decode("row", outer_, -1);
    if (plan_.shifted) {
      std::vector<std::string> names;
      for (std::size_t v = 0; v < kernel_.space.extents.size(); ++v) names.push_back(fmt::format("d{}", v));
      w.line(fmt::format("const int shift = (int)(({}) & {});",
                         index_text(*plan_.lanes.primary, kernel_.space, names, plan_.wide), plan_.width - 1));
    }
  }

  void keepers() {
    if (plan_.dynamic_shared > 0) w.line("extern __shared__ __align__(16) unsigned char pl_smem[];");
    for (std::size_t i = 0; i < plan_.resident.size(); ++i) {
      const int id = plan_.resident[i];
      if (plan_.residency == Residency::registers) {
        const std::int64_t padded = (plan_.trips + plan_.unroll - 1) / plan_.unroll * plan_.unroll;
        w.line(fmt::format("{} R{}[{}];", w.pack_type(id), id, padded));
      } else {
        w.line(
            fmt::format("{0}* const S{1} = ({0}*)(pl_smem + {2}) + tid;", w.pack_type(id), id, plan_.shared_offset[i]));
      }
    }
  }

  bool is_row_node(int id) const { return !plan_.columns && !plan_.places[static_cast<std::size_t>(id)].inner; }

  /// Values fixed for the whole row that become known after reduction phase p - 1.
  void row_nodes(int p) {
    std::vector<int> now;
    for (const int id : needed_) {
      if (is_row_node(id) && plan_.places[static_cast<std::size_t>(id)].phase == p) now.push_back(id);
    }
    print_nodes(w.out, kernel_, now, w, std::string(static_cast<std::size_t>(2 * w.depth), ' '));
  }

  void vector_header() {
    w.line(fmt::format("const int t = first + (k0 + u) * {};", step()));
    const bool exact = plan_.vectors == plan_.trips * step() && plan_.trips % plan_.unroll == 0;
    w.open(exact ? std::string("{") : fmt::format("if (t < {}) {{", plan_.vectors));
    if (plan_.columns) {
      w.decode("t", inner_, -1);
    } else if (plan_.lanes.mode == Lanes::Mode::flat) {
      w.line(fmt::format("const int e0 = t * {}{};", plan_.width, plan_.shifted ? " - shift" : ""));
    } else {
      w.decode("t", inner_, plan_.lanes.variable);
    }
  }

  std::string guard() const {
    if (!plan_.partial) return {};
    return fmt::format("{}e0 + {} <= {}", plan_.shifted ? "e0 >= 0 && " : "", plan_.width, plan_.length);
  }

  void unrolled_loop(const std::function<void()>& body) {
    w.line("#pragma unroll");
    w.open(fmt::format("for (int u = 0; u < {}; ++u) {{", plan_.unroll));
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

  void trips_loop(std::string_view from, std::string_view to, const std::function<void()>& body) {
    const bool full = plan_.residency == Residency::registers && !plan_.resident.empty();
    w.line(full ? "#pragma unroll" : "#pragma unroll 1");
    w.open(fmt::format("for (int k0 = {}; k0 < {}; k0 += {}) {{", from, to, plan_.unroll));
    body();
    w.close();
  }

  void sweep(int s) {
    const auto& nodes = plan_.sweeps[static_cast<std::size_t>(s)];
    std::vector<int> fresh;  // loaded now
    std::vector<int> kept;   // loaded now or before, stays
    for (const int id : nodes) {
      if (!plan_.swept[static_cast<std::size_t>(id)]) continue;
      if (w.is_resident(id)) {
        kept.push_back(id);
        if (first_use(id, s)) fresh.push_back(id);
      } else {
        fresh.push_back(id);
      }
    }
    const bool in_shared = plan_.residency == Residency::shared;
    const bool in_registers = plan_.residency == Residency::registers;
    std::vector<int> ahead;  // resident ones: all of the row is asked for before the first use
    std::vector<int> along;
    for (const int id : fresh) (w.is_resident(id) ? ahead : along).push_back(id);
    const std::string trips = fmt::format("{}", plan_.trips);

    if (!ahead.empty()) {
      trips_loop("0", trips, [&] { unrolled_loop([&] { w.load_vector(ahead, guard(), in_shared); }); });
      if (in_shared) {
        w.line("pl_copy_commit();");
        w.line("pl_copy_wait<0>();");
      }
    }

    const bool stores = s == phase_count_;
    std::string body;
    std::vector<std::size_t> mine;
    if (stores) {
      for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
        if (!kernel_.outputs[o].per_row) body += w.set_lane(static_cast<int>(o));
      }
    } else {
      for (std::size_t r = 0; r < kernel_.reductions.size(); ++r) {
        if (kernel_.reductions[r].phase == s) mine.push_back(r);
      }
      for (const std::size_t r : mine) body += accumulate(r);
    }

    const auto pass = [&] {
      for (const int id : along) w.line(fmt::format("{} r{}[{}];", w.pack_type(id), id, plan_.unroll));
      if (!along.empty()) unrolled_loop([&] { w.load_vector(along, guard(), false); });
      unrolled_loop([&] {
        if (in_shared) {
          for (const int id : kept)
            w.line(fmt::format("{} s{}; pl_get(s{}, &{});", w.pack_type(id), id, id, w.place_of(id)));
        }
        if (stores) {
          for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
            if (!kernel_.outputs[o].per_row)
              w.line(fmt::format("PlVec<{}, {}> o{};", storage_type(kernel_.outputs[o].dtype), plan_.width, o));
          }
        }
        w.compute(nodes, body);
        if (!stores) return;
        const bool always = !plan_.columns && plan_.rows == 1;
        if (!always) w.open("if (live) {");
        for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
          if (!kernel_.outputs[o].per_row) w.store_vector(static_cast<int>(o), guard());
        }
        if (!always) w.close();
      });
    };

    for (const std::size_t r : mine) declare(fmt::format("acc{}", r), r);
    const bool sums = std::ranges::any_of(mine, [&](std::size_t r) {
      const auto& reduction = kernel_.reductions[r];
      return is_floating(reduction.accumulate) &&
             (reduction.kind == ReduceKind::sum || reduction.kind == ReduceKind::product);
    });
    if (sums && plan_.trips > longest_chain && !in_registers) {
      for (const std::size_t r : mine) declare(fmt::format("total{}", r), r);
      const std::int64_t chain = longest_chain / plan_.unroll * plan_.unroll;
      w.line("#pragma unroll 1");
      w.open(fmt::format("for (int c0 = 0; c0 < {}; c0 += {}) {{", trips, chain));
      w.line(fmt::format("const int c1 = c0 + {} < {} ? c0 + {} : {};", chain, trips, chain, trips));
      trips_loop("c0", "c1", pass);
      w.line("#pragma unroll");
      w.open(fmt::format("for (int j = 0; j < {}; ++j) {{", plan_.width));
      for (const std::size_t r : mine) {
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
      for (const std::size_t r : mine) w.line(fmt::format("acc{0}[j] = total{0}[j];", r));
      w.close();
    } else {
      trips_loop("0", trips, pass);
    }
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

  void reduce(int s) {
    std::vector<std::size_t> mine;
    for (std::size_t r = 0; r < kernel_.reductions.size(); ++r) {
      if (kernel_.reductions[r].phase == s) mine.push_back(r);
    }
    if (mine.empty()) return;
    if (plan_.columns) {
      reduce_columns(mine);
      return;
    }
    const auto type = [&](std::size_t r) { return computing_type(kernel_.reductions[r].accumulate); };
    for (const std::size_t r : mine) {
      const auto& reduction = kernel_.reductions[r];
      std::vector<std::string> parts;
      for (int j = 0; j < plan_.width; ++j) parts.push_back(fmt::format("acc{}[{}]", r, j));
      while (parts.size() > 1) {
        std::vector<std::string> half;
        for (std::size_t i = 0; i + 1 < parts.size(); i += 2)
          half.push_back(combine(reduction.kind, reduction.accumulate, parts[i], parts[i + 1]));
        parts = std::move(half);
      }
      w.line(fmt::format("{} red{} = {};", type(r), r, parts[0]));
      butterfly(r, std::min(32, plan_.across));
    }
    if (plan_.across > 32) {
      const int warps = plan_.across / 32;
      for (const std::size_t r : mine) {
        w.line(fmt::format("__shared__ {} sh{}[{}];", type(r), r, plan_.threads / 32));
        w.line(fmt::format("if (tid % 32 == 0) sh{0}[tid / 32] = red{0};", r));
      }
      w.line("__syncthreads();");
      for (const std::size_t r : mine) {
        const auto& reduction = kernel_.reductions[r];
        w.line(fmt::format("red{0} = tid % 32 < {1} ? sh{0}[tid / {2} * {1} + tid % 32] : {3};", r, warps, plan_.across,
                           neutral(reduction.kind, reduction.accumulate)));
        butterfly(r, 32);
      }
    }
    if (plan_.cluster > 1) {
      for (const std::size_t r : mine) {
        w.line(fmt::format("__shared__ {} cl{};", type(r), r));
        w.line(fmt::format("if (tid == 0) cl{0} = red{0};", r));
      }
      w.line("pl_cluster_sync();");
      for (const std::size_t r : mine) {
        w.line(fmt::format("red{0} = pl_remote(&cl{0}, tid % {1});", r, plan_.cluster));
        butterfly(r, plan_.cluster);
      }
    }
  }

  void reduce_columns(const std::vector<std::size_t>& mine) {
    const int row = plan_.rows * plan_.width;
    for (const std::size_t r : mine) {
      const auto type = computing_type(kernel_.reductions[r].accumulate);
      w.line(fmt::format("{} red{}[{}];", type, r, plan_.width));
      if (plan_.across > 1) w.line(fmt::format("__shared__ {} sh{}[{}];", type, r, plan_.across * row));
    }
    w.line("#pragma unroll");
    w.open(fmt::format("for (int j = 0; j < {}; ++j) {{", plan_.width));
    for (const std::size_t r : mine) {
      w.line(plan_.across > 1 ? fmt::format("sh{0}[y * {1} + j * {2} + x] = acc{0}[j];", r, row, plan_.rows)
                              : fmt::format("red{0}[j] = acc{0}[j];", r));
    }
    w.close();
    if (plan_.across == 1) return;
    w.line("__syncthreads();");
    w.line("#pragma unroll");
    w.open(fmt::format("for (int j = 0; j < {}; ++j) {{", plan_.width));
    for (const std::size_t r : mine) {
      const auto& reduction = kernel_.reductions[r];
      w.line(fmt::format("red{0}[j] = sh{0}[j * {1} + x];", r, plan_.rows));
      w.line(fmt::format("for (int i = 1; i < {}; ++i) red{}[j] = {};", plan_.across, r,
                         combine(reduction.kind, reduction.accumulate, fmt::format("red{}[j]", r),
                                 fmt::format("sh{}[i * {} + j * {} + x]", r, row, plan_.rows))));
    }
    w.close();
  }

  void row_outputs() {
    std::vector<int> roots;
    std::string body;
    std::vector<int> outputs;
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
      if (!kernel_.outputs[o].per_row) continue;
      outputs.push_back(static_cast<int>(o));
      roots.push_back(kernel_.outputs[o].node);
      if (plan_.columns) body += w.set_lane(static_cast<int>(o));
    }
    if (outputs.empty()) return;
    if (plan_.columns) {
      w.open("if (live && y == 0) {");
      for (const int o : outputs) {
        w.line(fmt::format("PlVec<{}, {}> o{};", storage_type(kernel_.outputs[static_cast<std::size_t>(o)].dtype),
                           plan_.width, o));
      }
      w.compute(closure(kernel_, roots, [](int) { return false; }), body);
      for (const int o : outputs) w.store_vector(o, "");
      w.close();
      return;
    }
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
  std::vector<int> outer_, inner_, needed_;
  int phase_count_ = 0;
};

}  // namespace

void write_row(const Kernel& kernel, const CudaPlan& plan, CudaWriter& writer) {
  RowWriter(kernel, plan, writer).write();
}

}  // namespace planish::codegen::printing
