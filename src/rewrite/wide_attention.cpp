#include <algorithm>
#include <cmath>
#include <limits>

#include "rewrite/rules.h"

// Attention whose heads no kernel of ours has room for.
namespace planish::rewrite {
namespace {

/// Scores of single precision: 1 GiB; and their softmax as much.
constexpr double most_scores = 1 << 28;
constexpr std::int64_t most_parts = 64;
/// Queries of 16 bits: of fewer, the keys are most of what is read, once by an operator of its own.
constexpr std::int64_t least_narrow_queries = 64;
/// What scaled_dot_product_attention is given.
struct Attention {
  int query = -1, key = -1, value = -1, mask = -1, out = -1;
  bool causal = false;
  double scale = 1;
  std::vector<std::int64_t> shape;   ///< of the result
  std::vector<std::int64_t> scores;  ///< shape
  std::int64_t parts = 1;            ///< of the queries
};

/// Into how many equal parts queries are cut, so that few scores lie in memory at once.
std::optional<std::int64_t> parts_of(std::int64_t queries, double scores, double at_once) {
  for (std::int64_t parts = 1; parts <= most_parts; ++parts) {
    if (queries % parts == 0 && scores <= at_once * static_cast<double>(parts)) return parts;
  }
  return std::nullopt;
}

/// Whether a shape's dims, counted from the last, are those of `full` or 1.
bool broadcasts(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& full) {
  if (shape.size() > full.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t n = shape[shape.size() - 1 - d];
    if (n != 1 && n != full[full.size() - 1 - d]) return false;
  }
  return true;
}

std::optional<Attention> wide(const Editor& editor, const ir::GraphNode& node) {
  if (node.op != "aten.scaled_dot_product_attention.default" || node.outs.size() != 1 || !node.outs[0])
    return std::nullopt;
  Attention a;
  a.query = tensor(node, "query");
  a.key = tensor(node, "key");
  a.value = tensor(node, "value");
  a.mask = tensor(node, "attn_mask");
  a.out = *node.outs[0];
  if (number(node, "dropout_p").value_or(0) != 0) return std::nullopt;
  const auto& whole = editor.value(a.out).shape;
  const std::size_t rank = whole.size();
  const DType dtype = editor.value(a.out).dtype;
  const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
  if (dtype != DType::f32 && !narrow) return std::nullopt;
  for (const int id : {a.query, a.key, a.value, a.out}) {
    if (id < 0 || editor.value(id).dtype != dtype || editor.value(id).shape.size() != rank || rank < 2)
      return std::nullopt;
  }
  const auto& q = editor.value(a.query).shape;
  const auto& k = editor.value(a.key).shape;
  if (q.back() <= editor.options().most_features) return std::nullopt;
  a.scores = whole;
  a.scores.back() = k[rank - 2];
  double count = 1;
  for (const std::int64_t n : a.scores) count *= static_cast<double>(n);
  if (narrow) {
    const auto parts = parts_of(whole[rank - 2], count, editor.options().scores_at_once);
    if (!parts || whole[rank - 2] < least_narrow_queries) return std::nullopt;
    a.parts = *parts;
  } else if (count > most_scores) {
    return std::nullopt;
  }
  // Heads that share keys in groups would have to be dims of their own.
  for (const int id : {a.query, a.key, a.value}) {
    const auto& shape = editor.value(id).shape;
    if (!broadcasts({shape.begin(), shape.end() - 2}, {whole.begin(), whole.end() - 2})) return std::nullopt;
    if (narrow && !std::equal(shape.begin(), shape.end() - 2, whole.begin())) return std::nullopt;
  }
  if (a.mask >= 0) {
    const ir::Value& mask = editor.value(a.mask);
    if (mask.dtype != DType::boolean && mask.dtype != DType::f32 && mask.dtype != dtype) return std::nullopt;
    if (!broadcasts(mask.shape, a.scores)) return std::nullopt;
  }
  a.shape = whole;
  a.causal = is_set(node, "is_causal");
  a.scale = number(node, "scale").value_or(1 / std::sqrt(static_cast<double>(q.back())));
  return a;
}

/// The operator written out for some of its queries.
class Composed {
 public:
  Composed(Editor& editor, const Attention& a, std::int64_t first, std::int64_t count)
      : editor_(editor), a_(a), dtype_(editor.value(a.out).dtype), first_(first), count_(count), scores_(a.scores) {
    scores_[scores_.size() - 2] = count;
  }

