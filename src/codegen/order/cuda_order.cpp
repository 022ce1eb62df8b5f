#include "codegen/order/cuda_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "codegen/device/device_files.h"
#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/cuda_limits.h"
#include "codegen/emit/cuda_math.h"
#include "codegen/emit/point_text.h"

namespace planish::codegen {
namespace {

using printing::PointText;

/// What a key is made of, as C++ names it.
std::string_view compared_type(DType dtype) {
  if (is_floating(dtype)) return dtype == DType::f64 ? "double" : "float";
  return dtype == DType::i64 ? "long long" : "int";
}

/// The policy of the device file: what an element is, and what is stored of one of a rank.
class CudaOrderText {
 public:
  CudaOrderText(const Kernel& kernel, const RowOrder& order, const CudaOrderPlan& plan)
      : kernel_(kernel), order_(order), plan_(plan), wide_(!printing::fits_int32(kernel)) {
    for (std::size_t v = kernel.space.extents.size() - static_cast<std::size_t>(kernel.inner);
         v < kernel.space.extents.size(); ++v)
      inner_.push_back(static_cast<int>(v));
  }

  std::string text() {
    std::string out = "struct Policy {\n";
    out += fmt::format("  static constexpr int length = {}, first = {}, count = {};\n", order_.length, order_.first,
                       order_.count);
    out += fmt::format("  static constexpr int rows = {}, team = {}, each = {}, threads = {}, slices = {};\n",
                       order_.rows, plan_.team, plan_.each, plan_.threads, std::max(plan_.slices, 1));
    out += fmt::format("  typedef {} Item;\n", plan_.item_bytes == 8 ? "u64" : "WideItem");
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
      out += fmt::format("  const {}* __restrict__ in{};\n", printing::storage_type(kernel_.inputs[i].dtype), i);
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
      out += fmt::format("  {}* __restrict__ out{};\n", printing::storage_type(kernel_.outputs[o].dtype), o);
    for (const int f : order_.folds)
      out += fmt::format("  {} r{};\n", printing::computing_type(reduction(f).accumulate), f);
    return out + fold() + item() + store() + "};\n";
  }

  /// "Policy p{in0, out0};", with the parameters of the kernel that declares it.
  std::string object() const {
    std::string names;
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) names += fmt::format("in{}, ", i);
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) names += fmt::format("out{}, ", o);
    return fmt::format("  Policy p{{{}}};\n", names.substr(0, names.size() - 2));
  }
  std::string parameters() const {
    std::string out;
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
      out += fmt::format("const {}* __restrict__ in{}, ", printing::storage_type(kernel_.inputs[i].dtype), i);
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
      out += fmt::format("{}* __restrict__ out{}, ", printing::storage_type(kernel_.outputs[o].dtype), o);
    return out.substr(0, out.size() - 2);
  }

 private:
  const Reduction& reduction(int r) const { return kernel_.reductions[static_cast<std::size_t>(r)]; }
  const Node& node(int id) const { return kernel_.nodes[static_cast<std::size_t>(id)]; }

  /// A writer that knows what folds of rows are called.
  PointText writer() const {
    PointText out(kernel_, "pl_ldg", wide_);
    for (std::size_t id = 0; id < kernel_.nodes.size(); ++id) {
      const Node& each = kernel_.nodes[id];
      if (each.op == Op::reduced && !ranks(reduction(each.reduction).kind))
        out.call_result(static_cast<int>(id), fmt::format("r{}", each.reduction));
    }
    return out;
  }
  std::string row_and_place(const PointText& writer) const {
    return writer.coordinates("row", order_.variables) + writer.coordinates("place", inner_);
  }
  void print(std::string& out, PointText& writer, std::vector<int> roots) const {
    printing::print_nodes(out, kernel_, printing::closure(kernel_, roots, [](int) { return false; }), writer, "  ");
  }

  std::string item() const {
    PointText text = writer();
    std::string out = "  PL_DEVICE Item item(int row, int place) const {\n" + row_and_place(text);
    print(out, text, {order_.arg});
    return out + fmt::format("  return order_item({}order_key(({}){}, {}), (u32)place);\n  }}\n",
                             order_.descending ? "~" : "", compared_type(order_.dtype), text.name(order_.arg),
                             order_.unused_bits());
  }

