#include "codegen/partition/eight_bit_groups.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "codegen/contraction/device_product.h"
#include "codegen/grouped/cuda_grouped.h"
#include "codegen/lower/lower.h"

namespace planish::codegen {
namespace {

using Nodes = std::set<int>;

constexpr std::int64_t times_recomputed = 16;  ///< of what is so much smaller than the results

class EightBitGrouper {
 public:
  EightBitGrouper(const ir::Graph& graph, const Usage& usage, const LowerLimits& limits, const Nodes& taken)
      : graph_(graph), usage_(usage), limits_(limits), taken_(taken) {}

  std::vector<KernelGroup> all() {
    Nodes products;
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      if (is_free(n) && contracts(node(n).op) && node(n).outs.size() == 1 && node(n).outs[0]) products.insert(n);
    }
    std::vector<KernelGroup> found;
    for (const int product : products) {
      if (auto group = group_of(product, products)) found.push_back(std::move(*group));
    }
    drop_shared(found);
    return found;
  }

 private:
  const ir::GraphNode& node(int n) const { return graph_.nodes[static_cast<std::size_t>(n)]; }
  const ir::Value& value(int v) const { return graph_.values[static_cast<std::size_t>(v)]; }
  bool is_free(int n) const {
    const auto at = static_cast<std::size_t>(n);
    return usage_.needed[at] && !usage_.inlined[at] && !taken_.contains(n);
  }
  bool is_element_wise(int n) const { return is_free(n) && classify(node(n).op) == OpClass::pointwise; }

  /// What makes the nodes' operands for these readers alone.
  Nodes with_makers(Nodes nodes, const Nodes& readers, const std::function<bool(int)>& may) const {
    Nodes made;
    for (const int n : nodes) {
      for (const int v : usage_.sources(graph_, n)) made.merge(makers_of(graph_, usage_, v, readers, may));
    }
    nodes.merge(made);
    return nodes;
  }

  /// The product and what follows it, one reader after the other, up to a value of 16 bits: the last; nothing where
  /// none is.
  std::optional<std::vector<int>> up_to_16_bits(int product) const {
    std::vector<int> chain{product};
    for (;;) {
      const int out = *node(chain.back()).outs[0];
      const auto at = static_cast<std::size_t>(out);
      if (is_half(value(out).dtype)) return chain;
      if (!usage_.shown[at].empty() || usage_.users[at].size() != 1) return std::nullopt;
      const int reader = *usage_.users[at].begin();
      if (!is_element_wise(reader) || node(reader).outs.size() != 1 || !node(reader).outs[0]) return std::nullopt;
      chain.push_back(reader);
    }
  }

  /// Chains of a product of integers, whose sums are exact, and of its readers, one after the other, as long as each
  /// reads nothing else as large: one chain for each end, the one that stores least first, then the longest.
  std::vector<std::vector<int>> ends_of_integers(int product) const {
    std::vector<std::vector<int>> found;
    std::vector<int> chain{product};
    const std::int64_t results = value(*node(product).outs[0]).elements();
    for (;;) {
      const int out = *node(chain.back()).outs[0];
      const auto at = static_cast<std::size_t>(out);
      const DType dtype = value(out).dtype;
      if (is_half(dtype) || dtype == DType::f32 || dtype == DType::i32) found.push_back(chain);
      if (!usage_.shown[at].empty() || usage_.users[at].size() != 1) break;
      const int reader = *usage_.users[at].begin();
      if (!is_element_wise(reader) || node(reader).outs.size() != 1 || !node(reader).outs[0]) break;
      const auto sources = usage_.sources(graph_, reader);
      if (value(*node(reader).outs[0]).elements() != results || std::ranges::any_of(sources, [&](int source) {
            return source != out && value(source).elements() * times_recomputed > results;
          }))
        break;
      chain.push_back(reader);
    }
    std::ranges::stable_sort(found, {}, [&](const std::vector<int>& end) {
      return std::pair(size_of(value(*node(end.back()).outs[0]).dtype), -static_cast<std::int64_t>(end.size()));
    });
    return found;
  }