  /// In single precision.
  int result() {
    const int x = masked(scaled(product(rows(a_.query), a_.key, scores_, true)));
    std::vector<std::int64_t> shape = a_.shape;
    shape[shape.size() - 2] = count_;
    if (dtype_ == DType::f32) return product(softmax(x), a_.value, shape);
    const auto [weights, total] = exponentials(x);
    const int sum = product(cast(weights, dtype_), a_.value, shape);
    return add("aten.div.Tensor", {of("self", sum), of("other", total)}, shape);
  }

  /// In the type of the operator's.
  int rounded() { return dtype_ == DType::f32 ? result() : cast(result(), dtype_); }

 private:
  int add(std::string op, std::vector<ir::Arg> args, const std::vector<std::int64_t>& shape) {
    return editor_.add_as(DType::f32, std::move(op), std::move(args), shape, a_.out);
  }

  int cast(int self, DType dtype) {
    const std::vector<std::int64_t> shape = editor_.value(self).shape;
    return editor_.add_as(dtype, "aten._to_copy.default", conversion(self, dtype), shape, self);
  }

  int wide(int self) { return editor_.value(self).dtype == DType::f32 ? self : cast(self, DType::f32); }

  /// Batches of matrices, as one dim. What is `aten.bmm.dtype`'s: kernels read other ranks as well.
  int flat(int self) {
    const ir::Value& value = editor_.value(self);
    const std::size_t rank = value.shape.size();
    std::int64_t batch = 1;
    for (std::size_t d = 0; d + 2 < rank; ++d) batch *= value.shape[d];
    return viewed(self, {batch, value.shape[rank - 2], value.shape[rank - 1]});
  }

  int viewed(int self, const std::vector<std::int64_t>& shape) {
    return editor_.add_as(editor_.value(self).dtype, "aten.view.default", {of("self", self), {"size", shape}}, shape,
                          self);
  }

  /// Factors of 16 bits are multiplied as they are, and summed in single precision.
  int product(int x, int y, const std::vector<std::int64_t>& shape, bool turned = false) {
    if (dtype_ == DType::f32) {
      return add("aten.matmul.default", {of("self", x), of("other", turned ? editor_.turned(y) : y)}, shape);
    }
    const int left = flat(x), other = flat(y), right = turned ? editor_.turned(other) : other;
    const std::vector<std::int64_t> batches{editor_.value(left).shape[0], shape[shape.size() - 2], shape.back()};
    const int out =
        add("aten.bmm.dtype",
            {of("self", left), of("mat2", right), {"out_dtype", ir::DTypeArg{std::string(name(DType::f32))}}}, batches);
    return viewed(out, shape);
  }

  int times(int x, double factor, const std::vector<std::int64_t>& shape) {
    return add("aten.mul.Tensor", {of("self", x), {"other", factor}}, shape);
  }

  int scaled(int x) { return times(x, a_.scale, scores_); }

  /// What a tensor has for these queries.
  int rows(int id) {
    const auto& shape = editor_.value(id).shape;
    const bool all = shape.size() < 2 || shape[shape.size() - 2] == 1;
    return all ? id : editor_.slice(id, shape.size() - 2, first_, first_ + count_);
  }

  /// A column, or a row, of numbers that follow each other.
  int counted(std::int64_t first, std::int64_t n, bool column) {
    const int counts = editor_.add_as(DType::i64, "aten.arange.start_step",
                                      {{"start", first},
                                       {"end", first + n},
                                       {"step", std::int64_t{1}},
                                       {"dtype", ir::None{}},
                                       {"layout", ir::None{}},
                                       {"device", ir::None{}},
                                       {"pin_memory", ir::None{}}},
                                      {n}, a_.out);
    const std::vector<std::int64_t> shape = column ? std::vector{n, std::int64_t{1}} : std::vector{std::int64_t{1}, n};
    return editor_.add_as(DType::i64, "aten.unsqueeze.default",
                          {of("self", counts), {"dim", std::int64_t{column ? -1 : -2}}}, shape, a_.out);
  }

  int constant(double value) {
    return add("aten.scalar_tensor.default",
               {{"s", value},
                {"dtype", ir::None{}},
                {"layout", ir::None{}},
                {"device", ir::None{}},
                {"pin_memory", ir::None{}}},
               {});
  }

