#include "codegen/order/cpp_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codegen/device/device_files.h"
#include "codegen/emit/cpp_plan.h"
#include "codegen/emit/expression.h"
#include "codegen/emit/vector_math.h"

namespace planish::codegen {
namespace {

using cpp::Form;
using cpp::Spot;

/// With a last variable of one setting, along which nothing lies: every node is a scalar.
Kernel without_vectors(Kernel kernel) {
  kernel.space.extents.push_back(1);
  ++kernel.inner;
  return kernel;
}

/// The policy of the device file: what an element is, and what is stored of one of a rank.
class CppOrderText {
 public:
  CppOrderText(const Kernel& kernel, const RowOrder& order)
      : kernel_(kernel),
        order_(order),
        view_(kernel_, static_cast<int>(kernel.space.extents.size()) - 1),
        printer_(view_),
        spot_(cpp::plain_spot(view_)) {
    spot_.names.back() = "0";
    for (int v = view_.variables() - kernel.inner; v + 1 < view_.variables(); ++v) inner_.push_back(v);
  }

  std::string text() {
    std::string out = "struct Policy {\n";
    out += fmt::format("static constexpr i64 length = {}, first = {}, count = {}, rows = {};\n", order_.length,
                       order_.first, order_.count, order_.rows);
    out += fmt::format("static constexpr bool few = {};\n", order_.few());
    out += fmt::format("typedef {} Item;\n", order_.has_wide_keys() ? "WideItem" : "u64");
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
      out += fmt::format("const {}* in{};\n", cpp::storage_name(kernel_.inputs[i].dtype), i);
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
      out += fmt::format("{}* out{};\n", cpp::storage_name(kernel_.outputs[o].dtype), o);
    out += "i64 row;\n";
    for (std::size_t n = 0; n < kernel_.nodes.size(); ++n) {
      if (is_fold(static_cast<int>(n))) out += fmt::format("{} n{};\n", cpp::type_name(view_.form[n], false), n);
    }
    return out + begin() + item() + store() + "};\n";
  }

  const std::set<std::string, std::less<>>& used() const { return printer_.used(); }

 private:
  static constexpr std::string_view inlined = "inline __attribute__((always_inline))";

  const Node& node(int id) const { return kernel_.nodes[static_cast<std::size_t>(id)]; }
  const Reduction& reduction(int r) const { return kernel_.reductions[static_cast<std::size_t>(r)]; }
  Form form(int id) const { return view_.form[static_cast<std::size_t>(id)]; }
  bool is_fold(int id) const { return node(id).op == Op::reduced && !ranks(reduction(node(id).reduction).kind); }

  std::string row_and_place() const {
    return cpp::decompose(view_, order_.variables, "row") + cpp::decompose(view_, inner_, "place");
  }
  void print(std::string& out, const std::vector<int>& roots) {
    for (const int id : printing::closure(kernel_, roots, [](int) { return false; })) out += printer_.define(id, spot_);
  }

  /// Of what is compared: booleans are 0 or 1.
  std::string key(int id) {
    const bool flag = form(id) == Form::b;
    const Form as = flag ? Form::i : order_.dtype == DType::i64 ? Form::l : form(id);
    return fmt::format("order_key({}, {})", printer_.value(id, as, false, spot_), order_.unused_bits());
  }

  std::string item() {
    std::string out = fmt::format("{} Item item(i64 place) const {{\n", inlined) + row_and_place();
    print(out, {order_.arg});
    return out +
           fmt::format("return order_item({}{}, (u32)place);\n}}\n", order_.descending ? "~" : "", key(order_.arg));
  }

  std::string store() {
    std::string out = fmt::format("{} void store(i64 rank, i64 place) const {{\n", inlined) + row_and_place();
    if (order_.rank >= 0) out += cpp::decompose(view_, {order_.rank}, "rank");
    std::vector<int> roots, elements;
    for (const Output& output : kernel_.outputs) roots.push_back(output.node);
    const auto stored = printing::closure(kernel_, roots, [](int) { return false; });
    const auto of_rank = [&](int id) { return node(id).op == Op::reduced && !is_fold(id); };
    for (const int id : stored) {
      const auto from = [&] { return reduction(node(id).reduction).at; };
      if (of_rank(id)) elements.push_back(from() < 0 ? reduction(node(id).reduction).arg : from());
    }
    print(out, elements);
    std::size_t next = 0;
    for (const int id : stored) {
      if (!of_rank(id)) continue;
      out += fmt::format("const {} n{} = {};\n", cpp::type_name(form(id), false), id,
                         printer_.value(elements[next++], form(id), false, spot_));
    }
    const auto known = printing::closure(kernel_, elements, [](int) { return false; });
    for (const int id : stored) {
      if (!std::ranges::binary_search(known, id)) out += printer_.define(id, spot_);
    }
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) out += printer_.store(static_cast<int>(o), spot_, false);
    return out + "}\n";
  }

