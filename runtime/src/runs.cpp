#include "runs.h"

#include <algorithm>

namespace planish::rt {

Runs dense_runs(const Buffer& a, const Buffer& b) {
  struct Dim {
    std::int64_t size, a, b;
  };
  Runs out;
  if (a.elements == 0) return out;
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < a.shape.size(); ++i) {
    if (a.shape[i] > 1 && (a.strides[i] != 0 || b.strides[i] != 0))
      dims.push_back({a.shape[i], a.strides[i], b.strides[i]});
  }
  std::stable_sort(dims.begin(), dims.end(), [](const Dim& x, const Dim& y) { return x.a > y.a; });
  out.elements = 1;
  while (!dims.empty() && dims.back().a == out.elements && dims.back().b == out.elements) {
    out.elements *= dims.back().size;
    dims.pop_back();
  }
  out.count = 1;
  for (const Dim& d : dims) {
    out.count *= d.size;
    out.shape.push_back(d.size);
    out.a.push_back(d.a);
    out.b.push_back(d.b);
  }
  return out;
}

}  // namespace planish::rt
