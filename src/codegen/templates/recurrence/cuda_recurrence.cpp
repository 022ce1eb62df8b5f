#include "codegen/templates/recurrence/cuda_recurrence.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "codegen/cheapest.h"
#include "codegen/contraction/contraction.h"
#include "codegen/lower/lower.h"
#include "codegen/recurrence/step_kernel.h"
#include "codegen/templates/common.h"

namespace planish::codegen {
namespace {

using recurrence::StepLayout;
using recurrence::StepPlan;
using recurrence::StepTask;
using recurrence::Strides;
using Argument = Emitted::Argument;

constexpr int most_threads = 1024;

StepPlan plan_of(const Recurrence& network, const Genome& genome) {
  const auto value = [&](GeneName name, std::int64_t otherwise) {
    return static_cast<int>(gene(genome, name, otherwise));
  };
  StepPlan plan;
  plan.cluster = value("cluster", 16);
  plan.slice = value("rows", static_cast<std::int64_t>(network.batch));
  plan.units = value("unroll", 1);
  plan.rows = value("tile", 1);
  plan.exchange = static_cast<recurrence::Exchange>(value("exchange", 0));
  plan.stacked = value("wavefront", 0) != 0;
  plan.cells = plan.stacked ? network.layers : network.directions;
  return plan;
}

/// Clusters of that many blocks, one a multiprocessor, that fit beside each other: a cluster lies within one of the
/// device's groups of multiprocessors, and some of each are left over. Measured on an H100 of 132: 7 of 16, 15 of 8.
std::int64_t clusters_at_once(int cluster, const Device& device) {
  return cluster < 4 ? device.sms / cluster : device.sms * 91 / 100 / cluster;
}

/// The batch cut into equal slices, smaller ones first.
std::vector<std::int64_t> slices_of(std::int64_t batch) {
  std::vector<std::int64_t> out;
  for (const std::int64_t count : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64, 128}) {
    const std::int64_t slice = (batch + count - 1) / count;
    if (out.empty() || slice < out.back()) out.push_back(slice);
  }
  if (out.back() != 1) out.push_back(1);
  std::ranges::reverse(out);
  return out;
}

}  // namespace

std::string recurrence_lacks(const Kernel& kernel, const Device& device) {
  if (!kernel.recurrence) return "not a recurrent network";
  if (tensor_cores(device) != TensorCores::warpgroups) return "the device has no clusters of blocks, or no wgmma";
  if (recurrence_seeds(*kernel.recurrence, device).empty()) return "no blocks have room for its weights";
  return {};
}

std::vector<Gene> recurrence_genes(const Recurrence& network, const Device& device) {
  std::vector<std::int64_t> clusters;
  for (const std::int64_t c : {1, 2, 4, 8, 16}) {
    if (c <= device.max_cluster) clusters.push_back(c);
  }
  std::vector<std::int64_t> tiles;
  for (const std::int64_t t : {1, 2, 3, 4, 5, 6, 8, 10, 12, 16}) {
    if (t <= network.batch) tiles.push_back(t);
  }
  const bool stacks = network.layers > 1 && network.directions == 1;
  return {
      {"cluster", clusters},    {"rows", slices_of(network.batch)},
      {"unroll", {1, 2, 3, 4}}, {"tile", tiles},
      {"exchange", {0, 1, 2}},  {"wavefront", stacks ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{0}}};
}

std::string recurrence_illegal(const Recurrence& network, const Device& device, const Genome& genome) {
  const StepPlan plan = plan_of(network, genome);
  if (gene(genome, "tile", 1) > plan.slice) return "tile is more than there is";
  if (plan.units * plan.rows > recurrence::most_sums) return "a thread sums for more than its group can finish";
  const StepLayout layout = layout_of(network, plan);
  if (layout.shared_bytes > device.shared_bytes) return "its states and weights do not fit in shared memory";
  if (layout.threads > most_threads) return "more threads than a block may have";
  if (layout.registers > layout.most_registers) return "its weights do not fit in registers";
  if (std::int64_t{plan.cells} * layout.slices > clusters_at_once(plan.cluster, device))
    return "more clusters than run at once";
  if (plan.units > 1 && plan.units > layout.block_units) return "unroll is more than there is";
  return {};
}

