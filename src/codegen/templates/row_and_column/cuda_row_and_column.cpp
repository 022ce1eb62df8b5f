#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/cuda_fold.h"
#include "codegen/emit/cuda_writer.h"
#include "codegen/templates/common.h"
#include "codegen/templates/row_and_column/cuda_row_and_column_plan.h"

namespace planish::codegen::printing {
namespace {

/// Names in the printed text, beside those of CudaWriter: `c3m[k][j]` field m of column reduction 3 in a thread's k-th
/// vector, `R1[g]` what is known of row reduction 1 in the g-th row under way, `H7[k]` what load 7 brings for all rows,
/// `part0` the buffer of field 0.
class RowColumnWriter : public CudaWriter {
 public:
  RowColumnWriter(const Kernel& kernel, const RowColumnPlan& plan)
      : CudaWriter(kernel, plan.base), k_(kernel), plan_(plan), base_(plan.base) {
    const int n = static_cast<int>(kernel.space.extents.size());
    for (int v = 0; v < n; ++v) {
      const int outer = n - kernel.inner;
      (v < outer - kernel.across ? common_ : v < outer ? across_ : inner_).push_back(v);
    }
    for (const auto& reduction : kernel.reductions)
      phases_ = reduction.across ? phases_ : std::max(phases_, reduction.phase + 1);
  }

  std::vector<Emitted::Argument> args;

  void write() {
    head();
    position();
    declare_columns();
    hold();
    if (base_.across > 32) line("int turn = 0;");
    line("#pragma unroll 1");
    open(fmt::format("for (int i0 = begin; i0 < end; i0 += {}) {{", base_.rows * plan_.ahead));
    load_rows();
    for (int p = 0; p < phases_; ++p) fold_rows(p);
    if (plan_.whole()) {
      row_outputs();
    } else {
      leave_rows();
    }
    elements();
    fold_columns();
    if (base_.across > 32) line("turn ^= 1;");
    close();
    leave_columns();
    close();
  }

  std::string load(const Kernel& kernel, int id) override {
    if (!std::ranges::binary_search(plan_.held, id) || holding_) return CudaWriter::load(kernel, id);
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    const DType stored = kernel.inputs[static_cast<std::size_t>(node.input)].dtype;
    const auto kind = base_.loads[static_cast<std::size_t>(id)].kind;
    const std::string lane = kind == Access::Kind::invariant  ? "0"
                             : kind == Access::Kind::reversed ? fmt::format("{} - j", base_.width - 1)
                                                              : "j";
    return convert(load_form(fmt::format("H{}[k].x[{}]", id, lane), stored), stored, node.dtype);
  }

 private:
  std::string exponential(std::string_view difference) const {
    return fmt::format("{}({})", base_.fast ? "pl_fast_exp" : "expf", difference);
  }
  const Reduction& reduction(int r) const { return k_.reductions[static_cast<std::size_t>(r)]; }
  std::string type_of(int r) const { return std::string(computing_type(reduction(r).accumulate)); }
  bool row_level(int id) const { return !plan_.levels[static_cast<std::size_t>(id)].inner; }

  void head() {
    std::string parameters;
    const auto add = [&](const std::string& text) { parameters += (parameters.empty() ? "" : ", ") + text; };
    using Kind = Emitted::Argument::Kind;
    for (std::size_t i = 0; i < k_.inputs.size(); ++i) {
      add(fmt::format("const {}* __restrict__ in{}", storage_type(k_.inputs[i].dtype), i));
      args.push_back({Kind::input, static_cast<int>(i)});
    }
    for (std::size_t o = 0; o < k_.outputs.size(); ++o) {
      const Output& output = k_.outputs[o];
      if (output.per_column || (output.per_row && !plan_.whole())) continue;
      add(fmt::format("{}* __restrict__ out{}", storage_type(output.dtype), o));
      args.push_back({Kind::output, static_cast<int>(o)});
    }
    int part = 0;
    for (const auto* fields : {&plan_.column_fields, &plan_.row_fields}) {
      for (const auto& field : *fields) {
        add(fmt::format("{}* __restrict__ part{}", storage_type(field.dtype), part));
        args.push_back({Kind::scratch, part++});
      }
    }
    line(fmt::format("typedef {} ix;", base_.wide ? "long long" : "int"));
    open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {}) planish_kernel({}) {{", base_.threads,
                     base_.min_blocks, parameters));
  }

