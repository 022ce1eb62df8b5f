#include <cmath>
#include <limits>

#include "rewrite/rules.h"

// Attention whose heads no kernel of ours has room for.
namespace planish::rewrite {
namespace {

/// 1 GiB; and their softmax as much.
constexpr double most_scores = 1 << 28;

/// What scaled_dot_product_attention is given.
struct Attention {
  int query = -1, key = -1, value = -1, mask = -1, out = -1;
  bool causal = false;
  double scale = 1;
  std::vector<std::int64_t> scores;  ///< shape
};

bool is_set(const ir::GraphNode& node, std::string_view name) {
  const ir::Arg* arg = node.arg(name);
  const auto* truth = arg == nullptr ? nullptr : std::get_if<bool>(&arg->data);
  return truth != nullptr && *truth;
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
  for (const int id : {a.query, a.key, a.value, a.out}) {
    if (id < 0 || editor.value(id).dtype != DType::f32 || editor.value(id).shape.size() != rank || rank < 2)
      return std::nullopt;
  }
  const auto& q = editor.value(a.query).shape;
  const auto& k = editor.value(a.key).shape;
  if (q.back() <= editor.options().most_features) return std::nullopt;
  a.scores = whole;
  a.scores.back() = k[rank - 2];
  double count = 1;
  for (const std::int64_t n : a.scores) count *= static_cast<double>(n);
  if (count > most_scores) return std::nullopt;
  // Heads that share keys in groups would have to be dims of their own.
  for (const int id : {a.query, a.key, a.value}) {
    const auto& shape = editor.value(id).shape;
    if (!broadcasts({shape.begin(), shape.end() - 2}, {whole.begin(), whole.end() - 2})) return std::nullopt;
  }
  if (a.mask >= 0) {
    const ir::Value& mask = editor.value(a.mask);
    if (mask.dtype != DType::boolean && mask.dtype != DType::f32) return std::nullopt;
    if (!broadcasts(mask.shape, a.scores)) return std::nullopt;
  }
  a.causal = is_set(node, "is_causal");
  a.scale = number(node, "scale").value_or(1 / std::sqrt(static_cast<double>(q.back())));
  return a;
}

/// A column, or a row, that counts from 0.
int counted(Editor& editor, std::int64_t n, bool column, int like) {
  const int counts = editor.add_as(DType::i64, "aten.arange.start_step",
                                   {{"start", std::int64_t{0}},
                                    {"end", n},
                                    {"step", std::int64_t{1}},
                                    {"dtype", ir::None{}},
                                    {"layout", ir::None{}},
                                    {"device", ir::None{}},
                                    {"pin_memory", ir::None{}}},
                                   {n}, like);
  const std::vector<std::int64_t> shape = column ? std::vector{n, std::int64_t{1}} : std::vector{std::int64_t{1}, n};
  return editor.add_as(DType::i64, "aten.unsqueeze.default",
                       {of("self", counts), {"dim", std::int64_t{column ? -1 : -2}}}, shape, like);
}

int number_of(Editor& editor, double value, int like) {
  return editor.add(
      "aten.scalar_tensor.default",
      {{"s", value}, {"dtype", ir::None{}}, {"layout", ir::None{}}, {"device", ir::None{}}, {"pin_memory", ir::None{}}},
      {}, like);
}

}  // namespace

bool wide_attention(Editor& editor, int index) {
  if (editor.options().library_products) return false;
  const auto found = wide(editor, editor.node(index));
  if (!found) return false;
  const Attention& a = *found;
  const int like = a.out;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto choose = [&](int condition, int self, int other) {
    return editor.add("aten.where.self", {of("condition", condition), of("self", self), of("other", other)}, a.scores,
                      like);
  };
  const auto product = [&](int x, int y, const std::vector<std::int64_t>& shape) {
    return editor.add("aten.matmul.default", {of("self", x), of("other", y)}, shape, like);
  };
  const auto scores = product(a.query, editor.turned(a.key), a.scores);
  int x = editor.add("aten.mul.Tensor", {of("self", scores), {"other", a.scale}}, a.scores, like);
  const int hidden = a.causal || a.mask >= 0 ? number_of(editor, -infinity, like) : -1;
  if (a.causal) {
    const std::int64_t rows = a.scores[a.scores.size() - 2], columns = a.scores.back();
    const int row = counted(editor, rows, true, like), column = counted(editor, columns, false, like);
    const int early =
        editor.add_boolean("aten.ge.Tensor", {of("self", row), of("other", column)}, {rows, columns}, like);
    x = choose(early, x, hidden);
  }
  if (a.mask >= 0 && editor.value(a.mask).dtype == DType::boolean) {
    x = choose(a.mask, x, hidden);
  } else if (a.mask >= 0) {
    x = editor.add("aten.add.Tensor", {of("self", x), of("other", a.mask), {"alpha", std::int64_t{1}}}, a.scores, like);
  }
  const std::int64_t keys = -1;
  int weights =
      editor.add("aten._softmax.default", {of("self", x), {"dim", keys}, flag("half_to_float", false)}, a.scores, like);
  if (a.mask >= 0) {
    // A query without keys gives zeros.
    std::vector<std::int64_t> row = a.scores;
    row.back() = 1;
    const int most = editor.add("aten.amax.default", {of("self", x), dims({keys}), flag("keepdim", true)}, row, like);
    const int some = editor.add_boolean("aten.ne.Scalar", {of("self", most), {"other", -infinity}}, row, like);
    weights = choose(some, weights, number_of(editor, 0, like));
  }
  const std::vector<std::int64_t> whole = editor.value(a.out).shape;
  product(weights, a.value, whole);
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