std::vector<Genome> recurrence_seeds(const Recurrence& network, const Device& device) {
  std::vector<std::pair<double, Genome>> found;
  const auto genes = recurrence_genes(network, device);
  const auto choices = [&](std::string_view name) { return find_gene(genes, name)->choices; };
  for (const auto wavefront : choices("wavefront")) {
    for (const auto cluster : choices("cluster")) {
      for (const auto rows : choices("rows")) {
        for (const auto unroll : choices("unroll")) {
          for (const auto tile : choices("tile")) {
            Genome genome{{"cluster", cluster}, {"rows", rows},  {"unroll", unroll},
                          {"tile", tile},       {"exchange", 0}, {"wavefront", wavefront}};
            if (!recurrence_illegal(network, device, genome).empty()) continue;
            const StepPlan plan = plan_of(network, genome);
            const StepLayout layout = layout_of(network, plan);
            // Cycles of a step: multiplications, loads of the state, weights from shared memory, and handing on.
            const double factors = plan.stacked ? 2 : 1;
            const double sums = static_cast<double>(layout.chunks) * 4 * plan.units * gates(network.cell) * plan.slice *
                                layout.warps * 32 * factors / 128;
            const double loads = static_cast<double>(layout.chunks) * plan.slice * layout.warps * 4 * factors / 4;
            const double turns = (plan.slice + plan.rows - 1) / plan.rows;
            const double weights = static_cast<double>(layout.chunks - layout.kept_chunks) * turns * plan.units *
                                   gates(network.cell) * layout.warps * 4;
            const double handing = 1200 + 20.0 * plan.cluster + static_cast<double>(layout.state_bytes) / 32;
            const double step = std::max(sums, loads + weights) + 100 * turns + handing;
            const double launches = plan.stacked ? 1 : network.layers;
            found.emplace_back(step * launches, std::move(genome));
          }
        }
      }
    }
  }
  return cheapest(std::move(found));
}

namespace {

class RecurrenceLaunches {
 public:
  RecurrenceLaunches(const Kernel& kernel, const Device& device, const Genome& genome)
      : kernel_(kernel), network_(*kernel.recurrence), device_(device), plan_(plan_of(network_, genome)) {}

  Result<Emitted> emit() {
    if (plan_.stacked) {
      PLANISH_CHECK(layers(0, network_.layers));
    } else {
      for (int layer = 0; layer < network_.layers; ++layer) PLANISH_CHECK(layers(layer, 1));
    }
    Emitted first = std::move(whole_.after.front());
    first.scratch_bytes = std::move(whole_.scratch_bytes);
    first.zeroed = std::move(whole_.zeroed);
    first.tensors = std::move(whole_.tensors);
    first.after.assign(std::make_move_iterator(whole_.after.begin() + 1), std::make_move_iterator(whole_.after.end()));
    return first;
  }

 private:
  using Kind = Argument::Kind;

  Argument place(std::int64_t bytes) {
    whole_.scratch_bytes.push_back(bytes);
    return {Kind::scratch, static_cast<int>(whole_.scratch_bytes.size()) - 1};
  }
  std::int64_t rows() const { return gates(network_.cell) * network_.hidden; }
  const Recurrence::Weights& weights(int layer, int direction) const {
    return network_.weights[static_cast<std::size_t>(layer * network_.directions + direction)];
  }

