#include "cli/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/compose/compose.h"
#include "codegen/lower/node_text.h"
#include "codegen/partition/partition.h"
#include "codegen/partition/recut.h"
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

  /// Groups equal regions, and equal ways to cut them otherwise; each group is searched once, as its first member.
  Status prepare() {
    for (const codegen::Region& region : task_->partition.regions) {
      PLANISH_TRY(const std::size_t at, plan_region(region, false));
      ++planned_[at].count;
      planned_of_.push_back(at);
    }
    for (const codegen::Recut& recut : task_->recuts) PLANISH_CHECK(plan_recut(recut));
    for (const Group& group : groups_) {
      PlannedWay way;
      for (const std::size_t r : group.replaces) add_use(way.replaces, r, group.recuts.size());
      for (const std::size_t r : group.by) {
        add_use(way.by, r, group.recuts.size());
        PlannedRegion& region = planned_[r];
        if (region.alternative) region.count = std::max(region.count, way.by.back().times);
      }
      ways_.push_back(std::move(way));
    }
    return {};
  }

  const std::vector<PlannedRegion>& regions() const override { return planned_; }
  const std::vector<PlannedWay>& ways() const override { return ways_; }

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
    for (const PlannedRegion& region : planned_) total += region.alternative ? 0 : region.flops * region.count;
    return total;
  }

  Result<std::string> aten_program() const override {
    PLANISH_TRY(auto program, codegen::aten_program(task_->graph, task_->device));
    return program::to_json(program);
  }

  Result<std::string> compose(const std::map<std::string, codegen::Genome>& chosen,
                              const std::vector<std::size_t>& ways) const override {
    std::vector<const codegen::Recut*> recuts;
    for (const std::size_t w : ways) recuts.insert(recuts.end(), groups_[w].recuts.begin(), groups_[w].recuts.end());
    PLANISH_TRY(const auto partition, codegen::recut(task_->graph, task_->partition, recuts));
    std::vector<codegen::Choice> choices(partition.regions.size());
    for (std::size_t r = 0; r < partition.regions.size(); ++r) {
      const auto planned =
          std::ranges::find(planned_, codegen::canonical_key(partition.regions[r]), &PlannedRegion::key);
      if (planned == planned_.end()) continue;
      const auto found = chosen.find(planned->id);
      if (found == chosen.end()) continue;
      PLANISH_TRY(choices[r], codegen::emit(partition.regions[r].kernel, task_->device, found->second));
    }
    PLANISH_TRY(auto program, codegen::compose(task_->graph, partition, choices, task_->device));
    return program::to_json(program);
  }

 private:
  /// Recuts that replace equal regions by equal ones, each elsewhere in the task. Regions by their places in planned_.
  struct Group {
    std::vector<std::size_t> replaces, by;
    std::vector<const codegen::Recut*> recuts;
  };

  /// Where it stands in planned_: as an equal one before it, or anew.
  Result<std::size_t> plan_region(const codegen::Region& region, bool alternative) {
    std::string key = codegen::canonical_key(region);
    const auto known = std::ranges::find(planned_, key, &PlannedRegion::key);
    if (known != planned_.end()) return static_cast<std::size_t>(known - planned_.begin());
    PlannedRegion out;
    out.id = fmt::format("r{}", planned_.size());
    out.key = std::move(key);
    out.count = 0;
    out.nodes = region.nodes;
    out.inputs = region.inputs;
    out.outputs = region.outputs;
    const codegen::Cost cost = codegen::cost(region.kernel);
    out.bytes = cost.bytes;
    out.flops = cost.flops;
    out.summary = summary_of(region);
    out.alternative = alternative;
    out.launch_ms = 1e3 * codegen::launch_seconds(task_->device);
    PLANISH_TRY(auto aten, codegen::region_aten_program(task_->graph, region, task_->device));
    out.aten_program = program::to_json(aten);
    out.domain = coder::synth_domain(task_, region);
    out.features = std::make_shared<model::Featurizer>(region.kernel, task_->device);
    planned_.push_back(std::move(out));
    return planned_.size() - 1;
  }

  Status plan_recut(const codegen::Recut& recut) {
    Group group;
    for (const std::size_t r : recut.replaces) group.replaces.push_back(planned_of_[r]);
    for (const codegen::Region& region : recut.by) {
      PLANISH_TRY(const std::size_t at, plan_region(region, true));
      group.by.push_back(at);
    }
    auto known =
        std::ranges::find_if(groups_, [&](const Group& g) { return g.replaces == group.replaces && g.by == group.by; });
    if (known == groups_.end()) known = groups_.insert(known, std::move(group));
    const bool apart = std::ranges::none_of(known->recuts, [&](const codegen::Recut* other) {
      return std::ranges::find_first_of(other->replaces, recut.replaces) != other->replaces.end();
    });
    if (apart) known->recuts.push_back(&recut);
    return {};
  }

  void add_use(std::vector<PlannedWay::Use>& uses, std::size_t region, std::size_t times) const {
    const std::string& id = planned_[region].id;
    auto known = std::ranges::find(uses, id, &PlannedWay::Use::region);
    if (known == uses.end()) known = uses.insert(known, {id, 0});
    known->times += static_cast<int>(times);
  }

  std::shared_ptr<const coder::CutTask> task_;
  std::vector<PlannedRegion> planned_;
  std::vector<std::size_t> planned_of_;  ///< by region of the partition: its place in planned_
  std::vector<Group> groups_;
  std::vector<PlannedWay> ways_;  ///< of groups_
};

class SynthPlanner : public Planner {
 public:
  Result<std::unique_ptr<Plan>> plan(const std::string& graph, const DeviceFacts& device) override {
    auto task = std::make_shared<coder::CutTask>();
    PLANISH_TRY(task->graph, ir::parse_graph(graph));
    PLANISH_TRY(task->partition, codegen::partition(task->graph));
    task->device = device_of(device);
    task->recuts = codegen::recuts(task->graph, task->partition, task->device);
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
