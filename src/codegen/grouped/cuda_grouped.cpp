#include "codegen/grouped/cuda_grouped.h"

#include <algorithm>
#include <utility>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/device_schedule.h"

namespace planish::codegen {

Result<DeviceGrouped> device_grouped_of(const Grouped& grouped) {
  const auto no = [](std::string why) { return fail("unsupported", std::move(why)); };
  PLANISH_TRY(contraction::Product product, contraction::product_of(grouped.plain));
  if (auto why = contraction::device_product_lacks(product); !why.empty()) {
    if (!product.eight || !contraction::warpgroup_product_lacks(*product.eight).empty()) return no(std::move(why));
    product = contraction::Product(*product.eight);
  }
  const Node& weights = grouped.plain.nodes[static_cast<std::size_t>(grouped.weights)];
  if (product.direct_b->input != weights.input || product.direct_a->input == weights.input)
    return no("results whose memory runs along rows");
  if (!product.c.batch.empty() || product.c.m.size() != 1) return no("rows in several dims");
  const std::int64_t unit = 16 / size_of(weights.dtype);
  if (grouped.stride % unit != 0 || grouped.stride < 0)
    return no("matrices that do not begin at multiples of 16 bytes");
  constexpr std::int64_t most_groups = 2048;  // their table lies in shared memory
  if (grouped.ends.count > most_groups) return no("more groups than shared memory has room for");
  DeviceGrouped out{std::move(product), {}};
  out.groups = {.input = grouped.ends.input,
                .first = grouped.ends.first,
                .step = grouped.ends.stride,
                .count = grouped.ends.count,
                .stride = grouped.stride,
                .strides = {}};
  // Scales that multiply the sum are nodes behind it.
  const auto sum = std::ranges::find(grouped.plain.nodes, Op::reduced, &Node::op) - grouped.plain.nodes.begin();
  const auto more = static_cast<int>(out.product.kernel.nodes.size() - grouped.plain.nodes.size());
  for (const GroupLoad& one : grouped.others)
    out.groups.strides.emplace(one.node > sum ? one.node + more : one.node, one.stride);
  return out;
}

std::vector<Gene> device_grouped_genes(const DeviceGrouped& grouped, const Device& device) {
  return contraction::device_genes(grouped.product, device, &grouped.groups);
}

std::string device_grouped_illegal(const DeviceGrouped& grouped, const Device& device, const Genome& genome) {
  return contraction::device_illegal(grouped.product, device, genome, &grouped.groups);
}

std::vector<Genome> device_grouped_seeds(const DeviceGrouped& grouped, const Device& device) {
  return contraction::device_seeds(grouped.product, device, &grouped.groups);
}

Result<Emitted> emit_device_grouped(const DeviceGrouped& grouped, const Device& device, const Genome& genome) {
  if (const auto why = device_grouped_illegal(grouped, device, genome); !why.empty())
    return fail("illegal_genome", why);
  return contraction::emit_device_product(grouped.product, contraction::device_tiling_of(genome), device,
                                          &grouped.groups);
}

}  // namespace planish::codegen
