#include "ir/graph.h"

#include "ir/arg_values.h"

namespace planish::ir {

std::int64_t Value::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

const Arg* GraphNode::arg(std::string_view name) const {
  for (const Arg& a : args) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

std::string Graph::refusal() const {
  if (nodes.size() != 1 || nodes.front().op != "planish.module.default") return {};
  const Arg* why = nodes.front().arg("refusal");
  const auto* text = why == nullptr ? nullptr : std::get_if<std::string>(&why->data);
  return text == nullptr || text->empty() ? "it is a module" : *text;
}

std::vector<int> Graph::producers() const {
  std::vector<int> result(values.size(), -1);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (const auto& out : nodes[n].outs) {
      if (out) result[static_cast<std::size_t>(*out)] = static_cast<int>(n);
    }
  }
  return result;
}

std::vector<int> reads(const GraphNode& node) {
  std::vector<int> ids;
  each_value(node.args, [&](int id) { ids.push_back(id); });
  return ids;
}

std::vector<std::vector<int>> Graph::consumers() const {
  std::vector<std::vector<int>> result(values.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (const int id : reads(nodes[n])) {
      auto& list = result[static_cast<std::size_t>(id)];
      if (list.empty() || list.back() != static_cast<int>(n)) list.push_back(static_cast<int>(n));
    }
  }
  return result;
}

}  // namespace planish::ir
