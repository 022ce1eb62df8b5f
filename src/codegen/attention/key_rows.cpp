#include "codegen/attention/key_rows.h"

#include <algorithm>
#include <functional>

#include "codegen/variables.h"

namespace planish::codegen {
namespace {

using ir::IndexExpr;

std::unexpected<Error> no_rows(const char* why) {
  return fail("unsupported", why);
}

bool is_code(DType dtype) {
  return dtype == DType::i8 || dtype == DType::u8 || dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}

IndexExpr without(const IndexExpr& e, int variable, std::int64_t times, const ir::Space& space) {
  return ir::add(e, ir::scale(IndexExpr::variable(variable), -times), space);
}

class KeyRowsFinder {
 public:
  KeyRowsFinder(const Kernel& kernel, int line, const std::vector<int>& keys)
      : k_(kernel), line_(line), keys_(keys), moves_(variables_of(kernel)) {}

  Result<KeyRows> find(int factor, DType half) {
    half_ = half;
    out_.load = peel(factor);
    const Node& load = node(out_.load);
    if (load.op != Op::load || !load.where.empty()) return no_rows("keys or values that are computed");
    out_.input = load.input;
    out_.stored = k_.inputs[static_cast<std::size_t>(load.input)].dtype;
    if (out_.stored != half && !is_code(out_.stored)) return no_rows("keys or values of another type than queries");
    if (load.index.coefficient_of(line_) != 1) return no_rows("keys or values whose elements are no neighbours");
    out_.begin = without(load.index, line_, 1, k_.space);
    if (out_.begin.depends_on(line_) || moves(load.args, line_)) return no_rows("keys whose places no stride says");
    PLANISH_CHECK(load.args.empty() ? one_after_the_other() : looked_up(load));
    const std::int64_t whole = 16 / out_.element_bytes();
    if (out_.stride % whole != 0 || out_.stride < 0 || !is_multiple(out_.begin, whole) ||
        !std::ranges::all_of(load.strides, [&](std::int64_t stride) { return stride % whole == 0; }))
      return no_rows("keys or values that do not lie at multiples of 16 bytes");
    return std::move(out_);
  }

 private:
  const Node& node(int id) const { return k_.nodes[static_cast<std::size_t>(id)]; }
  bool moved(int id, int variable) const {
    return moves_[static_cast<std::size_t>(id)][static_cast<std::size_t>(variable)];
  }
  bool moves(const std::vector<int>& ids, int variable) const {
    return std::ranges::any_of(ids, [&](int id) { return moved(id, variable); });
  }

  /// What a factor is but for its scales. A rounding between them is left out: sums in fp32 hold more. A cast that may
  /// overflow is none, nor is a product of integers, which wraps.
  int peel(int id) {
    for (;;) {
      const Node& one = node(id);
      if (one.op == Op::cast && holds(one.dtype, node(one.args[0]).dtype)) {
        id = one.args[0];
        continue;
      }
      if ((one.op != Op::mul && one.op != Op::div) || !is_floating(one.dtype)) return id;
      const int side = moved(one.args[1], line_) ? 0 : 1;
      const int scale = one.args[static_cast<std::size_t>(side)];
      if (moved(scale, line_) || (one.op == Op::div && side == 0)) return id;
      out_.scales.push_back(
          {scale, one.op == Op::div, std::ranges::any_of(keys_, [&](int v) { return moved(scale, v); })});
      id = one.args[static_cast<std::size_t>(1 - side)];
    }
  }

  /// Whether numbers of the one are within the other's range; what is multiplied in f16 is within that anyway.
  bool holds(DType to, DType from) const {
    if (to == DType::f16 && half_ != DType::f16) return is_code(from) || from == DType::f16;
    if (to == DType::f16) return is_code(from) || from == DType::f16 || from == DType::f32;
    return (to == DType::f32 || to == DType::bf16) && (is_code(from) || is_half(from) || from == DType::f32);
  }

  Status one_after_the_other() {
    out_.stride = out_.begin.coefficient_of(keys_.back());
    std::int64_t times = out_.stride;
    for (std::size_t i = keys_.size(); i-- > 0;) {
      out_.begin = without(out_.begin, keys_[i], times, k_.space);
      times *= k_.space.extent(keys_[i]);
    }
    if (std::ranges::any_of(keys_, [&](int v) { return out_.begin.depends_on(v); }))
      return no_rows("keys whose places no stride says");
    return {};
  }

  /// Numbers of 8 bits that are integers have none that says "nowhere": a scale from the same place says it.
  Status looked_up(const Node& load) {
    const bool says = out_.stored != DType::i8 && out_.stored != DType::u8;
    if (!says && std::ranges::none_of(out_.scales, [&](const RowScale& scale) { return goes_along(scale, load); }))
      return no_rows("integers at looked-up places without a scale from there");
    const int last = keys_.back();
    const std::int64_t stride = out_.begin.coefficient_of(last);
    const bool runs = !moves(load.args, last) && !without(out_.begin, last, stride, k_.space).depends_on(last);
    // All of a unit's keys may follow from one: then whole tiles do.
    const std::int64_t extent = k_.space.extent(last);
    out_.together = !runs ? 1 : keys_.size() == 1 ? (extent + 15) / 16 * 16 : extent;
    out_.stride = runs ? stride : 0;
    return {};
  }

  bool goes_along(const RowScale& scale, const Node& load) const {
    int id = scale.node;
    while (node(id).op == Op::cast) id = node(id).args[0];
    return node(id).op == Op::load && node(id).args == load.args &&
           std::ranges::equal(node(id).limits, load.limits, std::less_equal{});
  }

  const Kernel& k_;
  const int line_;
  const std::vector<int>& keys_;
  const std::vector<std::vector<bool>> moves_;
  DType half_ = DType::bf16;
  KeyRows out_;
};

}  // namespace

bool is_multiple(const IndexExpr& index, std::int64_t whole) {
  return index.constant_term() % whole == 0 &&
         std::ranges::all_of(index.terms(), [&](const auto& term) { return term.coefficient % whole == 0; });
}

bool KeyRows::weighs() const {
  return std::ranges::any_of(scales, &RowScale::by_key);
}

Result<KeyRows> key_rows_of(const Kernel& kernel, int factor, int line, const std::vector<int>& keys, DType half) {
  return KeyRowsFinder(kernel, line, keys).find(factor, half);
}

}  // namespace planish::codegen
