#include <algorithm>
#include <cmath>

#include "rewrite/products.h"
#include "rewrite/rules.h"

// Attention of one query a sequence whose keys and values are products of fewer features, which all heads share.
namespace planish::rewrite {
namespace {

/// How many times less work is asked for: the latent's features are more than a head's, and its own kernel is lost.
constexpr double least_times = 4;

/// Columns [begin, begin + count) of each head's block of a product latent · wᵀ, as [batch, heads, places, count].
struct Projected {
  int product = -1;  ///< value: of the node that multiplies
  int latent = -1, w = -1;
  std::int64_t block = 0, begin = 0, count = 0;
};

/// Neighbouring features of keys.
struct Piece {
  int value = -1;
  std::int64_t width = 0;
};

struct Latent {
  int query = -1, mask = -1, out = -1;
  double scale = 1;
  std::int64_t batch = 1, heads = 1, places = 1, features = 1;
  std::vector<Piece> keys;
  std::size_t made = 0;  ///< which of them is a product
  Projected key, value;
};

class Reader {
 public:
  explicit Reader(const Editor& editor) : editor_(editor), producers_(editor.graph().producers()) {}

  /// The node that makes a value, whatever else it makes; null for inputs.
  const ir::GraphNode* maker(int id) const {
    const int index = id < 0 ? -1 : producers_[static_cast<std::size_t>(id)];
    return index < 0 ? nullptr : &editor_.node(index);
  }

  std::optional<Projected> projected(int id) const {
    Projected out;
    if (!editor_.read_once(id)) return std::nullopt;
    const auto& shape = editor_.value(id).shape;
    if (shape.size() != 4) return std::nullopt;
    out.count = shape[3];
    const ir::GraphNode* node = maker(id);
    // A part of a block, beside another one.
    std::size_t parts = 1;
    if (node != nullptr && node->op == "aten.split_with_sizes.default") {
      const auto sizes = list(*node, "split_sizes");
      const auto place =
          static_cast<std::size_t>(std::ranges::find(node->outs, std::optional(id)) - node->outs.begin());
      const auto dim = integer(*node, "dim").value_or(0);
      if ((dim != -1 && dim != 3) || place >= sizes.size()) return std::nullopt;
      for (std::size_t i = 0; i < place; ++i) out.begin += sizes[i];
      id = tensor(*node, "self");
    } else if (node != nullptr && node->op == "aten.slice.Tensor") {
      if (integer(*node, "dim").value_or(0) != 3 || integer(*node, "step").value_or(1) != 1) return std::nullopt;
      out.begin = integer(*node, "start").value_or(0);
      id = tensor(*node, "self");
      parts = 2;
    }
    if (editor_.is_output(id) || editor_.readers(id).size() > parts) return std::nullopt;
    node = maker(id);
    if (node == nullptr || node->op != "aten.permute.default" ||
        list(*node, "dims") != std::vector<std::int64_t>{0, 2, 1, 3})
      return std::nullopt;
    const std::vector<std::int64_t> by_head = editor_.value(id).shape;
    out.block = by_head[3];
    const int blocks = tensor(*node, "self");
    node = maker(blocks);
    if (node == nullptr || node->op != "aten.view.default" || !editor_.read_once(blocks)) return std::nullopt;
    out.product = tensor(*node, "self");
    node = maker(out.product);
    const auto product = node == nullptr ? std::nullopt : matrix_product(editor_, *node);
    if (!product || node->op != "aten.linear.default" || product->bias >= 0 || !editor_.is_parameter(product->w) ||
        !editor_.read_once(out.product) || product->columns != by_head[1] * by_head[3] ||
        product->rows != by_head[0] * by_head[2] || !is_contiguous(editor_.value(product->w)))
      return std::nullopt;
    out.latent = product->x;
    out.w = product->w;
    return out;
  }

