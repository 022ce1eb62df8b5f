#include "evaluate/binding.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace planish {

Result<program::Program> with_own_outputs(program::Program program, const std::vector<int>& checked) {
  std::set<int> taken, named;
  int position = -1;
  for (program::Output& output : program.outputs) {
    if (output.kind == "scalar" || output.buffer < 0) continue;
    ++position;
    const bool fresh = named.insert(output.buffer).second;
    if (std::ranges::find(checked, position) == checked.end()) {
      if (fresh && program.buffers[static_cast<std::size_t>(output.buffer)].role == program::Role::output) {
        return fail(
            "bad_program",
            fmt::format(
                "output {} stands for an input or an earlier output, and the program makes another buffer for it",
                position));
      }
      output.kind = "scalar";  // nothing to bind
      continue;
    }
    const program::Buffer& buffer = program.buffers[static_cast<std::size_t>(output.buffer)];
    if (buffer.role == program::Role::output && taken.insert(output.buffer).second) continue;
    program::Buffer copy;
    copy.role = program::Role::output;
    copy.dtype = buffer.dtype;
    copy.shape = buffer.shape;
    copy.strides = buffer.strides;
    program.buffers.push_back(std::move(copy));
    const int index = static_cast<int>(program.buffers.size()) - 1;
    program.steps.emplace_back(program::Copy{output.buffer, index});
    output.buffer = index;
    taken.insert(index);
  }
  std::erase_if(program.outputs, [](const program::Output& output) { return output.kind == "scalar"; });
  return program;
}

namespace {

/// The position in the graph's inputs of what a buffer's source names, or -1.
int find_input(const ir::Graph& graph, const program::Source& source) {
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const ir::GraphInput& input = graph.inputs[i];
    if (input.kind != source.kind) continue;
    const bool same = source.kind == "user"        ? input.index == source.index
                      : source.kind == "const"     ? input.blob == source.blob
                      : source.kind == "generator" ? true
                                                   : input.name == source.name;
    if (same) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

Result<BindingPlan> plan_bindings(const program::Program& program, const ir::Graph& graph, bool whole_task, int inputs,
                                  int outputs) {
  BindingPlan plan;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const program::Buffer& buffer = program.buffers[i];
    if (buffer.role == program::Role::temp || buffer.role == program::Role::output) continue;
    int position = -1;
    if (whole_task) {
      position = find_input(graph, buffer.source);
    } else if (buffer.source.kind == "user") {
      position = buffer.source.index;
    }
    if (position < 0 || position >= inputs) {
      return fail(
          "bad_program",
          fmt::format("buffers[{}] ({} {}{}) stands for none of the region's {} inputs", i, buffer.source.kind,
                      buffer.source.name, buffer.source.index >= 0 ? std::to_string(buffer.source.index) : "", inputs));
    }
    plan.slots.push_back({static_cast<int>(i), position, false});
  }
  int count = 0;
  for (const program::Output& output : program.outputs) {
    if (output.kind == "scalar") continue;
    plan.slots.push_back({output.buffer, count++, true});
  }
  if (count != outputs)
    return fail("bad_program", fmt::format("the program has {} outputs, the region {}", count, outputs));
  return plan;
}

Result<std::vector<worker::Binding>> bindings_of(const BindingPlan& plan, const worker::DataSet& set) {
  std::vector<const worker::SharedBuffer*> inputs, outputs;
  for (const worker::SharedBuffer& buffer : set.buffers)
    (buffer.role == "output" ? outputs : inputs).push_back(&buffer);
  std::vector<worker::Binding> bindings;
  for (const BindingPlan::Slot& slot : plan.slots) {
    const auto& list = slot.output ? outputs : inputs;
    if (static_cast<std::size_t>(slot.position) >= list.size()) {
      return fail("infrastructure",
                  fmt::format("the oracle made {} {}", list.size(), slot.output ? "outputs" : "inputs"));
    }
    bindings.push_back({slot.buffer, list[static_cast<std::size_t>(slot.position)]});
  }
  return bindings;
}

}  // namespace planish