  std::string store() const {
    PointText text = writer();
    std::string out = "  PL_DEVICE void store(int row, int rank, int place) const {\n" + row_and_place(text);
    if (order_.rank >= 0) out += text.coordinates("rank", std::array{order_.rank});
    std::vector<int> roots;
    for (const Output& output : kernel_.outputs) roots.push_back(output.node);
    // What stands at the rank comes first: an element, or its place.
    const std::vector<int> stored = printing::closure(kernel_, roots, [](int) { return false; });
    std::vector<int> elements;
    for (const int id : stored) {
      if (node(id).op != Op::reduced || !ranks(reduction(node(id).reduction).kind)) continue;
      const Reduction& r = reduction(node(id).reduction);
      const int from = r.at < 0 ? r.arg : r.at;
      elements.push_back(from);
      text.call_result(id, text.name(from));
    }
    roots.insert(roots.end(), elements.begin(), elements.end());
    print(out, text, roots);
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) out += text.store(o);
    return out + "  }\n";
  }

  std::string fold() const {
    PointText text = writer();
    std::string out = "  template <class Team>\n  PL_DEVICE void fold(int row, const Team& team) {\n";
    for (const int f : order_.folds) {
      const Reduction& r = reduction(f);
      const std::string type(printing::computing_type(r.accumulate)), none = printing::neutral(r.kind, r.accumulate);
      out += fmt::format("  {} own{} = {};\n", type, f, none);
      out += "  for (int place = team.thread; place < length; place += Team::count) {\n" + row_and_place(text);
      print(out, text, {r.arg});
      const std::string x = printing::convert(text.name(r.arg), node(r.arg).dtype, r.accumulate);
      out += fmt::format("  own{0} = {1};\n  }}\n", f,
                         printing::combine(r.kind, r.accumulate, fmt::format("own{}", f), x));
      out += fmt::format("  r{0} = team.fold(own{0}, ({1}){2}, [](const {1} a, const {1} b) {{ return {3}; }});\n", f,
                         type, none, printing::combine(r.kind, r.accumulate, "a", "b"));
    }
    return out + "  }\n";
  }

  const Kernel& kernel_;
  const RowOrder& order_;
  const CudaOrderPlan& plan_;
  const bool wide_;
  std::vector<int> inner_;
};

std::int64_t items_of(const RowOrder& order) {
  return printing::power_of_two_above(order.length);
}

}  // namespace

CudaOrderPlan cuda_order_plan(const RowOrder& order, const Genome& genome) {
  CudaOrderPlan plan;
  plan.threads = static_cast<int>(gene(genome, "threads", 128));
  plan.each = static_cast<int>(gene(genome, "unroll", 4));
  plan.slices = static_cast<int>(gene(genome, "grid_split", 0));
  plan.item_bytes = order.has_wide_keys() ? 16 : 8;
  // Items, those of the other side, and what an element is made of.
  plan.registers = 32 + plan.each * plan.item_bytes / 4 + plan.each;
  if (plan.slices == 0) {
    plan.team = static_cast<int>(std::max<std::int64_t>(1, items_of(order) / plan.each));
    const int beside = std::max(1, plan.threads / plan.team);
    plan.blocks = (order.rows + beside - 1) / beside;
    plan.shared = plan.team > 32 ? std::int64_t{plan.team} * plan.each * plan.item_bytes : 0;
  } else {
    plan.team = plan.threads;
    plan.blocks = order.rows * plan.slices;
    plan.shared = std::int64_t{plan.threads} * plan.each * plan.item_bytes + 16;
  }
  return plan;
}

std::vector<Gene> cuda_order_genes(const RowOrder& order) {
  std::vector<std::int64_t> slices;
  if (order.length <= longest_order_of_block) slices.push_back(0);
  if (order.ranks() <= most_ranks && order.folds.empty()) {
    for (std::int64_t n = 1; n <= 128 && (n == 1 || order.length / n >= 512); n *= 2) slices.push_back(n);
  }
  return {{"threads", {128, 32, 64, 256, 512, 1024}}, {"unroll", {4, 1, 2, 8, 16}}, {"grid_split", slices}};
}

std::string cuda_order_illegal(const RowOrder& order, const Device& device, const Genome& genome) {
  const CudaOrderPlan plan = cuda_order_plan(order, genome);
  if (plan.blocks > std::numeric_limits<std::int32_t>::max()) return "more blocks than a launch has";
  if (plan.slices == 0) {
    if (plan.each > items_of(order)) return "a thread holds more than a row";
    if (plan.team > plan.threads) return "a row has more threads than a block";
    if (plan.team > 32 && plan.team != plan.threads) return "a block has more threads than the row that it holds";
  } else {
    if (plan.each < 2 || order.ranks() > std::int64_t{plan.threads} * plan.each / 2)
      return "what is looked for leaves no room for a step";
    if (plan.slices > 1 && order.length / plan.slices < order.ranks()) return "slices are shorter than what they find";
  }
  return printing::does_not_hold(device, 1, plan.threads, plan.shared, plan.registers);
}