  void position() {
    line("const int tid = (int)threadIdx.x;");
    line(base_.rows > 1 ? fmt::format("const int first = tid % {0}, side = tid / {0};", base_.across)
                        : "const int first = tid, side = 0;");
    if (plan_.whole()) {
      line("const int from = 0;");
      line("const int run = (int)blockIdx.x;");
    } else {
      line(fmt::format("const int strip = (int)(blockIdx.x % {0}u), from = strip * {1};", plan_.strips,
                       plan_.strip_vectors));
      line(fmt::format("const int run = (int)(blockIdx.x / {}u);", plan_.strips));
    }
    line(fmt::format("const int chunk = run % {0}, common = run / {0};", plan_.chunks));
    decode("common", common_, -1);
    line(fmt::format("const int begin = chunk * {0}, end = begin + {0} < {1} ? begin + {0} : {1};", plan_.chunk_rows,
                     plan_.rows_each));
  }

  /// True where each of a thread's vectors lies inside the row.
  bool exact() const { return plan_.strips * plan_.strip_vectors == base_.vectors; }

  void vectors(const std::function<void()>& body) {
    line("#pragma unroll");
    open(fmt::format("for (int k = 0; k < {}; ++k) {{", plan_.trips));
    one_vector(body);
    close();
  }
  void one_vector(const std::function<void()>& body) {
    line(fmt::format("const int t = from + first + k * {};", base_.across));
    open(exact() ? std::string("{") : fmt::format("if (t < {}) {{", base_.vectors));
    decode("t", inner_, base_.lanes.variable);
    body();
    close();
  }

  void rows(const std::function<void()>& body) {
    line("#pragma unroll");
    open(fmt::format("for (int g = 0; g < {}; ++g) {{", plan_.ahead));
    row_position();
    body();
    close();
  }
  void row_position() {
    line(fmt::format("const int at = i0 + g * {} + side;", base_.rows));
    line("const bool live = at < end;");
    line("const int row = live ? at : end - 1;");
    decode("row", across_, -1);
  }

  /// Nodes that are one for the row at hand, those that `roots` need.
  void row_nodes(std::span<const int> roots) {
    std::vector<int> now = closure(k_, roots, [](int) { return false; });
    std::erase_if(now, [&](int id) { return !row_level(id); });
    for (int r = 0; r < static_cast<int>(k_.reductions.size()); ++r) {
      const bool used = std::ranges::any_of(now, [&](int id) {
        const Node& node = k_.nodes[static_cast<std::size_t>(id)];
        return node.op == Op::reduced && node.reduction == r;
      });
      if (used) line(fmt::format("const {0} red{1} = R{1}[g];", type_of(r), r));
    }
    print_nodes(out, k_, now, *this, std::string(static_cast<std::size_t>(2 * depth), ' '));
  }

  std::vector<int> element_nodes(std::span<const int> roots) const {
    return closure(k_, roots, [&](int id) { return row_level(id); });
  }

  std::string list(const std::string& neutral, int count) const {
    std::string text;
    for (int i = 0; i < count; ++i) text += (i ? ", " : "") + neutral;
    return text;
  }

  void declare_columns() {
    for (const auto& field : plan_.column_fields) {
      const std::string name = fmt::format("c{}{}", field.reduction, field.suffix);
      line(fmt::format("{} {}[{}][{}];", computing_type(field.dtype), name, plan_.trips, base_.width));
      line("#pragma unroll");
      open(fmt::format("for (int k = 0; k < {}; ++k) {{", plan_.trips));
      line("#pragma unroll");
      line(fmt::format("for (int j = 0; j < {}; ++j) {}[k][j] = {};", base_.width, name, field.neutral));
      close();
    }
  }

