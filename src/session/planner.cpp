#include "session/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "backend/backend.h"
#include "codegen/attention/attention.h"
#include "codegen/compose/compose.h"
#include "codegen/compose/staged.h"
#include "codegen/contraction/contraction.h"
#include "codegen/order/order.h"
#include "codegen/partition/fusion_plans.h"
#include "codegen/partition/partition.h"
#include "codegen/templates/template.h"
#include "coder/proposal.h"
#include "coder/synth.h"
#include "coder/whole.h"
#include "ir/graph.h"
#include "program/program.h"
#include "rewrite/rewrite.h"
#include "session/node_names.h"

namespace planish::session {

codegen::Device device_of(const DeviceFacts& facts) {
  codegen::Device out;
  out.target = &backend::named(facts.target);
  out.arch = facts.arch;
  out.sms = static_cast<int>(out.target->on_host ? facts.cores : facts.sms);
  if (facts.shared_bytes > 0) out.shared_bytes = facts.shared_bytes;
  if (facts.l2_bytes > 0) out.l2_bytes = facts.l2_bytes;
  out.triton = facts.triton;
  if (facts.bandwidth_gbs > 0) out.bandwidth_gbs = facts.bandwidth_gbs;
  if (facts.peak_gflops > 0) out.tensor_rate = facts.tensor_gflops / facts.peak_gflops;
  return out;
}

namespace {

double bytes_of(const ir::Value& value) {
  return static_cast<double>(value.elements()) * std::max(size_of(value.dtype), 1);
}

/// "layer_norm, mul, relu (model.py:14-17)".
std::string summary_of(const ir::Graph& graph, const codegen::Region& region) {
  const std::string where = places_text(graph, region.nodes);
  return operators_text(graph, region.nodes) + (where.empty() ? "" : fmt::format(" ({})", where));
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
    for (const codegen::FusionPlan& fuse_by : task_->fusion_plans) PLANISH_CHECK(add_fusion_plan(fuse_by));
    for (const Group& group : groups_) {
      PlannedFusion fusion;
      for (const std::size_t r : group.replaces) add_use(fusion.replaces, r, group.fusion_plans.size());
      for (const std::size_t r : group.by) {
        add_use(fusion.by, r, group.fusion_plans.size());
        PlannedRegion& region = planned_[r];
        if (region.alternative) region.count = std::max(region.count, fusion.by.back().times);
      }
      fusions_.push_back(std::move(fusion));
    }
    return {};
  }

  const std::vector<PlannedRegion>& regions() const override { return planned_; }
  const std::vector<PlannedFusion>& fusions() const override { return fusions_; }