  /// Parts of keys along their features, by `cat`, or by copies one behind the other into memory that held nothing.
  std::vector<Piece> pieces(int id) const {
    const ir::GraphNode* node = maker(id);
    if (node == nullptr || !editor_.read_once(id)) return {};
    std::vector<Piece> out;
    if (node->op == "aten.cat.default") {
      const auto dim = integer(*node, "dim").value_or(0);
      const ir::Arg* tensors = node->arg("tensors");
      const auto* list = tensors == nullptr ? nullptr : std::get_if<ir::ValueList>(&tensors->data);
      if ((dim != -1 && dim != 3) || list == nullptr) return {};
      for (const auto& one : list->ids) {
        if (!one) return {};
        out.push_back({*one, editor_.value(*one).shape.back()});
      }
      return out;
    }
    std::int64_t end = editor_.value(id).shape.back();
    while (node != nullptr && node->op == "aten.slice_scatter.default") {
      const auto begin = integer(*node, "start").value_or(0);
      const auto last = std::min(end, integer(*node, "end").value_or(end));
      if (integer(*node, "dim").value_or(0) != 3 || integer(*node, "step").value_or(1) != 1 || last != end) return {};
      out.insert(out.begin(), {copied(tensor(*node, "src")), end - begin});
      end = begin;
      node = maker(tensor(*node, "self"));
    }
    return end == 0 && node != nullptr && node->op.starts_with("aten.empty") ? out : std::vector<Piece>{};
  }

  /// The value [batch, 1, places, width] that is expanded to all heads; -1: there is none.
  int shared(int id) const {
    const ir::GraphNode* node = maker(id);
    if (node == nullptr || node->op != "aten.expand.default") return -1;
    const int self = tensor(*node, "self");
    const auto& from = editor_.value(self).shape;
    const auto& to = editor_.value(id).shape;
    const bool only_heads =
        from.size() == 4 && from[0] == to[0] && from[1] == 1 && from[2] == to[2] && from[3] == to[3];
    return only_heads ? self : -1;
  }

 private:
  /// The source of a `copy`, whose target is memory alone; else the value itself.
  int copied(int id) const {
    const ir::GraphNode* node = maker(id);
    return node != nullptr && node->op == "aten.copy.default" ? tensor(*node, "src") : id;
  }
  static std::vector<std::int64_t> list(const ir::GraphNode& node, std::string_view name) {
    const ir::Arg* arg = node.arg(name);
    const auto* found = arg == nullptr ? nullptr : std::get_if<std::vector<std::int64_t>>(&arg->data);
    return found == nullptr ? std::vector<std::int64_t>{} : *found;
  }