  /// What all rows of a run share is loaded once.
  void hold() {
    if (plan_.held.empty()) return;
    holding_ = true;
    for (const int id : plan_.held) line(fmt::format("{} H{}[{}];", pack_type(id), id, plan_.trips));
    vectors([&] {
      line("const int u = 0;");
      for (const int id : plan_.held) {
        line(fmt::format("{} r{}[1];", pack_type(id), id));
        const int one[] = {id};
        load_vector(one, "", false);
        line(fmt::format("H{0}[k] = r{0}[0];", id));
      }
    });
    holding_ = false;
  }

  void load_rows() {
    std::vector<int> roots, loads;
    for (const auto& r : k_.reductions) roots.push_back(r.arg);
    for (const auto& o : k_.outputs) {
      if (!o.per_row && !o.per_column) roots.push_back(o.node);
    }
    for (const int id : closure(k_, roots, [](int) { return false; })) {
      if (base_.swept[static_cast<std::size_t>(id)] && !std::ranges::binary_search(plan_.held, id)) loads.push_back(id);
    }
    for (const int id : loads) line(fmt::format("{} r{}[{}];", pack_type(id), id, plan_.ahead * plan_.trips));
    rows([&] {
      vectors([&] {
        line(fmt::format("const int u = g * {} + k;", plan_.trips));
        load_vector(loads, "", false);
      });
    });
  }

  /// Folds the phase's reductions along each row under way: R<r>[g].
  void fold_rows(int phase) {
    std::vector<int> mine;
    for (int r = 0; r < static_cast<int>(k_.reductions.size()); ++r) {
      if (!reduction(r).across && reduction(r).phase == phase) mine.push_back(r);
    }
    if (mine.empty()) return;
    const auto local = [&](int r) {  // of a strip: relative to its own maximum
      const auto pair = std::ranges::find(plan_.row_pairs, r, &RowColumnPair::follower);
      return plan_.whole() || pair == plan_.row_pairs.end() ? nullptr : &*pair;
    };
    std::vector<int> roots;
    for (const int r : mine) {
      line(fmt::format("{} R{}[{}];", type_of(r), r, plan_.ahead));
      roots.push_back(local(r) != nullptr ? local(r)->x : reduction(r).arg);
    }
    rows([&] {
      row_nodes(roots);
      for (const int r : mine) {
        line(fmt::format("{} a{}[{}] = {{{}}};", type_of(r), r, base_.width,
                         list(neutral(reduction(r).kind, reduction(r).accumulate), base_.width)));
      }
      vectors([&] {
        line(fmt::format("const int u = g * {} + k;", plan_.trips));
        std::string body;
        for (const int r : mine) {
          const std::string x = local(r) != nullptr
                                    ? exponential(fmt::format("{} - R{}[g]", name(local(r)->x), local(r)->leader))
                                    : name(reduction(r).arg);
          body += fmt::format("a{}[j] = {};\n", r,
                              combine(reduction(r).kind, reduction(r).accumulate, fmt::format("a{}[j]", r), x));
        }
        compute(element_nodes(roots), body);
      });
      for (const int r : mine)
        line(fmt::format(
            "R{}[g] = {};", r,
            combined_lanes(reduction(r).kind, reduction(r).accumulate, fmt::format("a{}", r), base_.width)));
    });
    const auto across_lanes = [&](int count) {
      for (int m = count / 2; m >= 1; m /= 2) {
        for (const int r : mine)
          line(fmt::format("R{}[g] = {};", r,
                           combine(reduction(r).kind, reduction(r).accumulate, fmt::format("R{}[g]", r),
                                   fmt::format("pl_xor(R{}[g], {})", r, m))));
      }
    };
    const auto each_row = [&](const std::function<void()>& body) {
      line("#pragma unroll");
      open(fmt::format("for (int g = 0; g < {}; ++g) {{", plan_.ahead));
      body();
      close();
    };
    each_row([&] {
      across_lanes(std::min(32, base_.across));
      // Sums are relative to a finite maximum, so that nothing is inf - inf.
      for (const int r : mine) {
        if (!plan_.whole() && std::ranges::find(plan_.row_pairs, r, &RowColumnPair::leader) != plan_.row_pairs.end())
          line(fmt::format("R{0}[g] = pl_max(R{0}[g], {1});", r, fold_bottom));
      }
    });
    if (base_.across <= 32) return;
    const int warps = base_.threads / 32, own = base_.across / 32;
    for (const int r : mine) line(fmt::format("__shared__ {} sh{}[{}];", type_of(r), r, 2 * plan_.ahead * warps));
    open("if (tid % 32 == 0) {");
    each_row([&] {
      for (const int r : mine)
        line(fmt::format("sh{0}[(turn * {1} + g) * {2} + tid / 32] = R{0}[g];", r, plan_.ahead, warps));
    });
    close();
    line("__syncthreads();");
    each_row([&] {
      for (const int r : mine)
        line(fmt::format("R{0}[g] = sh{0}[(turn * {1} + g) * {2} + tid / {3} * {4} + tid % {4}];", r, plan_.ahead,
                         warps, base_.across, own));
      across_lanes(own);
    });
  }

