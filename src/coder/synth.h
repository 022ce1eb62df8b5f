#pragma once

#include <memory>
#include <vector>

#include "codegen/partition/fusion_plans.h"
#include "codegen/partition/partition.h"
#include "coder/domain.h"
#include "ir/graph.h"

namespace planish::coder {

/// A task that was cut into regions, with what emission must know. Immutable; shared by the domains of its regions.
struct CutTask {
  ir::Graph graph;
  codegen::Partition partition;
  std::vector<codegen::FusionPlan> fusion_plans;  ///< other ways to cut it
  codegen::Device device;
};

/// The built-in coder's proposals for one region of the task, however it is cut: genomes of its kernel, emitted as CUDA
/// C++ or C++.
std::shared_ptr<const Domain> synth_domain(std::shared_ptr<const CutTask> task, const codegen::Region& region);

}  // namespace planish::coder
