#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "program/program.h"
#include "worker/messages.h"

namespace planish {

/// How a program's buffers stand for a region's tensors: by position in the region's inputs (`source` `user`), and for
/// the region `task` by what the graph calls them (user leaf, parameter, buffer, constant). Outputs go by their order.
struct BindingPlan {
  struct Slot {
    int buffer = -1;    ///< in the program
    int position = -1;  ///< in the region's inputs, or among its outputs
    bool output = false;
  };
  std::vector<Slot> slots;
};

/// Makes a program testable. `checked` are the outputs that the oracle has a buffer for, by their position among the
/// tensor outputs. One of those that is no output buffer of the program's own (it names an input, a temp, or a buffer
/// named before) becomes a copy into a new one. The others stand for an input itself or for an earlier output: the
/// program must name that very buffer (`bad_program` where it makes another, which nobody would check), and they are
/// left out.
Result<program::Program> with_own_outputs(program::Program program, const std::vector<int>& checked);

/// `bad_program`, naming the buffer that fits nothing. `inputs` and `outputs` count the region's tensors; `graph` is
/// used for `task` alone.
Result<BindingPlan> plan_bindings(const program::Program& program, const ir::Graph& graph, bool whole_task, int inputs,
                                  int outputs);

/// The plan on one data set. The result points into the set.
Result<std::vector<worker::Binding>> bindings_of(const BindingPlan& plan, const worker::DataSet& set);

}  // namespace planish