  void row_outputs() {
    std::vector<int> outputs, roots;
    for (std::size_t o = 0; o < k_.outputs.size(); ++o) {
      if (!k_.outputs[o].per_row) continue;
      outputs.push_back(static_cast<int>(o));
      roots.push_back(k_.outputs[o].node);
    }
    if (outputs.empty()) return;
    open("if (first == 0) {");
    rows([&] {
      open("if (live) {");
      row_nodes(roots);
      for (const int o : outputs) {
        const Output& output = k_.outputs[static_cast<std::size_t>(o)];
        line(fmt::format(
            "out{}[{}] = {};", o, index(k_, output.index),
            store_form(name(output.node), k_.nodes[static_cast<std::size_t>(output.node)].dtype, output.dtype)));
      }
      close();
    });
    close();
  }

  void leave_rows() {
    rows([&] {
      open(fmt::format("if (live && first == g % {}) {{", base_.across));
      int part = static_cast<int>(plan_.column_fields.size());
      for (const auto& field : plan_.row_fields) {
        line(fmt::format("part{}[strip * {}LL + common * {}LL + at] = R{}[g];", part++, plan_.commons * plan_.rows_each,
                         plan_.rows_each, field.reduction));
      }
      close();
    });
  }

  /// What is stored for each element, and reductions across the rows but for pairs.
  void elements() {
    std::vector<int> roots, outputs, mine;
    for (std::size_t o = 0; o < k_.outputs.size(); ++o) {
      if (k_.outputs[o].per_row || k_.outputs[o].per_column) continue;
      outputs.push_back(static_cast<int>(o));
      roots.push_back(k_.outputs[o].node);
    }
    for (const auto& field : plan_.column_fields) {
      if (!field.suffix.empty()) continue;
      mine.push_back(field.reduction);
      roots.push_back(reduction(field.reduction).arg);
    }
    if (roots.empty()) return;
    rows([&] {
      open("if (live) {");
      row_nodes(roots);
      vectors([&] {
        line(fmt::format("const int u = g * {} + k;", plan_.trips));
        std::string body;
        for (const int r : mine) {
          const std::string own = fmt::format("c{}[k][j]", r);
          body += fmt::format("{} = {};\n", own,
                              combine(reduction(r).kind, reduction(r).accumulate, own, name(reduction(r).arg)));
        }
        for (const int o : outputs) {
          line(fmt::format("PlVec<{}, {}> o{};", storage_type(k_.outputs[static_cast<std::size_t>(o)].dtype),
                           base_.width, o));
          body += set_lane(o);
        }
        compute(element_nodes(roots), body);
        for (const int o : outputs) store_vector(o, "");
      });
      close();
    });
  }

