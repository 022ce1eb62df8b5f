#include <cmath>

#include "codegen/attention/decode.h"
#include "codegen/lower/row_fold.h"

// Attention as one operator: only where Lowering::attend() was said.
namespace planish::codegen {
namespace {

using ir::IndexExpr;

/// softmax(q · kᵀ · scale + mask) · v, as torch defines it: a row whose keys are all masked gives zeros. A mask of
/// booleans says which keys count; with `is_causal` those do that are no later than the query.
class Attended {
 public:
  explicit Attended(const Site& s)
      : s_(s),
        query_(s.args.value("query")),
        key_(s.args.value("key")),
        value_(s.args.value("value")),
        mask_(s.args.value("attn_mask")) {}

  Result<int> value() {
    PLANISH_CHECK(check());
    const std::size_t rank = s_.coords.size();
    const auto& keys = s_.low.info(key_).shape;
    Coords kept(s_.coords.begin(), s_.coords.end() - 1);
    const std::int64_t count = keys[rank - 2], features = keys.back();
    PLANISH_TRY(const Coords key, s_.low.row(s_.coords, s_.low.info(s_.out_id).shape, std::span(&count, 1)));
    Coords at = kept;  // of a score
    at.push_back(key[0]);
    std::vector<std::int64_t> shape(s_.low.info(s_.out_id).shape);
    shape.back() = count;
    Reach reach = Reach::row;
    PLANISH_TRY(const Coords feature, s_.low.row(at, shape, std::span(&features, 1), &reach));
    s_.low.contracted();
    PLANISH_TRY(const int q, operand(query_, kept[rank - 2], feature[0]));
    PLANISH_TRY(const int k, operand(key_, key[0], feature[0]));
    Builder& b = s_.b;
    const double scale = s_.args.number("scale").value_or(1 / std::sqrt(static_cast<double>(features)));
    PLANISH_TRY(const int x, masked(b.mul(b.reduce(ReduceKind::sum, b.mul(q, k), DType::f32, -1, reach), scale), at));
    const int maximum = b.reduce(ReduceKind::max, x, DType::f32);
    const int shift = b.select(b.test(Op::eq, maximum, b.like(maximum, -INFINITY)), b.like(maximum, 0), maximum);
    const int weight = b.op(Op::exp, b.sub(x, shift));
    const int total = b.reduce(ReduceKind::sum, weight, DType::f32);
    const int divisor = b.select(b.test(Op::eq, total, b.like(total, 0)), b.like(total, 1), total);
    PLANISH_TRY(const int v, operand(value_, key[0], s_.coords.back()));
    return b.cast(b.reduce(ReduceKind::sum, b.mul(b.div(weight, divisor), v), DType::f32), s_.out_dtype);
  }

 private:
  Status check() const {
    if (!s_.low.attending()) return unsupported("attention beside others");
    if (s_.args.number("dropout_p").value_or(0) != 0) return unsupported("attention with dropout");
    const std::size_t rank = s_.coords.size();
    for (const int id : {query_, key_, value_}) {
      if (id < 0 || s_.low.info(id).shape.size() != rank || rank < 2)
        return unsupported("attention of unexpected rank");
      const DType dtype = s_.low.info(id).dtype;
      if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
        return unsupported("attention of another dtype than f32, f16 and bf16");
    }
    if (mask_ >= 0 && s_.low.info(mask_).shape.size() > rank) return unsupported("a mask of unexpected rank");
    return {};
  }

  /// An element of q, k or v. Batch dims of extent 1 are broadcast, and groups of heads share those that are fewer.
  Result<int> operand(int id, const IndexExpr& row, const IndexExpr& column) const {
    const auto& shape = s_.low.info(id).shape;
    const auto& whole = s_.low.info(s_.out_id).shape;
    Coords at;
    for (std::size_t d = 0; d + 2 < shape.size(); ++d) {
      if (shape[d] == 1 || shape[d] == whole[d]) {
        at.push_back(shape[d] == 1 ? IndexExpr() : s_.coords[d]);
      } else if (d + 3 == shape.size() && s_.args.flag("enable_gqa") && whole[d] % shape[d] == 0) {
        at.push_back(ir::floor_div(s_.coords[d], whole[d] / shape[d], s_.low.space()));
      } else {
        return unsupported("attention over batches that do not match");
      }
    }
    at.push_back(row);
    at.push_back(column);
    // Few queries are rounded as eager rounds them: whoever computes them multiplies them in 16 bits
    // (most_decode_rows).
    const bool few = id == query_ && shape[shape.size() - 2] <= most_decode_rows;
    return few ? s_.low.factor(id, std::move(at), DType::f32) : s_.low.value_as(id, std::move(at), DType::f32);
  }

  Result<int> masked(int x, const Coords& at) const {
    Builder& b = s_.b;
    if (s_.args.flag("is_causal")) {
      const int early = b.test(Op::ge, s_.low.index(at[at.size() - 2]), s_.low.index(at.back()));
      x = b.select(early, x, b.like(x, -INFINITY));
    }
    if (mask_ < 0) return x;
    const auto& shape = s_.low.info(mask_).shape;
    Coords own(at.end() - static_cast<std::ptrdiff_t>(shape.size()), at.end());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) own[d] = IndexExpr();
    }
    const bool flags = s_.low.info(mask_).dtype == DType::boolean;
    PLANISH_TRY(const int mask, s_.low.value_as(mask_, std::move(own), flags ? DType::boolean : DType::f32));
    return flags ? b.select(mask, x, b.like(x, -INFINITY)) : b.add(x, mask);
  }

  const Site& s_;
  int query_, key_, value_, mask_;
};

Result<int> scaled_dot_product_attention(const Site& s) {
  return Attended(s).value();
}

}  // namespace

const HandlerTable& attention_handlers() {
  static const HandlerTable table{{"scaled_dot_product_attention", scaled_dot_product_attention}};
  return table;
}

}  // namespace planish::codegen
