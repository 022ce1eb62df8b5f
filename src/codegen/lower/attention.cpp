#include <algorithm>
#include <cmath>

#include "codegen/attention/decode.h"
#include "codegen/lower/ends.h"
#include "codegen/lower/indexed.h"
#include "codegen/lower/row_fold.h"

// Attention as one operator: only where Lowering::attend() was said.
namespace planish::codegen {
namespace {

using ir::IndexExpr;

/// What values are weighed by, from scores of a row's keys: a row whose keys all have the score -inf gives zeros.
int shares(Builder& b, int x) {
  const int maximum = b.reduce(ReduceKind::max, x, DType::f32);
  const int shift = b.select(b.test(Op::eq, maximum, b.like(maximum, -INFINITY)), b.like(maximum, 0), maximum);
  const int weight = b.op(Op::exp, b.sub(x, shift));
  const int total = b.reduce(ReduceKind::sum, weight, DType::f32);
  return b.div(weight, b.select(b.test(Op::eq, total, b.like(total, 0)), b.like(total, 1), total));
}

double scale_of(const Site& s, std::int64_t features) {
  return s.args.number("scale").value_or(1 / std::sqrt(static_cast<double>(features)));
}

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
    const int product = b.reduce(ReduceKind::sum, b.mul(q, k), DType::f32, -1, reach);
    PLANISH_TRY(const int x, masked(b.mul(product, scale_of(s_, features)), at));
    const int weight = shares(b, x);
    PLANISH_TRY(const int v, operand(value_, key[0], s_.coords.back()));
    return b.cast(b.reduce(ReduceKind::sum, b.mul(weight, v), DType::f32), s_.out_dtype);
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

/// Attention of sequences that lie one after the other, queries [tokens, heads, features], whose offsets are tensors:
/// of all keys those of the query's sequence count. Places are counted from a sequence's last query and its last key. A
/// row behind the last sequence sees no key. Keys are [tokens, heads, features], too, or [pages, keys of one, heads,
/// features] with a table of each sequence's pages: all keys are then those of all entries.
class PackedAttended {
 public:
  explicit PackedAttended(const Site& s)
      : s_(s),
        query_(s.args.value("query")),
        key_(s.args.value("key")),
        value_(s.args.value("value")),
        table_(s.args.value("block_table")),
        used_(s.args.value("seqused_k")) {}

  Result<int> value() {
    PLANISH_CHECK(check());
    const auto& keys = s_.low.info(key_).shape;
    const std::int64_t features = keys.back(), heads = s_.low.info(query_).shape[1];
    const Coords& coords = s_.coords;
    std::vector<std::int64_t> counts{keys[0]}, shape{s_.low.info(query_).shape[0], heads};
    if (table_ >= 0) counts = {sequences(), s_.low.info(table_).shape[1], keys[1]};
    PLANISH_TRY(const Coords key, s_.low.row(coords, s_.low.info(s_.out_id).shape, counts));
    Coords at{coords[0], coords[1]};
    at.insert(at.end(), key.begin(), key.end());
    shape.insert(shape.end(), counts.begin(), counts.end());
    Reach reach = Reach::row;
    PLANISH_TRY(const Coords feature, s_.low.row(at, shape, std::span(&features, 1), &reach));
    s_.low.contracted();
    s_.low.packed();
    const ir::IndexExpr shared = ir::floor_div(coords[1], heads / keys[keys.size() - 2], s_.low.space());
    PLANISH_TRY(const int q, s_.low.value_as(query_, {coords[0], coords[1], feature[0]}, DType::f32));
    PLANISH_TRY(const int k, element(key_, key, shared, feature[0]));
    Builder& b = s_.b;
    const int product = b.reduce(ReduceKind::sum, b.mul(q, k), DType::f32, -1, reach);
    PLANISH_TRY(const int seen, visible(coords[0], key));
    const int x = b.mul(product, scale_of(s_, features));
    const int weight = shares(b, b.select(seen, x, b.like(x, -INFINITY)));
    PLANISH_TRY(const int v, element(value_, key, shared, coords[2]));
    return b.cast(b.reduce(ReduceKind::sum, b.mul(weight, v), DType::f32), s_.out_dtype);
  }