  /// Pairs across the rows: the maximum moves once for all rows under way.
  void fold_columns() {
    std::vector<int> roots;
    for (const auto& pair : plan_.column_pairs) roots.push_back(pair.x);
    if (roots.empty()) return;
    const auto each_lane = [&](const std::function<void(const RowColumnPair&)>& body) {
      line("#pragma unroll");
      open(fmt::format("for (int j = 0; j < {}; ++j) {{", base_.width));
      for (const auto& pair : plan_.column_pairs) body(pair);
      close();
    };
    const auto each_row = [&](const std::function<std::string(const RowColumnPair&)>& take) {
      rows([&] {
        open("if (live) {");
        row_nodes(roots);
        line(fmt::format("const int u = g * {} + k;", plan_.trips));
        std::string body;
        for (const auto& pair : plan_.column_pairs) body += take(pair);
        compute(element_nodes(roots), body);
        close();
      });
    };
    vectors([&] {
      for (const auto& pair : plan_.column_pairs) line(fmt::format("float top{}[{}];", pair.leader, base_.width));
      each_lane([&](const RowColumnPair& p) { line(fmt::format("top{0}[j] = c{0}m[k][j];", p.leader)); });
      each_row([&](const RowColumnPair& p) {
        return fmt::format("top{0}[j] = pl_max(top{0}[j], {1});\n", p.leader, name(p.x));
      });
      each_lane([&](const RowColumnPair& p) {
        line(fmt::format("c{0}s[k][j] *= {1};", p.follower,
                         exponential(fmt::format("c{0}m[k][j] - top{0}[j]", p.leader))));
        line(fmt::format("c{0}m[k][j] = top{0}[j];", p.leader));
      });
      each_row([&](const RowColumnPair& p) {
        return fmt::format("c{}s[k][j] += {};\n", p.follower,
                           exponential(fmt::format("{} - top{}[j]", name(p.x), p.leader)));
      });
    });
  }

  std::string merge_columns(const std::function<std::string(const RowColumnField&)>& a,
                            const std::function<std::string(const RowColumnField&)>& b) const {
    std::string text;
    for (const auto& field : plan_.column_fields) {
      if (field.suffix.empty())
        text += fmt::format(
            "{} = {};\n", a(field),
            combine(reduction(field.reduction).kind, reduction(field.reduction).accumulate, a(field), b(field)));
    }
    for (const auto& pair : plan_.column_pairs) {
      const RowColumnField top{pair.leader, "m", DType::f32, {}}, sum{pair.follower, "s", DType::f32, {}};
      text += fmt::format("{{ const float top = pl_max({0}, {1}); {2} = {2} * {4} + {3} * {5}; {0} = top; }}\n", a(top),
                          b(top), a(sum), b(sum), exponential(a(top) + " - top"), exponential(b(top) + " - top"));
    }
    return text;
  }

  void each_lane_of_vector(const std::function<void()>& body) {
    line("#pragma unroll");
    open(fmt::format("for (int j = 0; j < {}; ++j) {{", base_.width));
    body();
    close();
  }
  void lines(const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      line(text.substr(at, end - at));
      at = end + 1;
    }
  }

