#pragma once

#include <memory>
#include <string_view>

#include "coder/synth.h"

namespace planish::coder {

/// The whole task as one region for sources: in0, in1, … are the graph's inputs in its order (parameters and buffers
/// too), out0, out1, … what it computes. It has no genomes. Its programs are those of the task, not of a region: the
/// caller's inputs keep the roles that they have in the graph.
std::shared_ptr<const Domain> whole_domain(std::shared_ptr<const CutTask> task);
/// Whether a source is none of kernels and launches, but Python that stands for the whole task: a file with a class
/// ModelNew and no directives.
bool is_solution(std::string_view source);
/// Its candidate, whose program is a planish.solution/1 (program/solution.h).
Candidate solution_candidate(std::string_view source);
/// The task cut so that all of it is one region.
codegen::Partition whole_partition(const ir::Graph& graph);

}  // namespace planish::coder