  /// Folds of the row, each after those that it needs. Sums of floats are kept in double.
  std::string begin() {
    std::string out = fmt::format("{} void begin(i64 number) {{\nrow = number;\n", inlined);
    for (const int f : order_.folds) {
      const Reduction& r = reduction(f);
      const FoldInfo& fold = info(r.kind);
      const auto at =
          std::ranges::find_if(kernel_.nodes, [&](const Node& n) { return n.op == Op::reduced && n.reduction == f; });
      const int id = static_cast<int>(at - kernel_.nodes.begin());
      const Form result = form(id), kept = fold.adds && result == Form::f ? Form::d : result;
      const bool whole = kept == Form::i || kept == Form::l || kept == Form::b;
      out += fmt::format("n{} = ({})order_fold<length, {}>({}, [&](i64 place) __attribute__((always_inline)) {{\n", id,
                         cpp::type_name(result, false), cpp::type_name(kept, false), identity(fold, kept));
      out += row_and_place();
      print(out, {r.arg});
      out += fmt::format(
          "return {1};\n}}, [](const {0} a, const {0} b) __attribute__((always_inline)) {{ return ({0})({2}); }});\n",
          cpp::type_name(kept, false), printer_.value(r.arg, result, false, spot_),
          fmt::format(fmt::runtime(whole ? fold.cpp.whole : fold.cpp.real), "a", "b"));
    }
    return out + "}\n";
  }
  std::string identity(const FoldInfo& fold, Form kept) const {
    if (kept == Form::b) return fold.identity == Identity::one ? "-1" : "0";
    return cpp::identity_text(fold.identity, kept);
  }

  const Kernel& kernel_;
  const RowOrder& order_;
  const cpp::View view_;
  cpp::Printer printer_;
  Spot spot_;
  std::vector<int> inner_;
};

std::vector<std::int64_t> order_teams(const RowOrder& order, const Device& device) {
  std::vector<std::int64_t> out;
  const std::int64_t most = std::clamp<std::int64_t>(std::min<std::int64_t>(device.sms, order.rows), 1, 256);
  for (std::int64_t n = 1; n < most; n *= 2) out.push_back(n);
  out.push_back(most);
  return out;
}

}  // namespace

std::vector<Gene> cpp_order_genes(const RowOrder& order, const Device& device) {
  const auto widths = cpp::widths(device);
  return {{"bits", std::vector<std::int64_t>(widths.rbegin(), widths.rend())}, {"threads", order_teams(order, device)}};
}

std::vector<Genome> cpp_order_seeds(const RowOrder& order, const Device& device) {
  std::vector<Genome> out;
  const auto teams = order_teams(order, device);
  // A thread that is woken for less than this does nothing by then.
  constexpr double worth_a_thread = 8192;
  const double work = static_cast<double>(order.rows) * static_cast<double>(order.length);
  std::int64_t threads = 1;
  for (const std::int64_t t : teams) {
    if (static_cast<double>(t) * worth_a_thread <= work) threads = t;
  }
  for (const std::int64_t t : {threads, teams.back(), std::int64_t{1}}) {
    for (const std::int64_t bits : cpp::widths(device)) {
      Genome genome{{"bits", bits}, {"threads", t}};
      if (std::ranges::find(out, genome) == out.end()) out.push_back(std::move(genome));
    }
  }
  return out;
}

Result<Emitted> emit_cpp_order(const Kernel& given, const RowOrder& order, const Device& device, const Genome& genome) {
  const Kernel kernel = without_vectors(given);
  CppOrderText policy(kernel, order);
  const std::string policy_text = policy.text();
  const std::int64_t bits = gene(genome, "bits", cpp::widths(device).back()), threads = gene(genome, "threads", 1);
  static constexpr std::array<std::string_view, 1> files{"cpu/order.h"};
  Emitted out;
  out.language = "cpp";
  out.entry = "k0";
  std::string& text = out.source;
  text = vector_prelude(static_cast<int>(bits), static_cast<int>(bits / 32), policy.used());
  if (threads > 1)
    text +=
        "extern \"C\" int omp_get_thread_num(void);\nextern \"C\" int omp_get_num_threads(void);\nextern \"C\" int "
        "omp_get_max_threads(void);\n";
  text += device_text(files) + policy_text;
  text += "extern \"C\" void k0(void** args) {\nPolicy policy;\n";
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    text += fmt::format("policy.in{0} = (const {1}*)args[{0}];\n", i, cpp::storage_name(kernel.inputs[i].dtype));
    out.args.push_back({Emitted::Argument::Kind::input, static_cast<int>(i)});
  }
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
    text +=
        fmt::format("policy.out{} = ({}*)args[{}];\n", o, cpp::storage_name(kernel.outputs[o].dtype), out.args.size());
    out.args.push_back({Emitted::Argument::Kind::output, static_cast<int>(o)});
  }
  text += fmt::format("Policy::Item* const room = (Policy::Item*)args[{}];\n", out.args.size());
  out.args.push_back({Emitted::Argument::Kind::scratch, 0});
  if (threads > 1) {
    // Not more than whoever calls allows at the time (torch.set_num_threads, OMP_NUM_THREADS).
    text += fmt::format(
        "const int allowed = omp_get_max_threads();\n#pragma omp parallel num_threads(allowed < {0} ? allowed : {0})\n"
        "order_rows(policy, room, omp_get_thread_num(), omp_get_num_threads());\n}}\n",
        threads);
  } else {
    text += "order_rows(policy, room, 0, 1);\n}\n";
  }
  // OrderRow::room items of each thread.
  const std::int64_t room = order.few() ? order.ranks() : 2 * order.length;
  out.scratch_bytes = {room * (order.has_wide_keys() ? 16 : 8) * threads};
  return out;
}

}  // namespace planish::codegen