  /// Rows side by side meet in shared memory; the first of them leaves what the block knows.
  void leave_columns() {
    const auto own = [](const RowColumnField& f) { return fmt::format("c{}{}[k][j]", f.reduction, f.suffix); };
    if (base_.rows > 1) {
      for (const auto& field : plan_.column_fields)
        line(fmt::format("__shared__ {} hc{}{}[{}];", computing_type(field.dtype), field.reduction, field.suffix,
                         base_.threads * base_.width));
    }
    line("#pragma unroll");
    open(fmt::format("for (int k = 0; k < {}; ++k) {{", plan_.trips));
    if (base_.rows > 1) {
      const auto slot = [&](const std::string& side) {
        return fmt::format("[({} * {} + j) * {} + first]", side, base_.width, base_.across);
      };
      const auto put = [&] {
        each_lane_of_vector([&] {
          for (const auto& field : plan_.column_fields)
            line(fmt::format("hc{}{}{} = {};", field.reduction, field.suffix, slot("side"), own(field)));
        });
      };
      put();
      line("__syncthreads();");
      line("#pragma unroll 1");
      open(fmt::format("for (int h = {}; h > 0; h /= 2) {{", base_.rows / 2));
      open("if (side < h) {");
      each_lane_of_vector([&] {
        lines(merge_columns(own, [&](const RowColumnField& f) {
          return fmt::format("hc{}{}{}", f.reduction, f.suffix, slot("(side + h)"));
        }));
      });
      put();
      close();
      line("__syncthreads();");
      close();
    }
    line(fmt::format("const int t = from + first + k * {};", base_.across));
    open(fmt::format("if (side == 0 && t < {}) {{", base_.vectors));
    int part = 0;
    for (const auto& field : plan_.column_fields) {
      const auto type = storage_type(field.dtype);
      line(fmt::format("PlVec<{}, {}> o{};", type, base_.width, part));
      each_lane_of_vector([&] { line(fmt::format("o{}.x[j] = {};", part, own(field))); });
      const int unit = std::min(base_.width, 16 / std::max(1, size_of(field.dtype)));
      line(fmt::format("pl_store<0, {}>(part{} + chunk * {}LL + common * {}LL + t * {}LL, o{});", unit, part,
                       plan_.commons * base_.length, base_.length, base_.width, part));
      ++part;
    }
    close();
    close();
  }

  const Kernel& k_;
  const RowColumnPlan& plan_;
  const CudaPlan& base_;
  std::vector<int> common_, across_, inner_;
  int phases_ = 0;
  bool holding_ = false;
};

}  // namespace

Result<Emitted> emit_row_and_column(const Kernel& kernel, const Device& device, const Genome& genome) {
  const RowColumnPlan plan = make_row_column_plan(kernel, device, genome);
  RowColumnWriter writer(kernel, plan);
  writer.out = std::string(prelude(true)) + std::string(cuda_memory_prelude());
  writer.write();
  Emitted emitted;
  emitted.language = "cuda";
  emitted.source = std::move(writer.out);
  emitted.entry = "planish_kernel";
  emitted.grid[0] = plan.base.grid;
  emitted.block[0] = plan.base.threads;
  emitted.args = std::move(writer.args);
  using Kind = Emitted::Argument::Kind;
  const auto bytes = [&](const RowColumnField& field, std::int64_t cells) { return cells * size_of(field.dtype); };
  for (const auto& field : plan.column_fields)
    emitted.scratch_bytes.push_back(bytes(field, plan.chunks * plan.commons * plan.base.length));
  for (const auto& field : plan.row_fields)
    emitted.scratch_bytes.push_back(bytes(field, plan.strips * plan.commons * plan.rows_each));
  for (const bool across : {true, false}) {
    if (!across && plan.whole()) continue;
    std::vector<int> inputs, outputs;
    const Kernel gathering = gathering_kernel(kernel, plan, across, inputs, outputs);
    std::vector<Emitted::Argument> buffers;
    const std::size_t first = across ? 0 : plan.column_fields.size();
    const std::size_t count = (across ? plan.column_fields : plan.row_fields).size();
    for (std::size_t f = 0; f < count; ++f) buffers.push_back({Kind::scratch, static_cast<int>(first + f)});
    for (const int i : inputs) buffers.push_back({Kind::input, i});
    if (!outputs.empty())
      PLANISH_CHECK(append_launches(gathering, device, buffers, output_arguments(outputs), emitted));
  }
  return emitted;
}

}  // namespace planish::codegen::printing
