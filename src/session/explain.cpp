#include "session/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/dtype.h"
#include "program/program.h"
#include "session/node_names.h"

namespace planish::session {
namespace {

/// What must be read of a value: a dimension that is only repeated (stride 0) lies in memory once.
double bytes_read(const ir::Value& value) {
  double elements = 1;
  for (std::size_t d = 0; d < value.shape.size(); ++d) {
    if (value.shape[d] == 0 || value.strides[d] != 0) elements *= static_cast<double>(value.shape[d]);
  }
  return elements * std::max(size_of(value.dtype), 1);
}

double bytes_moved(const ir::Graph& graph, const ir::GraphNode& node) {
  std::set<int> values;
  for (const int id : ir::reads(node)) values.insert(id);
  for (const auto& out : node.outs) {
    // Results that nobody asked for are written all the same.
    if (out) values.insert(*out);
  }
  double total = 0;
  for (const int id : values) total += bytes_read(graph.values[static_cast<std::size_t>(id)]);
  return total;
}

void add(Explanation::Side& side, const ir::Graph& graph, int index) {
  const ir::GraphNode& node = graph.nodes[static_cast<std::size_t>(index)];
  if (!does_work(node)) return;
  ++side.launches;
  side.bytes += bytes_moved(graph, node);
}

void count_left(Explanation& why, const std::string& op) {
  const std::string name = operator_name(op);
  const auto known = std::ranges::find(why.left, name, &std::pair<std::string, int>::first);
  if (known == why.left.end()) {
    why.left.emplace_back(name, 1);
  } else {
    ++known->second;
  }
}

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.3g} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.3g} MB", bytes / 1e6);
  return bytes >= 1e3 ? fmt::format("{:.3g} kB", bytes / 1e3) : fmt::format("{:.0f} bytes", bytes);
}

std::string counted(std::int64_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

}  // namespace

Result<Explanation> explain(const ir::Graph& graph, const codegen::Partition& partition,
                            const std::vector<ExplainedRegion>& regions, const std::string& program) {
  Explanation why;
  PLANISH_TRY(const auto eager, codegen::arrange(graph, {}));
  for (const codegen::Item& item : eager.order) add(why.before, graph, item.index);
  for (std::size_t r = 0; r < partition.regions.size(); ++r) {
    const ExplainedRegion& region = regions[r];
    if (!region.used) continue;
    const auto known = std::ranges::find(why.fused, region.id, &Explanation::Fused::region);
    why.after.bytes += region.bytes;
    if (known != why.fused.end()) {
      ++known->count;
      continue;
    }
    Explanation::Fused fused;
    fused.region = region.id;
    fused.operators = operators_text(graph, partition.regions[r].nodes);
    fused.where = places_text(graph, partition.regions[r].nodes);
    for (const int node : partition.regions[r].nodes) add(fused.before, graph, node);
    const auto before = std::ranges::count_if(partition.regions[r].before, [](const codegen::Region& one) {
      return !one.library || codegen::classify(one.library->op) != codegen::OpClass::view;
    });
    fused.after = {region.launches + before, region.bytes};
    why.fused.push_back(std::move(fused));
  }
  for (const codegen::Item& item : partition.order) {
    Explanation::Side left;
    if (!item.is_region) {
      add(left, graph, item.index);
    } else if (!regions[static_cast<std::size_t>(item.index)].used) {
      for (const int node : partition.regions[static_cast<std::size_t>(item.index)].nodes) add(left, graph, node);
    }
    why.after.bytes += left.bytes;
  }
  PLANISH_TRY(const auto parsed, program::parse(program));
  for (const program::Step& step : parsed.steps) {
    if (std::holds_alternative<program::Launch>(step)) ++why.after.launches;
    const auto* aten = std::get_if<program::Aten>(&step);
    if (aten == nullptr) continue;
    ir::GraphNode node;
    node.op = aten->op;
    if (!does_work(node)) continue;
    ++why.after.launches;
    count_left(why, aten->op);
  }
  return why;
}

std::vector<std::string> sentences(const Explanation& why) {
  std::vector<std::string> out;
  out.push_back(fmt::format("PyTorch runs {} one after the other, which move at least {} a call; this takes {} and {}",
                            counted(why.before.launches, "operator"), bytes_text(why.before.bytes),
                            counted(why.after.launches, "launch") == "1 launch"
                                ? std::string("1 launch")
                                : fmt::format("{} launches", why.after.launches),
                            bytes_text(why.after.bytes)));
  for (const Explanation::Fused& fused : why.fused) {
    std::string line = fmt::format("{}: {}", fused.region, fused.operators);
    if (!fused.where.empty()) line += fmt::format(" ({})", fused.where);
    line +=
        fused.before.launches > 1
            ? fmt::format(", {} in {}: {} in place of {}", counted(fused.before.launches, "operator"),
                          fused.after.launches == 1 ? "one kernel" : fmt::format("{} kernels", fused.after.launches),
                          bytes_text(fused.after.bytes), bytes_text(fused.before.bytes))
            : fmt::format(", a kernel of its own: {}", bytes_text(fused.after.bytes));
    if (fused.count > 1) line += fmt::format(", {} times", fused.count);
    out.push_back(std::move(line));
  }
  if (!why.left.empty()) {
    std::string line = "PyTorch still runs ";
    for (std::size_t i = 0; i < why.left.size(); ++i) {
      line += (i == 0 ? "" : ", ") + why.left[i].first;
      if (why.left[i].second > 1) line += fmt::format(" ×{}", why.left[i].second);
    }
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace planish::session