  const Editor& editor_;
  std::vector<int> producers_;
};

/// Test that keys and values are different columns of one product.
bool share_a_product(const Editor& editor, const Projected& key, const Projected& value) {
  return key.product == value.product && key.block == value.block &&
         (key.begin + key.count <= value.begin || value.begin + value.count <= key.begin) &&
         editor.value(key.product).dtype == editor.value(key.latent).dtype;
}

std::optional<Latent> latent(const Editor& editor, const ir::GraphNode& node) {
  if (node.op != "aten.scaled_dot_product_attention.default" || node.outs.size() != 1 || !node.outs[0])
    return std::nullopt;
  Latent a;
  a.query = tensor(node, "query");
  a.mask = tensor(node, "attn_mask");
  a.out = *node.outs[0];
  const int key = tensor(node, "key"), value = tensor(node, "value");
  const DType dtype = editor.value(a.out).dtype;
  if (number(node, "dropout_p").value_or(0) != 0 || is_set(node, "is_causal") || is_set(node, "enable_gqa"))
    return std::nullopt;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return std::nullopt;
  for (const int id : {a.query, key, value, a.out}) {
    if (id < 0 || editor.value(id).dtype != dtype || editor.value(id).shape.size() != 4) return std::nullopt;
  }
  const auto& q = editor.value(a.query).shape;
  const auto& k = editor.value(key).shape;
  const auto& v = editor.value(value).shape;
  if (q[2] != 1 || k[0] != q[0] || k[1] != q[1] || v[0] != q[0] || v[1] != q[1]) return std::nullopt;
  a.batch = q[0], a.heads = q[1], a.places = k[2];
  a.scale = number(node, "scale").value_or(1 / std::sqrt(static_cast<double>(q[3])));
  if (a.mask >= 0) {  // the same for all heads
    const auto& mask = editor.value(a.mask).shape;
    if (mask.size() != 4 || mask[1] != 1 || mask[2] != 1) return std::nullopt;
  }
  const Reader reader(editor);
  const auto values = reader.projected(value);
  if (!values) return std::nullopt;
  a.value = *values;
  a.keys = reader.pieces(key);
  if (a.keys.empty()) a.keys = {{key, k[3]}};
  int products = 0;
  for (std::size_t i = 0; i < a.keys.size(); ++i) {
    if (const auto found = reader.projected(a.keys[i].value); found && found->product == a.value.product) {
      a.key = *found;
      a.made = i;
      ++products;
    } else if ((a.keys[i].value = reader.shared(a.keys[i].value)) < 0) {
      return std::nullopt;
    }
  }
  if (products != 1 || !share_a_product(editor, a.key, a.value)) return std::nullopt;
  const auto& whole = editor.value(a.value.latent).shape;
  const bool by_place = whole.size() == 3 || (whole.size() == 4 && whole[1] == 1);
  if (!by_place || whole[0] != a.batch || !is_contiguous(editor.value(a.out))) return std::nullopt;
  a.features = whole.back();
  // Multiplications a head: as it is, and with the query, and what comes out, multiplied in place of keys and values.
  const auto head = static_cast<double>(a.key.count + a.value.count), features = static_cast<double>(a.features);
  const auto places = static_cast<double>(a.places);
  const double before = places * head * features + places * head, after = head * features + 2 * places * features;
  return before >= least_times * after ? std::optional(a) : std::nullopt;
}

/// The nodes of its other form.
class Absorbed {
 public:
  Absorbed(Editor& editor, const Latent& a) : editor_(editor), a_(a), dtype_(editor.value(a.out).dtype) {}

  void make() {
    const int given = a_.value.latent;
    const int latent = wide(editor_.value(given).shape.size() == 4 ? given : editor_.unsqueezed(given, 1));
    ir::ValueList queries, keys;
    std::int64_t at = 0, width = 0;
    for (std::size_t i = 0; i < a_.keys.size(); ++i) {
      const Piece& piece = a_.keys[i];
      const int own = wide(editor_.slice(a_.query, 3, at, at + piece.width));
      at += piece.width;
      queries.ids.emplace_back(i == a_.made ? editor_.permuted(multiplied(own, a_.key, true), heads_behind) : own);
      keys.ids.emplace_back(i == a_.made ? latent : wide(piece.value));
      width += i == a_.made ? a_.features : piece.width;
    }
    const int query = editor_.permuted(joined(queries, {a_.batch, a_.heads, 1, width}), heads_as_queries);
    const int sums = attention(query, joined(keys, {a_.batch, 1, a_.places, width}), latent);
    const int results =
        editor_.permuted(multiplied(editor_.permuted(sums, heads_as_queries), a_.value, false), heads_behind);
    const std::vector<std::int64_t> shape = editor_.value(a_.out).shape;
    const int own =
        add("aten.clone.default", {of("self", results), {"memory_format", ir::EnumArg{"torch.contiguous_format"}}},
            shape, results);
    if (dtype_ != DType::f32) editor_.add_as(dtype_, "aten._to_copy.default", conversion(own, dtype_), shape, a_.out);
  }

 private:
  inline static const std::vector<std::int64_t> heads_behind{1, 0, 2, 3}, heads_as_queries{0, 2, 1, 3};