  /// All that these layers do: what the first of them reads, multiplied; then their steps.
  Status layers(int first, int count) {
    const bool last = first + count == network_.layers;
    Emitted step;
    StepTask task;
    task.biases = network_.weights[0].input_bias.input >= 0;
    const auto take = [&](const Recurrence::Operand& operand, std::vector<std::int64_t>& offsets) {
      step.args.push_back({Kind::input, operand.input});
      offsets.push_back(operand.offset);
    };
    for (int c = 0; c < plan_.cells; ++c) {
      const int layer = plan_.stacked ? first + c : first;
      const Recurrence::Weights& w = weights(layer, plan_.stacked ? 0 : c);
      const bool beforehand = !plan_.stacked || c == 0;
      if (beforehand) {
        PLANISH_TRY(const Argument made, multiply(layer, w));
        step.args.push_back(made);
      }
      take(w.hidden, task.hidden_weights);
      if (task.biases) take(w.hidden_bias, task.hidden_bias);
      if (beforehand) continue;
      take(w.input, task.input_weights);
      if (task.biases) take(w.input_bias, task.input_bias);
    }
    const std::int64_t cell = std::int64_t{first} * network_.directions;
    const auto state = [&](const Recurrence::Operand& operand, bool& there, Strides& at) {
      there = operand.input >= 0;
      if (!there) return;
      const auto& s = operand.strides;
      at = {operand.offset + cell * s[0], s[0], s[1], s[2]};
      step.args.push_back({Kind::input, operand.input});
    };
    const auto result = [&](const Recurrence::Result& to, std::int64_t offset, bool& there, Strides& at) {
      there = to.output >= 0;
      if (!there) return;
      const auto& s = to.strides;
      at = {offset * s[0], s[0], s[1], s[2]};
      step.args.push_back({Kind::output, to.output});
    };
    state(network_.h0, task.h0, task.h0_at);
    state(network_.c0, task.c0, task.c0_at);
    if (last) {
      result(network_.all, 0, task.all, task.all_at);
    } else {
      const std::int64_t width = network_.directions * network_.hidden;
      read_ = place(network_.steps * network_.batch * width * 4);
      step.args.push_back(read_);
      task.all = true;
      task.all_at = {0, network_.batch * width, width, 1};
    }
    result(network_.last_h, cell, task.last_h, task.last_h_at);
    result(network_.last_c, cell, task.last_c, task.last_c_at);
    const StepLayout layout = layout_of(network_, plan_);
    if (plan_.stacked) {
      step.args.push_back(place(layout.exchange_elements * 4));
      step.args.push_back(place(layout.flags * 4));
      whole_.zeroed.push_back(step.args.back().index);
    }
    step.language = "cuda";
    step.entry = "planish_kernel";
    step.source = step_kernel(network_, plan_, task);
    step.grid[0] = std::int64_t{plan_.cells} * layout.slices * plan_.cluster;
    step.block[0] = layout.threads;
    step.cluster[0] = plan_.cluster;
    step.shared = layout.shared_bytes;
    whole_.after.push_back(std::move(step));
    return {};
  }

  /// What a layer reads times the weights of one direction, and their bias: a product like any other.
  Result<Argument> multiply(int layer, const Recurrence::Weights& w) {
    const std::int64_t width = network_.width_of(layer);
    const auto value = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
      ir::Value out;
      out.dtype_name = "f32";
      out.shape = std::move(shape);
      out.strides = std::move(strides);
      return out;
    };
    const std::int64_t below = layer == 0 ? 0 : width;
    ir::Graph graph;
    graph.values = {
        value({network_.steps, network_.batch, width},
              layer == 0 ? network_.x.strides : std::vector<std::int64_t>{network_.batch * below, below, 1}),
        value({rows(), width}, {width, 1}), value({rows()}, {1}),
        value({network_.steps, network_.batch, rows()}, {network_.batch * rows(), rows(), 1})};
    ir::GraphNode node;
    node.op = "aten.linear.default";
    node.args = {{"input", ir::ValueRef{0}}, {"weight", ir::ValueRef{1}}};
    if (w.input_bias.input >= 0) node.args.push_back({"bias", ir::ValueRef{2}});
    node.outs = {3};
    graph.nodes.push_back(std::move(node));
    LowerLimits limits;
    limits.contractions = true;
    PLANISH_TRY(Kernel product, lower(graph, {true}, std::vector{3}, limits));
    std::vector<Argument> buffers;
    for (std::size_t i = 0; i < product.inputs.size(); ++i) {
      const int id = product.inputs[i].value;
      if (id == 0 && layer > 0) {
        buffers.push_back(read_);
        continue;
      }
      const Recurrence::Operand& from = id == 0 ? network_.x : id == 1 ? w.input : w.input_bias;
      buffers.push_back({Kind::input, from.input});
      product.inputs[i].storage_elements += from.offset;
      for (Node& load : product.nodes) {
        if (load.op == Op::load && load.input == static_cast<int>(i))
          load.index = ir::add(load.index, ir::IndexExpr::constant(from.offset), product.space);
      }
    }
    const Argument made = place(network_.steps * network_.batch * rows() * 4);
    PLANISH_CHECK(append_launches(product, device_, buffers, {made}, whole_));
    return made;
  }

  const Kernel& kernel_;
  const Recurrence& network_;
  const Device& device_;
  const StepPlan plan_;
  Emitted whole_;
  Argument read_;  ///< what the layers before have made
};

}  // namespace

Result<Emitted> emit_recurrence(const Kernel& kernel, const Device& device, const Genome& genome) {
  if (const auto why = recurrence_illegal(*kernel.recurrence, device, genome); !why.empty())
    return fail("illegal_genome", why);
  return RecurrenceLaunches(kernel, device, genome).emit();
}

}  // namespace planish::codegen
