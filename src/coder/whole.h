#pragma once

#include <memory>

#include "coder/synth.h"

namespace planish::coder {

/// The whole task as one region for sources: in0, in1, … are the graph's inputs in its order (parameters and buffers
/// too), out0, out1, … what it computes. It has no genomes. Its programs are those of the task, not of a region: the
/// caller's inputs keep the roles that they have in the graph.
std::shared_ptr<const Domain> whole_domain(std::shared_ptr<const CutTask> task);
/// The task cut so that all of it is one region.
codegen::Partition whole_partition(const ir::Graph& graph);

}  // namespace planish::coder
