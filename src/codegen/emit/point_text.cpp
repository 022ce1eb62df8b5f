#include "codegen/emit/point_text.h"

#include <fmt/format.h>

#include <numeric>

namespace planish::codegen::printing {

std::vector<int> all_variables(const Kernel& kernel) {
  std::vector<int> all(kernel.space.extents.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

PointText::PointText(const Kernel& kernel, std::string_view read, bool wide)
    : kernel_(kernel), wide_(wide), read_(read) {
  for (std::size_t v = 0; v < kernel.space.extents.size(); ++v) names_.push_back(fmt::format("d{}", v));
}

std::string PointText::coordinates(std::string_view linear, std::span<const int> variables) const {
  std::string out;
  std::int64_t later = 1;
  for (std::size_t i = variables.size(); i-- > 0;) {
    const std::int64_t extent = kernel_.space.extent(variables[i]);
    std::string text(linear);
    if (later > 1) text += fmt::format(" / {}", later);
    if (i > 0) text = fmt::format("{} % {}", text, extent);
    out += fmt::format("  const {} d{} = {};\n", wide_ ? "long long" : "int", variables[i], text);
    later *= extent;
  }
  return out;
}

std::string PointText::store(std::size_t o) const {
  const Output& output = kernel_.outputs[o];
  const DType from = kernel_.nodes[static_cast<std::size_t>(output.node)].dtype;
  const std::string inside = in_range(output.args, output.arg_limits);
  return fmt::format("  {}out{}[{}{}] = {};\n", inside.empty() ? "" : fmt::format("if ({}) ", inside), o,
                     text(output.index), moved(output.args, output.arg_strides),
                     store_form(name(output.node), from, output.dtype));
}

std::string PointText::load(const Kernel& kernel, int id) {
  const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
  const DType stored = kernel.inputs[static_cast<std::size_t>(node.input)].dtype;
  const std::string place = fmt::format("in{} + ({}){}", node.input, text(node.index), moved(node.args, node.strides));
  return guarded(kernel, id, convert(load_form(fmt::format("{}({})", read_, place), stored), stored, node.dtype),
                 where_text(node.where, kernel.space, names_, wide_));
}

std::string PointText::reduced(const Kernel&, int id) {
  const auto found = results_.find(id);
  return found == results_.end() ? std::string() : found->second;
}

std::string PointText::text(const ir::IndexExpr& e) const {
  return index_text(e, kernel_.space, names_, wide_);
}

}  // namespace planish::codegen::printing
