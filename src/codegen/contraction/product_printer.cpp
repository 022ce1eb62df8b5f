// What the device files of products have in common: results, where they go, and the kernel's head.
#include "codegen/contraction/product_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/emit/cuda_emit.h"

namespace planish::codegen::contraction {

namespace {

std::vector<int> with_first(int first, const std::vector<int>& others) {
  std::vector<int> all{first};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace

ProductPrinter::ProductPrinter(const Product& product, bool fast, const DeviceGroups* groups, std::vector<int> folded)
    : product_(product),
      groups_(groups),
      kernel_(product.kernel),
      c_(product.c),
      output_(kernel_.outputs.front()),
      folded_(std::move(folded)),
      writer_(kernel_),
      bf16_(narrow_type(kernel_, c_) == DType::bf16),
      roots_(with_first(output_.node, folded_)) {
  writer_.fast = fast;
  writer_.narrow = size_of(output_.dtype) == 2 && folded_.empty();
}

DevicePrinted ProductPrinter::print() {
  DevicePrinted out;
  std::vector<int> roots = roots_;
  for (const Operand operand : {Operand::a, Operand::b}) {
    if (product_.bits && product_.bits->scale(operand)) roots.push_back(product_.bits->scale(operand)->node);
  }
  out.inputs = writer_.inputs(roots);
  for (const Operand operand : {Operand::a, Operand::b}) {
    const auto& direct = product_.direct(operand);
    if (direct && std::ranges::find(out.inputs, direct->input) == out.inputs.end()) out.inputs.push_back(direct->input);
  }
  if (groups_ != nullptr && std::ranges::find(out.inputs, groups_->input) == out.inputs.end())
    out.inputs.push_back(groups_->input);
  std::ranges::sort(out.inputs);
  inputs_ = out.inputs;
  line("template <typename T> PL_DEVICE T pl_ldg(const T* p) { return __ldg(p); }");
  instructions();
  policy();
  functors();
  entry();
  out.text = std::move(writer_.out);
  return out;
}

std::string ProductPrinter::storage(int input) const {
  return std::string(printing::storage_type(kernel_.inputs[static_cast<std::size_t>(input)].dtype));
}

/// Whether results from a multiple of 16 bytes on are 16 aligned bytes.
bool ProductPrinter::words() const {
  const int unit = 16 / size_of(output_.dtype);
  return c_.columns % unit == 0 && in_units(output_.index, unit);
}

bool ProductPrinter::in_units(const ir::IndexExpr& index, int unit) const {
  return index.constant_term() % unit == 0 && std::ranges::all_of(index.terms(), [&](const auto& term) {
           return term.atom.variable == column() || term.coefficient % unit == 0;
         });
}

void ProductPrinter::functors() {
  open("struct Functors {");
  for (const int i : inputs_) line(fmt::format("const {}* __restrict__ in{};", storage(i), i));
  line(fmt::format("{}* __restrict__ out0;", printing::storage_type(output_.dtype)));
  if (const auto [type, name] = more(); !name.empty()) line(fmt::format("{} {};", type, name));
  if (groups_ != nullptr)
    line(fmt::format("PL_DEVICE int group_end(int i) const {{ return (int)min(max(in{}[{}], 0), {}); }}",
                     groups_->input, end_place(), c_.rows));
  factors();
  result();
  open("PL_DEVICE char* place(int unit, int row, int column) const {");
  coordinates("column", true);
  line(fmt::format("return (char*)(out0 + ({}));", writer_.place_of(output_.index)));
  close();
  piece();
  writer_.close_declaration();
}

/// Where the end of group i lies.
std::string ProductPrinter::end_place() const {
  std::string at = groups_->step == 1 ? "i" : fmt::format("{}ll * i", groups_->step);
  return groups_->first == 0 ? at : fmt::format("{} + {}", at, groups_->first);
}

void ProductPrinter::coordinates(std::string_view at, bool stored) {
  writer_.decode("unit", c_.batch);
  if (places(stored))
    line(fmt::format("const {} d{} = {};", writer_.coordinate(), column(), at));
  else
    line(fmt::format("const {} d{} = row, d{} = {};", writer_.coordinate(), row(), column(), at));
}

/// Loads that neighbouring results read as aligned neighbours.
std::vector<int> ProductPrinter::paired() const {
  std::vector<int> found;
  for (const int id : printing::closure(kernel_, roots_, [](int) { return false; })) {
    const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
    if (node.op != Op::load || gathers(node) || !node.where.empty() || !node.index.is_affine()) continue;
    const int size = size_of(kernel_.inputs[static_cast<std::size_t>(node.input)].dtype);
    if ((size == 2 || size == 4) && c_.columns % 2 == 0 && node.index.coefficient_of(column()) == 1 &&
        in_units(node.index, 2) &&
        (groups_ == nullptr || !groups_->strides.contains(id) || groups_->strides.at(id) % 2 == 0))
      found.push_back(id);
  }
  return found;
}

void ProductPrinter::result() {
  line("template <int words>");
  open(fmt::format(
      "PL_DEVICE void result(u32 (&out)[words], int unit, int row, int column, const {} (&sums)[1][2]{}) const {{",
      sum_type(), folded_.empty() ? "" : fmt::format(", float (&more)[{}][2]", folded_.size())));
  coordinates("column", false);
  const auto pairs = paired();
  for (const int id : pairs) {
    const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
    const std::string type = storage(node.input);
    const std::string word = size_of(kernel_.inputs[static_cast<std::size_t>(node.input)].dtype) == 2 ? "u32" : "u64";
    line(fmt::format("union {{ {0} all; {1} each[2]; }} l{2} = {{pl_ldg((const {0}*)(in{3} + ({4})))}};", word, type,
                     id, node.input, place(id)));
  }
  writer_.at_hand = [&](int id) {
    const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
    if (std::ranges::find(pairs, id) == pairs.end()) {
      if (groups_ == nullptr || !groups_->strides.contains(id)) return unpaired(id);
      return printing::load_form(fmt::format("pl_ldg(in{} + ({}))", node.input, place(id)),
                                 kernel_.inputs[static_cast<std::size_t>(node.input)].dtype);
    }
    return printing::load_form(fmt::format("l{}.each[e]", id),
                               kernel_.inputs[static_cast<std::size_t>(node.input)].dtype);
  };
  const bool sums = output_.dtype == DType::i32;  // of integers, as they are
  line(fmt::format("{} got[2];", sums ? "int" : "float"));
  line("const int first = column;");
  line("#pragma unroll");
  open("for (int e = 0; e < 2; ++e) {");
  line(fmt::format("const {} d{} = {};", writer_.coordinate(), column(),
                   c_.columns % 2 == 0 ? "first + e" : fmt::format("min(first + e, {})", c_.columns - 1)));
  line(sums_integers(kernel_) ? "const int folded = sums[0][e];" : "const float folded = sums[0][e];");
  writer_.fold = "folded";
  writer_.nodes(roots_);
  line(fmt::format("got[e] = {};", writer_.name(output_.node)));
  for (std::size_t i = 0; i < folded_.size(); ++i) line(fmt::format("more[{}][e] = {};", i, writer_.name(folded_[i])));
  close();
  writer_.at_hand = nullptr;
  if (sums)
    line("out[0] = (u32)got[0], out[words - 1] = (u32)got[1];");
  else if (output_.dtype == DType::f32)
    line("out[0] = __float_as_uint(got[0]), out[words - 1] = __float_as_uint(got[1]);");
  else
    line(fmt::format("out[0] = {}(got[0], got[1]);", output_.dtype == DType::bf16 ? "pack_bf16" : "pack_f16"));
  close();
}

/// Where the load's element lies; of what groups have their own of, that of the group at hand.
std::string ProductPrinter::place(int load) const {
  const std::string within = writer_.place_of(kernel_.nodes[static_cast<std::size_t>(load)].index);
  if (groups_ == nullptr || !groups_->strides.contains(load)) return within;
  return fmt::format("{} + {}ll * unit", within, groups_->strides.at(load));
}

std::string ProductPrinter::unpaired(int id) {
  const auto own = std::exchange(writer_.at_hand, nullptr);
  std::string text = writer_.load(kernel_, id);
  writer_.at_hand = own;
  return text;
}

void ProductPrinter::kernel(int threads, int blocks, std::string_view more_parameters, std::string_view call) {
  writer_.entry(inputs_, threads, blocks, more_parameters, call, more().second);
}

}  // namespace planish::codegen::contraction