  std::optional<KernelGroup> group_of(int product, const Nodes& products) const {
    if (value(*node(product).outs[0]).dtype == DType::i32) {
      for (const std::vector<int>& chain : ends_of_integers(product)) {
        if (auto group = group_with(chain, products)) return group;
      }
      return std::nullopt;
    }
    const auto chain = up_to_16_bits(product);
    return chain ? group_with(*chain, products) : std::nullopt;
  }

  /// The group of a chain, whose first node is the product: what makes the factors, and the vectors that readers read.
  std::optional<KernelGroup> group_with(const std::vector<int>& chain, const Nodes& products) const {
    const int product = chain.front();
    const std::int64_t results = value(*node(chain.back()).outs[0]).elements();
    // Nodes that round to 8 bits make a factor, and are no part of it; nor are ends of groups.
    Nodes nodes = with_makers({product}, products, [&](int n) {
      return is_element_wise(n) && std::ranges::all_of(node(n).outs, [&](const std::optional<int>& out) {
               return !out || (is_floating(value(*out).dtype) && size_of(value(*out).dtype) > 1);
             });
    });
    // Vectors that the results are scaled by, or that are added, are computed again by each tile.
    const Nodes readers(chain.begin(), chain.end());
    const Nodes behind = with_makers({chain.begin() + 1, chain.end()}, readers, [&](int n) {
      return is_element_wise(n) && std::ranges::all_of(node(n).outs, [&](const std::optional<int>& out) {
               return !out || value(*out).elements() * times_recomputed <= results;
             });
    });
    nodes.insert(product);
    nodes.insert(behind.begin(), behind.end());
    if (static_cast<int>(nodes.size()) > limits_.max_nodes) return std::nullopt;
    std::vector<bool> inside = usage_.inlined;
    for (const int n : nodes) inside[static_cast<std::size_t>(n)] = true;
    const std::vector<int> outputs{*node(chain.back()).outs[0]};
    auto kernel = lower(graph_, inside, outputs, limits_);
    if (!kernel || kernel->anchor != Anchor::contraction || !is_on_device_file(*kernel)) return std::nullopt;
    return KernelGroup{std::move(nodes), std::move(*kernel)};
  }

  /// True if the device file multiplies the factors as they are.
  static bool is_on_device_file(const Kernel& kernel) {
    if (const auto grouped = grouped_of(kernel)) {
      const auto device = device_grouped_of(*grouped);
      return device && device->product.bits;
    }
    const auto product = contraction::product_of(kernel);
    const contraction::Product* const way = product ? contraction::warpgroup_way(*product) : nullptr;
    return way != nullptr && way->bits;
  }

  /// Without the groups whose nodes somebody else reads, a product that is none of 8 bits among them.
  void drop_shared(std::vector<KernelGroup>& found) const {
    const auto is_shared = [&](const KernelGroup& group) {
      const int last = *group.nodes.rbegin();
      return std::ranges::any_of(group.nodes, [&](int n) {
        return n != last && std::ranges::any_of(node(n).outs, [&](const std::optional<int>& out) {
                 return out && std::ranges::any_of(usage_.users[static_cast<std::size_t>(*out)], [&](int user) {
                          return std::ranges::none_of(found,
                                                      [&](const KernelGroup& one) { return one.nodes.contains(user); });
                        });
               });
      });
    };
    for (auto shared = std::ranges::find_if(found, is_shared); shared != found.end();
         shared = std::ranges::find_if(found, is_shared))
      found.erase(shared);
  }

  const ir::Graph& graph_;
  const Usage& usage_;
  const LowerLimits& limits_;
  const Nodes& taken_;
};

}  // namespace

std::vector<KernelGroup> eight_bit_groups(const ir::Graph& graph, const Usage& usage, const LowerLimits& limits,
                                          const std::set<int>& taken) {
  if (limits.narrow_products) return {};  // no warpgroups
  return EightBitGrouper(graph, usage, limits, taken).all();
}

}  // namespace planish::codegen