  /// A node whose value has the type of `like`.
  int add(std::string op, std::vector<ir::Arg> args, const std::vector<std::int64_t>& shape, int like) {
    return editor_.add_as(editor_.value(like).dtype, std::move(op), std::move(args), shape, like);
  }
  /// The value as a library multiplies it.
  int wide(int x) {
    const bool converts = editor_.options().library_products && dtype_ != DType::f32;
    return converts ? editor_.converted(x, DType::f32) : x;
  }
  /// Of one head, in f32.
  int attention(int query, int key, int value) {
    const bool boolean = a_.mask >= 0 && editor_.value(a_.mask).dtype == DType::boolean;
    const int mask = a_.mask < 0 || boolean ? a_.mask : wide(a_.mask);
    if (!editor_.options().library_products)
      return composed_attention(editor_, query, key, value, mask, a_.scale, query);
    return add("aten.scaled_dot_product_attention.default",
               {of("query", query),
                of("key", key),
                of("value", value),
                mask < 0 ? ir::Arg{"attn_mask", ir::None{}} : of("attn_mask", mask),
                {"dropout_p", 0.0},
                flag("is_causal", false),
                {"scale", a_.scale},
                flag("enable_gqa", false)},
               {a_.batch, 1, a_.heads, a_.features}, query);
  }
  int joined(const ir::ValueList& parts, const std::vector<std::int64_t>& shape) {
    if (parts.ids.size() == 1) return *parts.ids.front();
    return add("aten.cat.default", {{"tensors", parts}, {"dim", std::int64_t{3}}}, shape, *parts.ids.front());
  }
  /// [batch, heads, 1, n] by the head's rows of the weights, to the latent's features or from these, as [heads, batch,
  /// 1, m].
  int multiplied(int x, const Projected& part, bool to_features) {
    const std::vector<std::int64_t> by_head{a_.heads, part.block, a_.features};
    const int blocks = add("aten.view.default", {of("self", part.w), {"size", by_head}}, by_head, part.w);
    int w = editor_.slice(blocks, 1, part.begin, part.begin + part.count);
    if (editor_.options().library_products) w = wide(w);
    if (!to_features) w = editor_.turned(w);
    const int first = editor_.selected(editor_.permuted(x, heads_behind), 2, 0);
    const std::vector<std::int64_t> shape{a_.heads, a_.batch, to_features ? a_.features : part.count};
    const bool split = editor_.value(first).dtype != editor_.value(w).dtype;
    const int product =
        split ? summed(first, w, shape) : add("aten.bmm.default", {of("self", first), of("mat2", w)}, shape, x);
    return editor_.unsqueezed(product, 2);
  }

  /// A factor of f32 as two of 16 bits, so that weights are read as they lie.
  int summed(int x, int w, const std::vector<std::int64_t>& shape) {
    const auto by_weights = [&](int factor) {
      return add("aten.bmm.dtype",
                 {of("self", factor), of("mat2", w), {"out_dtype", ir::DTypeArg{std::string(name(DType::f32))}}}, shape,
                 x);
    };
    const auto difference = [&](int from, int what) {
      return add("aten.sub.Tensor", {of("self", from), of("other", what), {"alpha", std::int64_t{1}}},
                 editor_.value(x).shape, x);
    };
    const int high = editor_.converted(x, dtype_);
    const int low = editor_.converted(difference(x, editor_.converted(high, DType::f32)), dtype_);
    return add("aten.add.Tensor",
               {of("self", by_weights(high)), of("other", by_weights(low)), {"alpha", std::int64_t{1}}}, shape, x);
  }

  Editor& editor_;
  const Latent& a_;
  const DType dtype_;
};

}  // namespace

bool latent_attention(Editor& editor, int index) {
  const auto a = latent(editor, editor.node(index));
  if (!a) return false;
  Absorbed(editor, *a).make();
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