 private:
  Status check() const {
    if (!s_.low.attending()) return unsupported("attention beside others");
    if (s_.out_position != 0) return unsupported("logarithms of the sums of a softmax");
    if (s_.args.number("dropout_p").value_or(0) != 0) return unsupported("attention with dropout");
    if (s_.args.value("alibi_slopes") >= 0 || (table_ < 0) != (used_ < 0))
      return unsupported("packed sequences with more than offsets");
    const std::size_t rank = table_ >= 0 ? 4 : 3;
    for (const int id : {query_, key_, value_}) {
      if (id < 0 || s_.low.info(id).shape.size() != (id == query_ ? 3 : rank) || s_.coords.size() != 3)
        return unsupported("attention without offsets of sequences");
      if (s_.low.info(id).dtype != DType::f16 && s_.low.info(id).dtype != DType::bf16)
        return unsupported("packed sequences of another dtype than f16 and bf16");
    }
    const auto &q = s_.low.info(query_).shape, &k = s_.low.info(key_).shape, &v = s_.low.info(value_).shape;
    if (!std::equal(k.begin(), k.end() - 1, v.begin(), v.end() - 1) || q[1] % k[rank - 2] != 0)
      return unsupported("attention over heads that do not match");
    PLANISH_CHECK(check_numbers(s_.args.value("cum_seq_q"), 1));
    if (table_ < 0) {
      PLANISH_CHECK(check_numbers(s_.args.value("cum_seq_k"), 1));
      if (s_.low.info(s_.args.value("cum_seq_q")).shape != s_.low.info(s_.args.value("cum_seq_k")).shape)
        return unsupported("queries and keys of different numbers of sequences");
    } else {
      PLANISH_CHECK(check_numbers(used_, 1));
      PLANISH_CHECK(check_numbers(table_, 2));
      if (s_.low.info(used_).shape[0] != sequences() || s_.low.info(table_).shape[0] != sequences())
        return unsupported("queries and keys of different numbers of sequences");
      // A tile of rows is one sequence's.
      if (s_.args.integer("max_q").value_or(0) <= most_decode_rows) return unsupported("few queries of each sequence");
    }
    if (sequences() < 2) return unsupported("one sequence, which no offset has to find");
    return {};
  }

  Status check_numbers(int id, std::size_t rank) const {
    if (id < 0 || s_.low.info(id).shape.size() != rank) return unsupported("attention without offsets of sequences");
    if (s_.low.info(id).dtype != DType::i32 && s_.low.info(id).dtype != DType::i64)
      return unsupported("offsets of sequences of another type");
    return {};
  }

  std::int64_t sequences() const { return s_.low.info(s_.args.value("cum_seq_q")).shape[0] - 1; }

  /// Of a key or value.
  Result<int> element(int id, const Coords& key, const IndexExpr& head, const IndexExpr& column) const {
    if (table_ < 0) return s_.low.value_as(id, {key[0], head, column}, DType::f32);
    PLANISH_TRY(const auto page, indexed_place(s_.low, table_, {key[0], key[1]}, s_.low.info(id).shape[0], false));
    return s_.low.value_as(id, {page, key[2], head, column}, DType::f32);
  }

  /// Among the keys that offsets count.
  IndexExpr place_of(const Coords& key) const {
    if (table_ < 0) return key[0];
    return ir::add(ir::scale(key[1], s_.low.info(key_).shape[1]), key[2], s_.low.space());
  }

  /// Whether the key counts for the query: an integer node.
  Result<int> visible(const IndexExpr& row, const Coords& key) const {
    const int of_queries = s_.args.value("cum_seq_q"), of_keys = s_.args.value("cum_seq_k");
    const std::int64_t count = sequences();
    PLANISH_TRY(const int found, ends_reached(s_.low, of_queries, row, 1, count));
    PLANISH_TRY(const auto sequence, s_.low.at_run_time(found, count));
    int begin = -1, end = -1;
    if (table_ < 0) {
      PLANISH_TRY(begin, s_.low.value_as(of_keys, {sequence}, DType::i64));
      PLANISH_TRY(end, s_.low.value_as(of_keys, {s_.low.plus(sequence, 1)}, DType::i64));
    } else {
      PLANISH_TRY(end, s_.low.value_as(used_, {sequence}, DType::i64));
    }
    PLANISH_TRY(const int last, s_.low.value_as(of_queries, {s_.low.plus(sequence, 1)}, DType::i64));
    Builder& b = s_.b;
    const int own = s_.low.index(place_of(key));
    const int begins = table_ < 0 ? b.test(Op::ge, own, begin) : b.test(Op::eq, s_.low.index(key[0]), found);
    int all = b.op(Op::logical_and, begins, b.test(Op::lt, own, end));
    const auto window = [&](const char* name) { return s_.args.integer(name).value_or(-1); };
    const std::int64_t left = window("window_size_left"),
                       right = s_.args.flag("is_causal") ? 0 : window("window_size_right");
    if (left < 0 && right < 0) return all;
    const int place = b.add(s_.low.index(row), b.sub(end, last));
    const auto moved = [&](std::int64_t by) { return b.add(place, b.integer(DType::i64, by)); };
    if (right >= 0) all = b.op(Op::logical_and, all, b.test(Op::le, own, moved(right)));
    if (left >= 0) all = b.op(Op::logical_and, all, b.test(Op::ge, own, moved(-left)));
    return all;
  }

  const Site& s_;
  int query_, key_, value_, table_, used_;
};

Result<int> packed_attention(const Site& s) {
  return PackedAttended(s).value();
}

}  // namespace

const HandlerTable& attention_handlers() {
  static const HandlerTable table{{"scaled_dot_product_attention", scaled_dot_product_attention},
                                  {"_flash_attention_forward", packed_attention}};
  return table;
}

}  // namespace planish::codegen
