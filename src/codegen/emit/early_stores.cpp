#include "codegen/emit/early_stores.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "codegen/emit/expression.h"

namespace planish::codegen::printing {
namespace {

/// What sweeps load, as they are given more to do.
class Loads {
 public:
  Loads(const Kernel& kernel, const std::vector<Place>& places, int sweeps)
      : kernel_(kernel), places_(places), loads_(static_cast<std::size_t>(sweeps)) {}

  void add(int sweep, int root) {
    for (const int load : of(root)) loads_[static_cast<std::size_t>(sweep)].insert(load);
  }
  /// How many more loads there would be.
  std::ptrdiff_t more(int sweep, int root) const {
    const auto& has = loads_[static_cast<std::size_t>(sweep)];
    return std::ranges::count_if(of(root), [&](int load) { return !has.contains(load); });
  }

 private:
  std::vector<int> of(int root) const {
    const int roots[] = {root};
    std::vector<int> out;
    for (const int n : closure(kernel_, roots, [](int) { return false; })) {
      if (kernel_.nodes[static_cast<std::size_t>(n)].op == Op::load && places_[static_cast<std::size_t>(n)].inner)
        out.push_back(n);
    }
    return out;
  }

  const Kernel& kernel_;
  const std::vector<Place>& places_;
  std::vector<std::set<int>> loads_;
};

}  // namespace

std::vector<int> store_sweeps(const Kernel& kernel, const std::function<bool(int phase)>& folds) {
  const int last = phases(kernel);
  std::vector<int> out;
  for (const Output& output : kernel.outputs)
    out.push_back(output.per_row || output.per_column || output.per_part ? -1 : last);
  if (kernel.anchor != Anchor::row) return out;
  const auto places = place(kernel);
  const auto known = [&](const Output& output) { return places[static_cast<std::size_t>(output.node)].phase; };
  if (std::ranges::none_of(kernel.outputs, [&](const Output& o) { return !o.per_row && known(o) < last; })) return out;
  Loads loads(kernel, places, last + 1);
  for (const Reduction& reduction : kernel.reductions) {
    loads.add(reduction.phase, reduction.arg);
    if (reduction.at >= 0) loads.add(reduction.phase, reduction.at);
  }
  for (std::size_t o = 0; o < out.size(); ++o) {
    if (out[o] == last && known(kernel.outputs[o]) == last) loads.add(last, kernel.outputs[o].node);
  }
  for (std::size_t o = 0; o < out.size(); ++o) {
    const Output& output = kernel.outputs[o];
    if (out[o] < 0 || known(output) == last) continue;
    std::ptrdiff_t least = loads.more(last, output.node);
    for (int s = known(output); s < last; ++s) {
      const std::ptrdiff_t more = folds(s) ? loads.more(s, output.node) : least;
      if (more < least) least = more, out[o] = s;
    }
    loads.add(out[o], output.node);
  }
  return out;
}

std::vector<int> store_sweeps(const Kernel& kernel) {
  return store_sweeps(kernel, [](int) { return true; });
}

bool stores_last(const Kernel& kernel) {
  return std::ranges::any_of(store_sweeps(kernel), [last = phases(kernel)](int sweep) { return sweep == last; });
}

}  // namespace planish::codegen::printing