std::vector<Genome> cuda_order_seeds(const RowOrder& order, const Device& device) {
  std::vector<Genome> out;
  const auto try_one = [&](std::int64_t threads, std::int64_t each, std::int64_t slices) {
    Genome genome{{"threads", threads}, {"unroll", each}, {"grid_split", slices}};
    const auto genes = cuda_order_genes(order);
    for (const Gene& gene : genes) {
      if (std::ranges::find(gene.choices, genome.at(gene.name)) == gene.choices.end()) return;
    }
    if (cuda_order_illegal(order, device, genome).empty() && std::ranges::find(out, genome) == out.end())
      out.push_back(std::move(genome));
  };
  const bool few = order.ranks() <= most_ranks && order.folds.empty();
  // Rows that fill the device by themselves have a block each; of fewer, blocks share one as long as each reads enough.
  std::int64_t slices = 1;
  while (order.rows * slices < 2 * std::int64_t{device.sms} && order.length / (2 * slices) >= 4096) slices *= 2;
  if (few && order.length > 1024) {
    for (const std::int64_t each : {8, 4, 16}) try_one(256, each, slices);
    try_one(512, 4, slices);
    for (const std::int64_t more : {2 * slices, 4 * slices, slices / 2}) try_one(256, 8, more);
  }
  for (const std::int64_t each : {4, 8, 2, 16, 1}) {
    const std::int64_t team = std::max<std::int64_t>(1, items_of(order) / each);
    for (const std::int64_t threads : {std::max<std::int64_t>(team, 128), team, std::int64_t{256}})
      try_one(threads, each, 0);
  }
  if (few && order.length <= 1024) try_one(128, 8, 1);
  return out;
}

Result<Emitted> emit_cuda_order(const Kernel& kernel, const RowOrder& order, const Device& device,
                                const Genome& genome) {
  if (const auto why = cuda_order_illegal(order, device, genome); !why.empty()) return fail("illegal_genome", why);
  const CudaOrderPlan plan = cuda_order_plan(order, genome);
  CudaOrderText policy(kernel, order, plan);
  const std::array<std::string_view, 1> files{"order.cuh"};
  const std::string shared_text = std::string(printing::prelude(true)) + std::string(printing::cuda_memory_prelude()) +
                                  device_text(files) + policy.text();
  using Kind = Emitted::Argument::Kind;
  const auto launch = [&](std::string_view parameters, std::string_view body) {
    Emitted out;
    out.language = "cuda";
    out.entry = "planish_kernel";
    out.source = shared_text;
    out.source += fmt::format("extern \"C\" __global__ void __launch_bounds__({}) planish_kernel({}{}) {{\n",
                              plan.threads, policy.parameters(), parameters);
    out.source += "  extern __shared__ __align__(16) unsigned char pl_smem[];\n" + policy.object();
    out.source += fmt::format("  {}\n}}\n", body);
    out.grid[0] = plan.blocks;
    out.block[0] = plan.threads;
    out.shared = plan.shared;
    for (std::size_t i = 0; i < kernel.inputs.size(); ++i) out.args.push_back({Kind::input, static_cast<int>(i)});
    for (std::size_t o = 0; o < kernel.outputs.size(); ++o) out.args.push_back({Kind::output, static_cast<int>(o)});
    return out;
  };
  if (plan.slices == 0) return launch("", "order_rows(p, (Policy::Item*)pl_smem);");
  if (plan.slices == 1) return launch("", "order_slices(p, *(Candidates<Policy>*)pl_smem, (Policy::Item*)0);");
  const std::string_view scratch = ", Policy::Item* __restrict__ candidates";
  Emitted first = launch(scratch, "order_slices(p, *(Candidates<Policy>*)pl_smem, candidates);");
  Emitted second = launch(scratch, "order_candidates(p, *(Candidates<Policy>*)pl_smem, candidates);");
  second.grid[0] = order.rows;
  for (Emitted* each : {&first, &second}) each->args.push_back({Kind::scratch, 0});
  first.scratch_bytes = {order.rows * plan.slices * order.ranks() * plan.item_bytes};
  first.after.push_back(std::move(second));
  return first;
}

}  // namespace planish::codegen
