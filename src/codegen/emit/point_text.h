#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/emit/expression.h"

/// CUDA C++ of a kernel's nodes at one point of its space, a scalar each. Pure; thread-safe.
namespace planish::codegen::printing {

/// All of the kernel's, in their order.
std::vector<int> all_variables(const Kernel& kernel);

/// Text at one point, whose coordinates are `d0`, `d1`, …
class PointText : public Speller {
 public:
  /// `read`: the function that loads. `wide`: coordinates are long long.
  PointText(const Kernel& kernel, std::string_view read, bool wide);

  /// The coordinates in these variables, the last fastest, of the point that `linear` counts.
  std::string coordinates(std::string_view linear, std::span<const int> variables) const;
  std::string store(std::size_t output) const;
  /// What node `id`, a `reduced`, is called.
  void call_result(int id, std::string name) { results_[id] = std::move(name); }

  std::string load(const Kernel& kernel, int id) override;
  std::string reduced(const Kernel& kernel, int id) override;
  std::string scanned(const Kernel&, int) override { return {}; }  // no sweep is at one point
  std::string index(const Kernel&, const ir::IndexExpr& e) override { return text(e); }

 private:
  std::string text(const ir::IndexExpr& e) const;

  const Kernel& kernel_;
  const bool wide_;
  const std::string read_;
  std::vector<std::string> names_;
  std::map<int, std::string> results_;
};

}  // namespace planish::codegen::printing
