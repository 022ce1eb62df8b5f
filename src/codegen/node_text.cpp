#include "codegen/node_text.h"

#include <fmt/format.h>

#include "codegen/operation.h"

namespace planish::codegen {

std::string bounds_text(const std::vector<ir::Bound>& where) {
  std::string out;
  for (const auto& bound : where) out += fmt::format(" [{} <= {} < {}]", bound.lo, bound.e.text(), bound.hi);
  return out;
}

std::string node_text(const Node& node) {
  std::string out = fmt::format("{} {}", info(node.op).name, name(node.dtype));
  const auto literal = [&] {
    return is_floating(node.dtype) ? fmt::format("{:a}", node.value) : fmt::format("{}", node.bits);
  };
  if (node.op == Op::constant) out += " " + literal();
  if (node.op == Op::load) {
    out += fmt::format(" in{}[{}", node.input, node.index.text());
    for (std::size_t i = 0; i < node.args.size(); ++i)
      out += fmt::format(" + {}*(%{} < {})", node.strides[i], node.args[i], node.limits[i]);
    out += "]";
    if (!node.where.empty()) out += " where" + bounds_text(node.where) + " else " + literal();
  }
  if (node.op == Op::index) out += fmt::format(" {}", node.index.text());
  if (node.op == Op::reduced) out += fmt::format(" r{}", node.reduction);
  if (node.op == Op::scanned) {
    out += fmt::format(" s{}{}{}", node.scan, node.exclusive ? " before" : "", node.position ? " position" : "");
  }
  if (node.op != Op::load) {
    for (const int arg : node.args) out += fmt::format(" %{}", arg);
  }
  if (node.rounds) out += " rounds";
  return out;
}

}  // namespace planish::codegen
