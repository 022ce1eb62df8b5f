#include "codegen/attention/cuda_attention.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "codegen/attention/kernel_printer.h"
#include "codegen/attention/plan.h"
#include "codegen/cheapest.h"
#include "codegen/contraction/contraction.h"
#include "codegen/contraction/pack.h"

namespace planish::codegen {
namespace {

using attention::Layout;
using attention::Tiling;
using contraction::Operand;

Tiling plan_of(const Genome& genome) {
  const auto value = [&](GeneName name, std::int64_t otherwise) {
    return static_cast<int>(gene(genome, name, otherwise));
  };
  Tiling plan;
  plan.consumers = value("tile_m", 128) / 64;
  plan.keys = value("tile_n", 64);
  plan.stages = value("stages", 2);
  plan.blocks = value("min_blocks", 1);
  return plan;
}

}  // namespace

std::string attention_lacks(const Kernel& kernel, const Device& device) {
  if (tensor_cores(device) != TensorCores::warpgroups) return "the device has no wgmma";
  if (kernel.anchor != Anchor::attention) return "not attention";
  const auto parts = attention_of(kernel);
  if (!parts) return parts.error().message;
  if (parts->scores.m.empty()) return "attention of a vector";
  if (std::ranges::any_of(kernel.nodes, gathers)) return "places known at run time alone";
  if (attention_seeds(*parts, device).empty()) return "no block has room for its tiles";
  return {};
}

std::vector<Gene> attention_genes(const Attention&, const Device&) {
  return {{"tile_m", {64, 128, 192}},
          {"tile_n", {16, 32, 48, 64, 80, 96, 112, 128}},
          {"stages", {1, 2, 3, 4}},
          {"min_blocks", {1, 2, 3}}};
}

std::string attention_illegal(const Attention& parts, const Device& device, const Genome& genome) {
  const Tiling plan = plan_of(genome);
  if (const Status fits = attention::check(parts, plan, device.shared_bytes); !fits) return fits.error().message;
  // Zeros beyond what there is.
  if (plan.consumers > 1 && parts.scores.rows <= 64 * (plan.consumers - 1)) return "tile_m is more than there is";
  if (plan.keys > 16 && parts.scores.columns <= plan.keys - 16) return "tile_n is more than there is";
  return {};
}

std::vector<Genome> attention_seeds(const Attention& parts, const Device& device) {
  std::vector<std::pair<double, Genome>> found;
  for (const int consumers : {2, 3, 1}) {
    for (const int keys : {64, 96, 80, 128, 48, 32, 16}) {
      for (const int blocks : {1, 2, 3}) {
        for (const int stages : {2, 3, 1}) {
          Genome genome{{"tile_m", 64 * consumers}, {"tile_n", keys}, {"stages", stages}, {"min_blocks", blocks}};
          if (!attention_illegal(parts, device, genome).empty()) continue;
          const Layout layout = attention::layout_of(parts, plan_of(genome));
          // One warpgroup multiplies while others turn scores into weights. The weights are of what was measured on an
          // H200 (docs/results/contraction.md).
          const int groups = consumers * blocks;
          const auto count =
              static_cast<double>(parts.scores.batches * (layout.rows / layout.scores.bm)) * layout.column_blocks;
          const double turns = std::ceil(count / (static_cast<double>(device.sms) * blocks));
          const double key = 2 + 3.0 * (layout.features + layout.columns) / 64;
          const double tile = layout.scores.bm * (keys * key + 400);
          const double tiles = static_cast<double>(layout.keys) / keys;
          const double alone = groups == 1 ? 1.5 : groups == 2 ? 1.0 : 0.85;
          const double waits = stages == 1 ? 1.18 : stages == 3 ? 1.001 : 1.0;
          found.emplace_back(turns * blocks * tiles * tile * alone * waits, std::move(genome));
        }
      }
    }
  }
  return cheapest(std::move(found));
}

namespace {

/// The launches, one after the other, and the scratch memory through which they hand values on.
class AttentionLaunches {
 public:
  AttentionLaunches(const Kernel& kernel, const Attention& parts, const Genome& genome)
      : kernel_(kernel), parts_(parts), plan_(plan_of(genome)), layout_(attention::layout_of(parts, plan_)) {}

  Emitted emit() {
    const std::int64_t columns = std::int64_t{layout_.columns} * layout_.column_blocks;
    pack(parts_.scores, Operand::a, layout_.scores, layout_.rows, layout_.features);
    pack(parts_.scores, Operand::b, layout_.scores, layout_.keys, layout_.features);
    pack(parts_.values, Operand::b, layout_.values, columns, layout_.keys);
    const auto main = attention::print_kernel(kernel_, parts_, plan_);
    Emitted& one = launches_.emplace_back();
    one.source = main.source;
    one.grid[0] = main.blocks;
    one.block[0] = main.threads;
    one.shared = main.shared_bytes;
    one.args = std::move(packed_);
    one.args.insert(one.args.end(), exponents_.begin(), exponents_.end());
    for (const int input : main.inputs) one.args.push_back({Argument::Kind::input, input});
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
      one.args.push_back({Argument::Kind::output, static_cast<int>(o)});
    for (Emitted& each : launches_) {
      each.language = "cuda";
      each.entry = "planish_kernel";
    }
    Emitted whole = std::move(launches_.front());
    whole.after.assign(std::make_move_iterator(launches_.begin() + 1), std::make_move_iterator(launches_.end()));
    whole.scratch_bytes = std::move(scratch_);
    return whole;
  }

 private:
  using Argument = Emitted::Argument;

  Argument place(std::int64_t bytes) {
    scratch_.push_back(bytes);
    return {Argument::Kind::scratch, static_cast<int>(scratch_.size()) - 1};
  }

  void pack(const Contraction& c, Operand operand, const contraction::TilePlan& plan, std::int64_t rows,
            std::int64_t depth) {
    const auto packing = contraction::print_packing(kernel_, c, operand, plan, rows, depth);
    Emitted& one = launches_.emplace_back();
    one.source = packing.source;
    one.grid[0] = packing.blocks;
    one.block[0] = packing.threads;
    one.cluster[0] = packing.cluster;
    for (const int input : packing.inputs) one.args.push_back({Argument::Kind::input, input});
    for (int part = 0; part < contraction::parts(plan); ++part) {
      packed_.push_back(place(packing.part_bytes));
      one.args.push_back(packed_.back());
    }
    exponents_.push_back(place(packing.exponents * 4));
    one.args.push_back(exponents_.back());
  }

  const Kernel& kernel_;
  const Attention& parts_;
  const Tiling plan_;
  const Layout layout_;
  std::vector<std::int64_t> scratch_;
  std::vector<Argument> packed_, exponents_;
  std::vector<Emitted> launches_;
};

}  // namespace

Result<Emitted> emit_attention(const Kernel& kernel, const Attention& parts, const Device& device,
                               const Genome& genome) {
  if (const auto why = attention_illegal(parts, device, genome); !why.empty()) return fail("illegal_genome", why);
  return AttentionLaunches(kernel, parts, genome).emit();
}

}  // namespace planish::codegen
