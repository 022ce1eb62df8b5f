#include "codegen/order/order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "codegen/cost.h"
#include "codegen/order/cpp_order.h"
#include "codegen/order/cuda_order.h"
#include "codegen/templates/common.h"

namespace planish::codegen {
namespace {

class OrderOnCuda : public Schedule {
 public:
  OrderOnCuda(const Kernel& kernel, RowOrder order, const Device& device)
      : kernel_(kernel), order_(std::move(order)), device_(device) {}
  std::vector<Gene> genes() const override { return cuda_order_genes(order_); }
  std::string illegal(const Genome& genome) const override { return cuda_order_illegal(order_, device_, genome); }
  std::vector<Genome> seeds() const override { return cuda_order_seeds(order_, device_); }
  Outline outline(const Genome& genome) const override {
    const CudaOrderPlan plan = cuda_order_plan(order_, genome);
    Outline out;
    out.threads = plan.threads;
    out.blocks = static_cast<double>(plan.blocks);
    out.shared_bytes = static_cast<double>(plan.shared);
    out.registers = plan.registers;
    // Of a row that is held as a whole all is asked for at once; of a slice a step, half of what the buffer holds.
    const double step = static_cast<double>(plan.threads) * plan.each / 2;
    const double span = static_cast<double>(order_.length) / std::max(plan.slices, 1);
    out.trips = plan.slices == 0 ? 1 : std::max(1.0, std::ceil(span / step));
    double bytes = 0;
    for (const Node& node : kernel_.nodes) {
      if (node.op == Op::load) bytes += size_of(kernel_.inputs[static_cast<std::size_t>(node.input)].dtype);
    }
    out.flight_bytes = bytes * (plan.slices == 0 ? 2 * step : step);
    return out;
  }
  Result<Emitted> emit(const Genome& genome) const override {
    return emit_cuda_order(kernel_, order_, device_, genome);
  }

 private:
  const Kernel& kernel_;
  const RowOrder order_;
  const Device& device_;
};

class OrderOnProcessor : public Schedule {
 public:
  OrderOnProcessor(const Kernel& kernel, RowOrder order, const Device& device)
      : kernel_(kernel), order_(std::move(order)), device_(device) {}
  std::vector<Gene> genes() const override { return cpp_order_genes(order_, device_); }
  std::string illegal(const Genome&) const override { return {}; }
  std::vector<Genome> seeds() const override { return cpp_order_seeds(order_, device_); }
  Outline outline(const Genome& genome) const override {
    Outline out;
    out.threads = static_cast<double>(gene(genome, "threads", 1));
    return out;
  }
  Result<Emitted> emit(const Genome& genome) const override { return emit_cpp_order(kernel_, order_, device_, genome); }

 private:
  const Kernel& kernel_;
  const RowOrder order_;
  const Device& device_;
};

/// Elements of rows by their rank.
class OrderTemplate : public Template {
 public:
  std::string_view name() const override { return "order"; }
  bool takes(const Kernel& kernel) const override { return kernel.anchor == Anchor::order; }
  bool streams() const override { return false; }
  /// Each element is compared as often as an order of its row takes, not once for every rank.
  Cost cost(const Kernel& kernel) const override {
    Cost total = streaming_cost(kernel);
    const auto order = order_of(kernel);
    if (!order) return total;
    const double points = static_cast<double>(kernel.outer_extent()) * static_cast<double>(kernel.inner_extent());
    total.flops -= static_cast<double>(kernel.reductions.size()) * points;
    const double compared = static_cast<double>(std::bit_width(static_cast<std::uint64_t>(order->ranks()))) +
                            static_cast<double>(order->folds.size());
    total.flops += static_cast<double>(order->rows) * static_cast<double>(order->length) * compared;
    return total;
  }
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    auto order = order_of(kernel);
    if (!order) return std::make_unique<NoSchedule>("an order", order.error().message);
    if (cuda_order_seeds(*order, device).empty())
      return std::make_unique<NoSchedule>("an order", "no block has room for its rows");
    return std::make_unique<OrderOnCuda>(kernel, std::move(*order), device);
  }
  std::unique_ptr<const Schedule> triton(const Kernel&, const Device&, const std::vector<Gene>&) const override {
    return nullptr;
  }
  std::unique_ptr<const Schedule> cpp(const Kernel& kernel, const Device& device) const override {
    auto order = order_of(kernel);
    if (!order) return std::make_unique<NoSchedule>("an order", order.error().message);
    return std::make_unique<OrderOnProcessor>(kernel, std::move(*order), device);
  }
};

}  // namespace

const Template& order_template() {
  static const OrderTemplate kind;
  return kind;
}

}  // namespace planish::codegen
