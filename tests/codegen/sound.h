#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "codegen/compose/compose.h"
#include "codegen/graph_builder.h"

/// What every partition must hold, whoever made it.
namespace planish::codegen::testing {

inline ir::Graph fixture(const std::string& name) {
  std::ifstream file(PLANISH_SOURCE_DIR "/tests/codegen/fixtures/" + name);
  std::stringstream text;
  text << file.rdbuf();
  auto graph = ir::parse_graph(text.str());
  REQUIRE_MESSAGE(graph.has_value(), (graph ? "" : graph.error().message));
  return *graph;
}

inline Device cpu() {
  Device device;
  device.arch = "x86-64-v3";
  return device;
}

/// A stand-in for an emitter: the right arguments, an empty body.
inline Emitted empty_kernel(const Region& region) {
  Emitted e;
  e.language = "cpp";
  e.entry = "k";
  e.source = "extern \"C\" void k(void** args) {}";
  using Kind = Emitted::Argument::Kind;
  for (std::size_t i = 0; i < region.kernel.inputs.size(); ++i) e.args.push_back({Kind::input, static_cast<int>(i)});
  for (std::size_t i = 0; i < region.outputs.size(); ++i) e.args.push_back({Kind::output, static_cast<int>(i)});
  e.args.push_back({Kind::scratch, 0});
  e.scratch_bytes = {64};
  return e;
}

inline Partition cut(const ir::Graph& graph, bool fuse = true) {
  PartitionOptions options;
  options.fuse = fuse;
  auto result = partition(graph, options);
  REQUIRE(result.has_value());
  return *result;
}

/// Every value is made before it is read, every output is made, and every program that can be composed is valid.
inline void sound(const ir::Graph& graph, const Partition& p) {
  std::set<int> made;
  for (const auto& input : graph.inputs) made.insert(input.value);
  for (const Item& item : p.order) {
    if (item.is_region) {
      const Region& r = p.regions[static_cast<std::size_t>(item.index)];
      for (const int v : r.inputs) CHECK(made.contains(v));
      for (const int v : r.outputs) CHECK(made.insert(v).second);
    } else {
      const auto& node = graph.nodes[static_cast<std::size_t>(item.index)];
      for (const int v : ir::reads(node)) CHECK_MESSAGE(made.contains(v), node.op);
      for (const auto& out : node.outs) {
        if (out) made.insert(*out);
      }
    }
  }
  for (const auto& output : graph.outputs) CHECK((output.value < 0 || made.contains(output.value)));
  std::vector<Choice> aten(p.regions.size()), emitted;
  for (const Region& r : p.regions) {
    emitted.emplace_back(empty_kernel(r));
    const auto one = region_program(graph, r, empty_kernel(r), cpu());
    CHECK_MESSAGE(one.has_value(), (one ? "" : one.error().causes[0]));
    const auto plain = region_aten_program(graph, r, cpu());
    CHECK_MESSAGE(plain.has_value(), (plain ? "" : plain.error().causes[0]));
    REQUIRE((one && plain));
    for (std::size_t i = 0; i < r.inputs.size(); ++i) CHECK(one->buffers[i].source.index == static_cast<int>(i));
    CHECK(one->outputs.size() == r.outputs.size());
    CHECK_FALSE(one->has_aten());
  }
  for (const auto& choices : {aten, emitted}) {
    const auto whole = compose(graph, p, choices, cpu());
    CHECK_MESSAGE(whole.has_value(), (whole ? "" : whole.error().causes[0]));
  }
  CHECK(aten_program(graph, cpu()).has_value());
}

}  // namespace planish::codegen::testing