  double bytes() const override {
    double total = 0;
    const bool reads_unknown = !no_graph().empty();  // a cache may be much larger than what is read of it
    const auto consumers = task_->graph.consumers();
    for (const ir::GraphInput& input : task_->graph.inputs) {
      const auto id = static_cast<std::size_t>(input.value);
      if (!consumers[id].empty() && !reads_unknown) total += bytes_of(task_->graph.values[id]);
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

  int kept_steps() const override {
    return static_cast<int>(std::ranges::count(task_->partition.order, false, &codegen::Item::is_region));
  }

  std::shared_ptr<const coder::Domain> whole_domain() const override { return coder::whole_domain(task_); }

  std::optional<PlannedRegion> whole() const override {
    if (task_->partition.regions.size() == 1 && kept_steps() == 0) return std::nullopt;
    PlannedRegion out;
    out.id = out.key = whole_task;
    out.bytes = bytes();
    out.flops = flops();
    out.summary = "the whole task";
    out.alternative = true;
    out.domain = whole_domain();
    return out;
  }

  std::string no_graph() const override { return task_->graph.refusal(); }

  Result<std::string> aten_program() const override {
    if (!no_graph().empty()) return std::string();
    PLANISH_TRY(auto program, codegen::aten_program(task_->graph, task_->device));
    return program::to_json(program);
  }

  Result<std::string> compose(const std::map<std::string, coder::Proposal>& chosen,
                              const std::vector<std::size_t>& fusions, codegen::Packings packings) const override {
    if (const auto all = chosen.find(whole_task); all != chosen.end()) {
      PLANISH_TRY(auto candidate, coder::build(*whole_domain(), all->second));
      return candidate.program.text();
    }
    if (const auto solution = solution_among(chosen)) return *solution;
    PLANISH_TRY(const auto partition, cut(fusions));
    std::vector<codegen::Choice> choices(partition.regions.size());
    for (std::size_t r = 0; r < partition.regions.size(); ++r) {
      const PlannedRegion* planned = planned_as(partition.regions[r]);
      if (planned == nullptr) continue;
      const auto found = chosen.find(planned->id);
      if (found == chosen.end()) continue;
      const codegen::Region& region = partition.regions[r];
      const auto is_equal = [&] { return codegen::canonical_key(region) == planned->key; };
      // A text was written for the first of them, with its places.
      if (coder::genome_of(found->second) == nullptr && !is_equal()) continue;
      auto emitted = coder::emit(region, task_->device, found->second);
      // What reaches beyond a slice may be there in the first of them alone: the others stay PyTorch's.
      if (!emitted && !is_equal()) continue;
      PLANISH_TRY(choices[r], std::move(emitted));
    }
    PLANISH_TRY(auto program, codegen::compose(task_->graph, partition, choices, task_->device, packings));
    return program::to_json(program);
  }

  Result<Explanation> explain(const std::set<std::string>& used, const std::vector<std::size_t>& fusions,
                              const std::string& program) const override {
    if (used.contains(whole_task)) {
      PLANISH_TRY(const auto parsed, program::parse(program));
      const auto launches = std::ranges::count_if(
          parsed.steps, [](const program::Step& step) { return std::holds_alternative<program::Launch>(step); });
      return session::explain(task_->graph, coder::whole_partition(task_->graph),
                              {{whole_task, true, bytes(), launches}}, program);
    }
    PLANISH_TRY(const auto partition, cut(fusions));
    std::vector<ExplainedRegion> regions;
    for (const codegen::Region& region : partition.regions) {
      const PlannedRegion* planned = planned_as(region);
      ExplainedRegion& out = regions.emplace_back();
      if (planned == nullptr) continue;
      out = {planned->id, used.contains(planned->id), planned->bytes};
    }
    return session::explain(task_->graph, partition, regions, program);
  }

 private:
  /// What was proposed for the one region that is the task, where that is Python: it is the task's program as it is.
  std::optional<std::string> solution_among(const std::map<std::string, coder::Proposal>& chosen) const {
    if (chosen.size() != 1 || coder::genome_of(chosen.begin()->second) != nullptr) return std::nullopt;
    const auto source = coder::written_source(chosen.begin()->second);
    if (!source || !coder::is_solution(*source)) return std::nullopt;
    return coder::solution_candidate(*source).program.text();
  }

  Result<codegen::Partition> cut(const std::vector<std::size_t>& fusions) const {
    std::vector<const codegen::FusionPlan*> fusion_plans;
    for (const std::size_t w : fusions)
      fusion_plans.insert(fusion_plans.end(), groups_[w].fusion_plans.begin(), groups_[w].fusion_plans.end());
    return codegen::fuse_by(task_->graph, task_->partition, fusion_plans);
  }

  /// Fusion plans that replace equal regions by equal ones, each elsewhere in the task. Regions by their places in
  /// planned_.
  struct Group {
    std::vector<std::size_t> replaces, by;
    std::vector<const codegen::FusionPlan*> fusion_plans;
  };

  /// What it was planned as; null for a region that was not.
  const PlannedRegion* planned_as(const codegen::Region& region) const {
    const auto found = by_schedule_.find(codegen::schedule_key(region));
    return found == by_schedule_.end() ? nullptr : &planned_[found->second];
  }

  /// Where it stands in planned_: as one before it that is scheduled alike, or anew.
  Result<std::size_t> plan_region(const codegen::Region& region, bool alternative) {
    const auto [known, is_new] = by_schedule_.emplace(codegen::schedule_key(region), planned_.size());
    if (!is_new) return known->second;
    PlannedRegion out;
    out.id = fmt::format("r{}", planned_.size());
    out.key = codegen::canonical_key(region);
    out.count = 0;
    out.nodes = region.nodes;
    out.inputs = region.inputs;
    out.outputs = region.outputs;
    const codegen::Cost cost = codegen::cost(region);
    out.bytes = cost.bytes;
    out.flops = codegen::operations(cost, task_->device);
    out.summary = summary_of(task_->graph, region);
    out.alternative = alternative;
    out.whole = !alternative && task_->partition.order.size() == 1;
    out.library_call = is_library_call(region);
    out.launch_ms = 1e3 * task_->device.target->launch_seconds;
    PLANISH_TRY(auto aten, codegen::region_aten_program(task_->graph, region, task_->device));
    out.aten_program = program::to_json(aten);
    out.domain = coder::synth_domain(task_, region);
    // What is learned of genomes is learned of streaming schedules.
    const codegen::Kernel& searched = codegen::searched_kernel(region, task_->device);
    if (codegen::template_of(searched).streams() && !region.library)
      out.features = std::make_shared<model::Featurizer>(searched, task_->device);
    planned_.push_back(std::move(out));
    return planned_.size() - 1;
  }

  Status add_fusion_plan(const codegen::FusionPlan& fuse_by) {
    Group group;
    for (const std::size_t r : fuse_by.replaces) group.replaces.push_back(planned_of_[r]);
    for (const codegen::Region& region : fuse_by.by) {
      PLANISH_TRY(const std::size_t at, plan_region(region, true));
      group.by.push_back(at);
    }
    auto known =
        std::ranges::find_if(groups_, [&](const Group& g) { return g.replaces == group.replaces && g.by == group.by; });
    if (known == groups_.end()) known = groups_.insert(known, std::move(group));
    const bool apart = std::ranges::none_of(known->fusion_plans, [&](const codegen::FusionPlan* other) {
      return std::ranges::find_first_of(other->replaces, fuse_by.replaces) != other->replaces.end();
    });
    if (apart) known->fusion_plans.push_back(&fuse_by);
    return {};
  }

  /// Whether it is a product or convolution and nothing else.
  bool is_library_call(const codegen::Region& region) const {
    if (region.kernel.anchor != codegen::Anchor::contraction || !region.before.empty()) return false;
    return std::ranges::count_if(region.nodes, [&](int n) {
             return codegen::classify(task_->graph.nodes[static_cast<std::size_t>(n)].op) != codegen::OpClass::view;
           }) == 1;
  }

  void add_use(std::vector<PlannedFusion::Use>& uses, std::size_t region, std::size_t times) const {
    const std::string& id = planned_[region].id;
    auto known = std::ranges::find(uses, id, &PlannedFusion::Use::region);
    if (known == uses.end()) known = uses.insert(known, {id, 0});
    known->times += static_cast<int>(times);
  }

  std::shared_ptr<const coder::CutTask> task_;
  std::vector<PlannedRegion> planned_;
  std::map<std::string, std::size_t> by_schedule_;  ///< places in planned_ by codegen::schedule_key
  std::vector<std::size_t> planned_of_;             ///< by region of the partition: its place in planned_
  std::vector<Group> groups_;
  std::vector<PlannedFusion> fusions_;  ///< of groups_
};

/// What rules may know of the device.
rewrite::Options rewrites_for(const codegen::Device& device) {
  rewrite::Options options;
  options.library_products = codegen::tensor_cores(device) != codegen::TensorCores::warpgroups;
  if (!device.target->on_host) {
    // Two tiles of 128 by 128 for each of 132 multiprocessors. A product of 4,096³ takes 0.54 ms on an H200: half a
    // wave here and there, packing parts twice and a pass over the results take more than a tenth of it (counted, not
    // measured).
    options.block = 2048;
    options.most_left = 0.7;
    options.norms_by_channels = 1 << 20;  // of fewer, three launches are longer than one
  }
  options.most_features = codegen::most_features;
  return options;
}

class SynthPlanner : public Planner {
 public:
  Result<std::unique_ptr<Plan>> plan(const std::string& graph, const DeviceFacts& device) override {
    auto task = std::make_shared<coder::CutTask>();
    PLANISH_TRY(task->graph, ir::parse_graph(graph));
    task->device = device_of(device);
    codegen::PartitionOptions options;
    options.limits.contractions = codegen::schedules_contractions(task->device);
    options.limits.narrow_products = codegen::tensor_cores(task->device) == codegen::TensorCores::warps;
    options.limits.grouped = true;
    options.limits.longest_order = codegen::longest_order(task->device);
    PLANISH_TRY(task->partition, codegen::partition(task->graph, options));
    codegen::FusionOptions fusion_options;
    fusion_options.limits = options.limits;
    const bool own = options.limits.contractions;
    fusion_options.limits.grouped = own;  // elsewhere nothing else is computed with it
    if (own)
      task->partition = codegen::with_epilogues(task->graph, std::move(task->partition), task->device, fusion_options);
    const rewrite::Rewritten rewritten = rewrite::rewrite(task->graph, rewrites_for(task->device));
    if (!rewritten.applied.empty()) {
      auto less =
          own ? codegen::rewritten_with_epilogues(task->graph, task->partition, rewritten.graph, rewritten.local,
                                                  task->device, fusion_options)
              : codegen::partition_rewritten(task->graph, task->partition, rewritten.graph, rewritten.local, options);
      if (less) task->partition = std::move(*less);
    }
    task->fusion_plans = codegen::fusion_plans(task->graph, task->partition, task->device, fusion_options);
    auto plan = std::make_unique<SynthPlan>(std::move(task));
    PLANISH_CHECK(plan->prepare());
    return plan;
  }
};

}  // namespace

std::unique_ptr<Planner> make_planner() {
  return std::make_unique<SynthPlanner>();
}

}  // namespace planish::session