  int choose(int condition, int self, int other, const std::vector<std::int64_t>& shape) {
    return add("aten.where.self", {of("condition", condition), of("self", self), of("other", other)}, shape);
  }

  int largest(int x) {
    return add("aten.amax.default", {of("self", x), dims({keys}), flag("keepdim", true)}, one_each());
  }

  std::vector<std::int64_t> one_each() const {
    std::vector<std::int64_t> row = scores_;
    row.back() = 1;
    return row;
  }

  /// Where a query's number is `what`, another.
  int in_place_of(int x, double what, double other) {
    const int no = editor_.add_boolean("aten.ne.Scalar", {of("self", x), {"other", what}}, one_each(), a_.out);
    return choose(no, x, constant(other), one_each());
  }

  /// Weights that are not divided by their sum, and that. The largest are 1, which rounding to 16 bits keeps; a query
  /// without keys has zeros.
  std::pair<int, int> exponentials(int x) {
    int most = largest(x);
    if (a_.mask >= 0) most = in_place_of(most, -infinity, 0);
    const int below = add("aten.sub.Tensor", {of("self", x), of("other", most), {"alpha", std::int64_t{1}}}, scores_);
    const int weights = add("aten.exp.default", {of("self", below)}, scores_);
    const int total =
        add("aten.sum.dim_IntList", {of("self", weights), dims({keys}), flag("keepdim", true), {"dtype", ir::None{}}},
            one_each());
    return {weights, a_.mask < 0 ? total : in_place_of(total, 0, 1)};
  }

  int masked(int x) {
    if (!a_.causal && a_.mask < 0) return x;
    const int hidden = constant(-infinity);
    if (a_.causal) {
      const std::int64_t columns = scores_.back();
      const int row = counted(first_, count_, true), column = counted(0, columns, false);
      x = choose(
          editor_.add_boolean("aten.ge.Tensor", {of("self", row), of("other", column)}, {count_, columns}, a_.out), x,
          hidden, scores_);
    }
    if (a_.mask < 0) return x;
    const int mask = rows(a_.mask);
    if (editor_.value(mask).dtype == DType::boolean) return choose(mask, x, hidden, scores_);
    return add("aten.add.Tensor", {of("self", x), of("other", wide(mask)), {"alpha", std::int64_t{1}}}, scores_);
  }

  int softmax(int x) {
    const int weights =
        add("aten._softmax.default", {of("self", x), {"dim", keys}, flag("half_to_float", false)}, scores_);
    if (a_.mask < 0) return weights;
    // A query without keys gives zeros.
    const int some =
        editor_.add_boolean("aten.ne.Scalar", {of("self", largest(x)), {"other", -infinity}}, one_each(), a_.out);
    return choose(some, weights, constant(0), scores_);
  }

  static constexpr std::int64_t keys = -1;  ///< the dim that is summed over
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  Editor& editor_;
  const Attention& a_;
  DType dtype_;
  std::int64_t first_, count_;
  std::vector<std::int64_t> scores_;  ///< shape
};

}  // namespace

int composed_attention(Editor& editor, int query, int key, int value, int mask, double scale, int like) {
  Attention a;
  a.query = query, a.key = key, a.value = value, a.mask = mask, a.out = like, a.scale = scale;
  a.shape = a.scores = editor.value(query).shape;
  a.shape.back() = editor.value(value).shape.back();
  a.scores.back() = editor.value(key).shape[a.scores.size() - 2];
  return Composed(editor, a, 0, a.scores[a.scores.size() - 2]).result();
}

bool wide_attention(Editor& editor, int index) {
  if (editor.options().library_products) return false;
  const auto a = wide(editor, editor.node(index));
  if (!a) return false;
  const std::vector<std::int64_t> shape = editor.value(a->out).shape;
  const std::size_t rows = shape.size() - 2;
  const std::int64_t count = shape[rows] / a->parts;
  ir::ValueList parts;
  for (std::int64_t p = 0; p < a->parts; ++p) parts.ids.emplace_back(Composed(editor, *a, p * count, count).rounded());
  if (a->parts > 1)
    editor.add("aten.cat.default", {{"tensors", parts}, {"dim", static_cast<std::int64_t>(rows)}}, shape, a->out);
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
