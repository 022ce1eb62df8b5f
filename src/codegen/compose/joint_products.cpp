#include "codegen/compose/joint_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/compose/kernels.h"
#include "codegen/compose/parameters.h"
#include "codegen/skinny/cuda_skinny.h"

namespace planish::codegen {
namespace {

using program::Launch;

/// A product's text, in its parts.
struct ProductText {
  std::string_view common, policy;
  std::vector<Parameter> parameters;
};

std::optional<ProductText> text_of(std::string_view source) {
  const std::size_t policy = source.find(skinny::begin_of_policy), end = source.find(skinny::begin_of_entry);
  if (policy == std::string_view::npos || end == std::string_view::npos) return std::nullopt;
  constexpr std::string_view name = "planish_kernel(";
  const std::size_t from = source.find(name, end), to = source.find(") {", from);
  if (from == std::string_view::npos || to == std::string_view::npos) return std::nullopt;
  ProductText out{source.substr(0, policy), source.substr(policy, end - policy), {}};
  out.parameters = parameters_of(source.substr(from + name.size(), to - from - name.size()));
  return out;
}

class Joiner {
 public:
  Joiner(program::Program& program, const std::map<int, SharedWork>& work) : program_(program), work_(work) {}

  void join() {
    std::vector<program::Step> steps;
    for (auto& step : program_.steps) {
      auto* const next = std::get_if<Launch>(&step);
      auto* const last = steps.empty() ? nullptr : std::get_if<Launch>(&steps.back());
      if (next != nullptr && last != nullptr) {
        if (auto both = joint(*last, *next)) {
          steps.back() = std::move(*both);
          continue;
        }
      }
      steps.push_back(std::move(step));
    }
    program_.steps = std::move(steps);
  }

 private:
  /// One kernel of two.
  struct Joint {
    int kernel = -1;
    std::int64_t threads = 0, shared = 0;
  };

  std::optional<Launch> joint(const Launch& a, const Launch& b) {
    const auto first = work_.find(a.kernel), second = work_.find(b.kernel);
    if (first == work_.end() || second == work_.end() || a.grid != b.grid || a.grid[0] < 2 || !a.programmatic ||
        !b.programmatic || !is_free_of(a, b) || !is_free_of(b, a))
      return std::nullopt;
    // Layers alike have the same kernels.
    const auto [known, first_time] = joint_.try_emplace({a.kernel, b.kernel});
    if (first_time) known->second = together(a, b, first->second, second->second);
    if (!known->second) return std::nullopt;
    Launch out = a;
    out.kernel = known->second->kernel;
    out.block[0] = known->second->threads;
    out.shared = known->second->shared;
    out.args.insert(out.args.end(), b.args.begin(), b.args.end());
    return out;
  }

  /// Both kernels as one, with the threads of one of them: more, if they fit.
  std::optional<Joint> together(const Launch& a, const Launch& b, const SharedWork& first, const SharedWork& second) {
    const auto blocks = static_cast<double>(a.grid[0]);
    const double wanted = blocks * first.work / (first.work + second.work);
    const auto share = static_cast<std::int64_t>(std::llround(std::clamp(wanted, 1.0, blocks - 1)));
    for (const std::int64_t threads : std::set<std::int64_t, std::greater<>>{a.block[0], b.block[0]}) {
      const auto mine = first.shared_by(share, threads), others = second.shared_by(a.grid[0] - share, threads);
      if (!mine || !others) continue;
      const auto one = text_of(mine->source), other = text_of(others->source);
      if (!one || !other || one->common != other->common || one->parameters.size() != a.args.size() ||
          other->parameters.size() != b.args.size())
        return std::nullopt;
      const int kernel = kernel_number(program_, {"cuda", "planish_kernel", {}, text(*one, *other, share)});
      return Joint{.kernel = kernel, .threads = threads, .shared = std::max(mine->bytes, others->bytes)};
    }
    return std::nullopt;
  }

  /// Independence of the second from the first: it touches nothing that the first writes.
  bool is_free_of(const Launch& first, const Launch& second) const {
    const auto kernel = [this](const Launch& launch) -> const program::KernelSource& {
      return program_.kernels[static_cast<std::size_t>(launch.kernel)];
    };
    const std::set<int> touched = buffers_of(second, kernel(second), false);
    return std::ranges::none_of(buffers_of(first, kernel(first), true),
                                [&](int buffer) { return touched.contains(buffer); });
  }

  static std::string text(const ProductText& a, const ProductText& b, std::int64_t share) {
    std::string out(a.common), parameters, given[2];
    std::size_t count = 0;
    int number = 0;
    for (const ProductText* one : {&a, &b}) {
      out += fmt::format("namespace product{} {{\n{}}}\n", number, one->policy);
      for (const Parameter& parameter : one->parameters) {
        parameters += fmt::format("{}{} a{}", count == 0 ? "" : ", ", parameter.type, count);
        given[number] += fmt::format("{}a{}", given[number].empty() ? "" : ", ", count++);
      }
      ++number;
    }
    constexpr std::string_view resident =
        "(product0::Policy::resident > product1::Policy::resident ? product0::Policy::resident : "
        "product1::Policy::resident)";
    out += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__(product0::Policy::warps * 32, {}) planish_kernel({}) {{\n"
        "  extern __shared__ __align__(128) unsigned char memory[];\n",
        resident, parameters);
    out += fmt::format(
        "  if (blockIdx.x < {0}) {{\n    const product0::Policy::Args args{{{1}}};\n"
        "    skinny_product<product0::Policy>(args, memory, blockIdx.x, {0});\n  }} else {{\n"
        "    const product1::Policy::Args args{{{2}}};\n"
        "    skinny_product<product1::Policy>(args, memory, blockIdx.x - {0}, gridDim.x - {0});\n  }}\n}}\n",
        share, given[0], given[1]);
    return out;
  }

  program::Program& program_;
  const std::map<int, SharedWork>& work_;
  std::map<std::pair<int, int>, std::optional<Joint>> joint_;  ///< by both kernels' numbers
};

}  // namespace

void join_products(program::Program& program, const std::map<int, SharedWork>& work) {
  if (work.size() > 1) Joiner(program, work).join();
}

}  // namespace planish::codegen
