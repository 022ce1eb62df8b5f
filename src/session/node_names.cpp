#include "session/node_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "codegen/lower/lower.h"

namespace planish::session {
namespace {

const ir::GraphNode& at(const ir::Graph& graph, int node) {
  return graph.nodes[static_cast<std::size_t>(node)];
}

std::string lines_text(std::vector<int> lines) {
  std::ranges::sort(lines);
  std::string out;
  for (std::size_t i = 0; i < lines.size();) {
    std::size_t last = i;
    // Blank lines and comments lie between two statements that follow each other.
    while (last + 1 < lines.size() && lines[last + 1] - lines[last] <= 2) ++last;
    if (!out.empty()) out += ",";
    out += lines[last] > lines[i] ? fmt::format("{}-{}", lines[i], lines[last]) : fmt::format("{}", lines[i]);
    i = last + 1;
  }
  return out;
}

}  // namespace

std::string operator_name(const std::string& op) {
  const std::size_t first = op.find('.') + 1;
  std::string name = op.substr(first, op.find('.', first) - first);
  if (name == "_to_copy") return "cast";
  name.erase(0, std::min(name.find_first_not_of('_'), name.size()));
  for (const char* prefix : {"native_", "fused_"}) {
    if (name.starts_with(prefix)) name.erase(0, std::string_view(prefix).size());
  }
  return name.empty() ? op : name;
}

bool does_work(const ir::GraphNode& node) {
  const codegen::OpClass kind = codegen::classify(node.op);
  return kind != codegen::OpClass::view && kind != codegen::OpClass::creation;
}

std::string operators_text(const ir::Graph& graph, const std::vector<int>& nodes, std::size_t most) {
  std::vector<std::pair<std::string, int>> names;
  const bool any_work = std::ranges::any_of(nodes, [&](int n) { return does_work(at(graph, n)); });
  for (const int n : nodes) {
    if (any_work && !does_work(at(graph, n))) continue;
    const std::string name = operator_name(at(graph, n).op);
    const auto known = std::ranges::find(names, name, &std::pair<std::string, int>::first);
    if (known == names.end()) {
      names.emplace_back(name, 1);
    } else {
      ++known->second;
    }
  }
  std::string out;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) {
    out += (i == 0 ? "" : ", ") + names[i].first;
    if (names[i].second > 1) out += fmt::format(" ×{}", names[i].second);
  }
  if (names.size() > most) out += fmt::format(" and {} more", names.size() - most);
  return out;
}

std::string places_text(const ir::Graph& graph, const std::vector<int>& nodes) {
  std::vector<std::pair<std::string, std::vector<int>>> files;
  for (const int n : nodes) {
    const ir::GraphNode& node = at(graph, n);
    if (node.file.empty()) continue;
    auto known = std::ranges::find(files, node.file, &std::pair<std::string, std::vector<int>>::first);
    if (known == files.end()) known = files.insert(files.end(), {node.file, {}});
    if (std::ranges::find(known->second, node.line) == known->second.end()) known->second.push_back(node.line);
  }
  std::string out;
  for (auto& [file, lines] : files)
    out += fmt::format("{}{}:{}", out.empty() ? "" : ", ", file, lines_text(std::move(lines)));
  return out;
}

}  // namespace planish::session
