#include "cli/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/compose/compose.h"
#include "codegen/lower/node_text.h"
#include "codegen/partition/partition.h"
#include "coder/synth.h"
#include "ir/graph.h"
#include "program/program.h"

namespace planish::cli {

codegen::Device device_of(const DeviceFacts& facts) {
  codegen::Device out;
  const bool cuda = facts.target == "cuda";
  out.target = cuda ? codegen::Target::cuda : codegen::Target::cpu;
  out.arch = facts.arch;
  out.sms = static_cast<int>(cuda ? facts.sms : facts.cores);
  if (facts.shared_bytes > 0) out.shared_bytes = facts.shared_bytes;
  if (facts.l2_bytes > 0) out.l2_bytes = facts.l2_bytes;
  out.triton = cuda && facts.triton;
  if (facts.bandwidth_gbs > 0) out.bandwidth_gbs = facts.bandwidth_gbs;
  return out;
}

namespace {

double bytes_of(const ir::Value& value) {
  return static_cast<double>(value.elements()) * std::max(size_of(value.dtype), 1);
}

std::string summary_of(const codegen::Region& region) {
  return fmt::format("{}, {} op{}", codegen::anchor_name(region.kernel.anchor), region.nodes.size(),
                     region.nodes.size() == 1 ? "" : "s");
}

class SynthPlan : public Plan {
 public:
  explicit SynthPlan(std::shared_ptr<const coder::CutTask> task) : task_(std::move(task)) {}

  /// Groups equal regions; each group is searched once, as its first member.
  Status prepare() {
    const auto& regions = task_->partition.regions;
    for (std::size_t i = 0; i < regions.size(); ++i) {
      std::string key = codegen::canonical_key(regions[i]);
      const auto known = std::ranges::find(planned_, key, &PlannedRegion::key);
      if (known != planned_.end()) {
        ++known->count;
        members_[static_cast<std::size_t>(known - planned_.begin())].push_back(i);
        continue;
      }
      PlannedRegion out;
      out.id = fmt::format("r{}", planned_.size());
      out.key = std::move(key);
      out.nodes = regions[i].nodes;
      out.inputs = regions[i].inputs;
      out.outputs = regions[i].outputs;
      const codegen::Cost cost = codegen::cost(regions[i].kernel);
      out.bytes = cost.bytes;
      out.flops = cost.flops;
      out.summary = summary_of(regions[i]);
      PLANISH_TRY(auto aten, codegen::region_aten_program(task_->graph, regions[i], task_->device));
      out.aten_program = program::to_json(aten);
      out.domain = coder::synth_domain(task_, i);
      out.features = std::make_shared<model::Featurizer>(regions[i].kernel, task_->device);
      planned_.push_back(std::move(out));
      members_.push_back({i});
    }
    return {};
  }

  const std::vector<PlannedRegion>& regions() const override { return planned_; }

  double bytes() const override {
    double total = 0;
    const auto consumers = task_->graph.consumers();
    for (const ir::GraphInput& input : task_->graph.inputs) {
      const auto id = static_cast<std::size_t>(input.value);
      if (!consumers[id].empty()) total += bytes_of(task_->graph.values[id]);
    }
    for (const ir::GraphOutput& output : task_->graph.outputs) {
      if (output.value >= 0) total += bytes_of(task_->graph.values[static_cast<std::size_t>(output.value)]);
    }
    return total;
  }

  double flops() const override {
    double total = 0;
    for (const PlannedRegion& region : planned_) total += region.flops * region.count;
    return total;
  }

  Result<std::string> aten_program() const override {
    PLANISH_TRY(auto program, codegen::aten_program(task_->graph, task_->device));
    return program::to_json(program);
  }

  Result<std::string> compose(const std::map<std::string, codegen::Genome>& chosen) const override {
    const auto& regions = task_->partition.regions;
    std::vector<codegen::Choice> choices(regions.size());
    for (std::size_t p = 0; p < planned_.size(); ++p) {
      const auto found = chosen.find(planned_[p].id);
      if (found == chosen.end()) continue;
      for (const std::size_t member : members_[p]) {
        PLANISH_TRY(choices[member], codegen::emit(regions[member].kernel, task_->device, found->second));
      }
    }
    PLANISH_TRY(auto program, codegen::compose(task_->graph, task_->partition, choices, task_->device));
    return program::to_json(program);
  }

 private:
  std::shared_ptr<const coder::CutTask> task_;
  std::vector<PlannedRegion> planned_;
  std::vector<std::vector<std::size_t>> members_;  ///< indices into the partition's regions, by planned region
};

class SynthPlanner : public Planner {
 public:
  Result<std::unique_ptr<Plan>> plan(const std::string& graph, const DeviceFacts& device) override {
    auto task = std::make_shared<coder::CutTask>();
    PLANISH_TRY(task->graph, ir::parse_graph(graph));
    PLANISH_TRY(task->partition, codegen::partition(task->graph));
    task->device = device_of(device);
    auto plan = std::make_unique<SynthPlan>(std::move(task));
    PLANISH_CHECK(plan->prepare());
    return plan;
  }
};

}  // namespace

std::unique_ptr<Planner> make_planner() {
  return std::make_unique<SynthPlanner>();
}

}  // namespace planish::cli
