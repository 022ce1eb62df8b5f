#include <algorithm>
#include <vector>

#include "rewrite/bands.h"
#include "rewrite/rules.h"

// Products of matrices with zeros, or with results that nobody wants, as products of blocks.
namespace planish::rewrite {
namespace {

/// Strips that rows (or columns) are cut into where only they are, and where both are.
constexpr std::int64_t most_strips = 8, most_of_each = 4;
/// Blocks begin at multiples of this, so that they are as well aligned as the whole.
constexpr std::int64_t aligned = 64;
/// Terms of a sum from which on a product takes longer than such passes.
constexpr std::int64_t least_depth = 256;

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};
/// What of 0 … `extent` lies there, made longer so that it begins and ends aligned.
Range clamped(std::int64_t begin, std::int64_t end, std::int64_t extent) {
  begin = std::clamp<std::int64_t>(begin, 0, extent);
  end = std::clamp(end, begin, extent);
  if (begin == end) return {};
  return {begin / aligned * aligned, std::min((end + aligned - 1) / aligned * aligned, extent)};
}
Range both(const Range& a, const Range& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}
/// Columns of the band that some of these rows have.
Range columns_of(const Band& band, const Range& rows, std::int64_t extent) {
  return clamped(rows.begin + band.least, rows.end + band.most, extent);
}
/// Rows of the band that some of these columns have.
Range rows_of(const Band& band, const Range& columns, std::int64_t extent) {
  return clamped(columns.begin - band.most, columns.end - band.least, extent);
}

std::vector<Range> strips(std::int64_t extent, std::int64_t block, std::int64_t most) {
  const std::int64_t count = std::clamp<std::int64_t>(extent / block, 1, most);
  const std::int64_t step = ((extent + count - 1) / count + aligned - 1) / aligned * aligned;
  std::vector<Range> out;
  for (std::int64_t at = 0; at < extent; at += step) out.push_back({at, std::min(at + step, extent)});
  return out;
}

/// A product of matrices, or of batches of them: of x (rows, depth) with w (depth, columns), or (columns, depth) where
/// it is `transposed`.
struct Product {
  const char *x_name = "self", *w_name = "other";
  int x = -1, w = -1, bias = -1, out = -1;
  bool transposed = false;
  std::int64_t rows = 0, depth = 0, columns = 0;
};

std::optional<Product> product_of(const Editor& editor, const ir::GraphNode& node) {
  Product p;
  if (node.op == "aten.linear.default") {
    p = {"input", "weight", tensor(node, "input"), tensor(node, "weight"), tensor(node, "bias"), -1, true};
  } else if (node.op == "aten.mm.default" || node.op == "aten.bmm.default") {
    p = {"self", "mat2", tensor(node, "self"), tensor(node, "mat2")};
  } else if (node.op == "aten.matmul.default") {
    p = {"self", "other", tensor(node, "self"), tensor(node, "other")};
  } else {
    return std::nullopt;
  }
  if (p.x < 0 || p.w < 0 || node.outs.size() != 1 || !node.outs[0]) return std::nullopt;
  p.out = *node.outs[0];
  const auto& x = editor.value(p.x).shape;
  const auto& w = editor.value(p.w).shape;
  if (x.size() < 2 || w.size() < 2) return std::nullopt;
  p.rows = x[x.size() - 2];
  p.depth = x.back();
  p.columns = w[p.transposed ? w.size() - 2 : w.size() - 1];
  for (const int id : {p.x, p.w, p.bias, p.out}) {
    if (id >= 0 && editor.value(id).dtype != editor.value(p.out).dtype) return std::nullopt;
  }
  return p;
}

/// Results that one product gives: some of its columns, of the terms that may be other than zero.
struct Block {
  Range columns, terms;
};
struct Strip {
  Range rows, columns;  ///< of the columns those that are wanted
  std::vector<Block> blocks;
};

struct Bands {
  Band x, w, wanted;  ///< of w as (depth, columns)
};

std::vector<Strip> plan(const Product& p, const Bands& bands, std::int64_t block) {
  const bool cut_rows = !bands.x.everywhere() || !bands.wanted.everywhere(), cut_columns = !bands.w.everywhere();
  const std::int64_t most = cut_rows && cut_columns ? most_of_each : most_strips;
  std::vector<Strip> out;
  for (const Range& rows : strips(p.rows, block, cut_rows ? most : 1)) {
    Strip strip{rows, columns_of(bands.wanted, rows, p.columns), {}};
    const Range terms = columns_of(bands.x, rows, p.depth);
    for (const Range& all : strips(p.columns, block, cut_columns ? most : 1)) {
      const Range columns = both(all, strip.columns);
      if (columns.size() == 0) continue;
      Block next{columns, both(terms, rows_of(bands.w, columns, p.depth))};
      if (next.terms.size() == 0) next.terms = {};
      if (!strip.blocks.empty() && strip.blocks.back().terms == next.terms) {
        strip.blocks.back().columns.end = columns.end;
      } else {
        strip.blocks.push_back(next);
      }
    }
    out.push_back(std::move(strip));
  }
  return out;
}

double work(const std::vector<Strip>& strips) {
  double sum = 0;
  for (const Strip& strip : strips) {
    for (const Block& block : strip.blocks)
      sum += static_cast<double>(strip.rows.size() * block.columns.size()) * static_cast<double>(block.terms.size());
  }
  return sum;
}

/// The nodes that stand for a product.
class Blocks {
 public:
  Blocks(Editor& editor, const Product& product, const Bands& bands, const ir::GraphNode& node)
      : editor_(editor),
        p_(product),
        node_(node),
        shape_(editor.value(product.out).shape),
        mends_x_(!bands.w.everywhere() && !is_finite(editor, product.x)),
        mends_w_(!bands.x.everywhere() && !is_finite(editor, product.w)) {}

  void make(const std::vector<Strip>& strips) {
    std::vector<int> all;
    for (const Strip& strip : strips) all.push_back(strip_of(strip));
    const int whole = joined(all, shape_.size() - 2, p_.rows);
    if (p_.bias >= 0) plus(whole, p_.bias, shape_);
  }

 private:
  std::vector<std::int64_t> shape(std::int64_t rows, std::int64_t columns) const {
    std::vector<std::int64_t> out = shape_;
    out[out.size() - 2] = rows;
    out.back() = columns;
    return out;
  }
  int plus(int a, int b, const std::vector<std::int64_t>& full) {
    return editor_.add("aten.add.Tensor", {of("self", a), of("other", b), {"alpha", std::int64_t{1}}}, full, p_.out);
  }
  int joined(const std::vector<int>& parts, std::size_t dim, std::int64_t extent) {
    if (parts.size() == 1) return parts[0];
    ir::ValueList list;
    for (const int part : parts) list.ids.emplace_back(part);
    std::vector<std::int64_t> full = editor_.value(parts[0]).shape;
    full[dim] = extent;
    return editor_.add("aten.cat.default", {{"tensors", list}, {"dim", static_cast<std::int64_t>(dim)}}, full, p_.out);
  }
  int zeros(const std::vector<std::int64_t>& full) {
    return editor_.add("aten.full.default",
                       {{"size", full},
                        {"fill_value", 0.0},
                        {"dtype", ir::None{}},
                        {"layout", ir::None{}},
                        {"device", ir::None{}},
                        {"pin_memory", ir::None{}}},
                       full, p_.out);
  }

  int strip_of(const Strip& strip) {
    if (strip.blocks.empty()) return zeros(shape(strip.rows.size(), p_.columns));
    std::vector<int> parts;
    for (const Block& block : strip.blocks) parts.push_back(block_of(strip.rows, block));
    const int wanted = joined(parts, shape_.size() - 1, strip.columns.size());
    if (strip.columns.size() == p_.columns) return wanted;
    const std::vector<std::int64_t> around{strip.columns.begin, p_.columns - strip.columns.end};
    return editor_.add("aten.constant_pad_nd.default", {of("self", wanted), {"pad", around}, {"value", 0.0}},
                       shape(strip.rows.size(), p_.columns), p_.out);
  }

  int part_of_x(const Range& rows, const Range& terms) {
    const std::size_t rank = editor_.value(p_.x).shape.size();
    return editor_.slice(editor_.slice(p_.x, rank - 2, rows.begin, rows.end), rank - 1, terms.begin, terms.end);
  }
  std::size_t depth_of_w() const { return editor_.value(p_.w).shape.size() - (p_.transposed ? 1 : 2); }
  int part_of_w(const Range& terms, const Range& columns) {
    const std::size_t column = editor_.value(p_.w).shape.size() - (p_.transposed ? 2 : 1);
    return editor_.slice(editor_.slice(p_.w, column, columns.begin, columns.end), depth_of_w(), terms.begin, terms.end);
  }

  int block_of(const Range& rows, const Block& block) {
    const std::vector<std::int64_t> full = shape(rows.size(), block.columns.size());
    int sum = -1;
    if (block.terms.size() > 0) {
      ir::GraphNode part = node_;
      const int x = part_of_x(rows, block.terms), w = part_of_w(block.terms, block.columns);
      for (ir::Arg& arg : part.args) {
        if (arg.name == p_.x_name) arg.data = ir::ValueRef{x};
        if (arg.name == p_.w_name) arg.data = ir::ValueRef{w};
        if (arg.name == "bias") arg.data = ir::None{};
      }
      sum = editor_.add(part.op, std::move(part.args), full, p_.out);
    }
    const auto add = [&](int mend) { sum = sum < 0 ? mend : plus(sum, mend, full); };
    for (const Range& left : {Range{0, block.terms.begin}, Range{block.terms.end, p_.depth}}) {
      if (left.size() == 0) continue;
      if (mends_x_) add(none(part_of_x(rows, left), editor_.value(p_.x).shape.size() - 1, true));
      if (mends_w_) add(none(part_of_w(left, block.columns), depth_of_w(), !p_.transposed));
    }
    if (sum >= 0 && editor_.value(sum).shape == full) return sum;
    const int zero = zeros(full);
    return sum < 0 ? zero : plus(zero, sum, full);
  }

  /// What zeros times these elements add up to: zero, or NaN where an infinity or NaN is among them.
  int none(int part, std::size_t dim, bool keep) {
    const std::vector<std::int64_t> full = editor_.value(part).shape;
    std::vector<std::int64_t> folded = full;
    folded[dim] = 1;
    if (!keep) folded.erase(folded.begin() + static_cast<std::ptrdiff_t>(dim));
    const int times = editor_.add("aten.mul.Tensor", {of("self", part), {"other", 0.0}}, full, p_.out);
    const std::vector<std::int64_t> over{static_cast<std::int64_t>(dim)};
    return editor_.add("aten.sum.dim_IntList",
                       {of("self", times), dims(over), flag("keepdim", keep), {"dtype", ir::None{}}}, folded, p_.out);
  }

  Editor& editor_;
  const Product& p_;
  ir::GraphNode node_;
  std::vector<std::int64_t> shape_;
  bool mends_x_, mends_w_;
};

}  // namespace

bool banded_product(Editor& editor, int index) {
  const ir::GraphNode node = editor.node(index);  // a copy: new nodes move the others
  const auto product = product_of(editor, node);
  if (!product || product->depth < least_depth) return false;
  const DType dtype = editor.value(product->out).dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return false;
  // Of our own kernels attention may be one, which is worth more.
  const bool apart = editor.options().library_products;
  Bands bands{apart ? nonzero_but_nan_rows(editor, product->x) : nonzero(editor, product->x),
              nonzero(editor, product->w), wanted(editor, product->out)};
  if (product->transposed) bands.w = {-bands.w.most, -bands.w.least};
  if (bands.x.everywhere() && bands.w.everywhere() && bands.wanted.everywhere()) return false;
  const auto strips = plan(*product, bands, editor.options().block);
  const Options& options = editor.options();
  const double left = work(strips);
  const double all = static_cast<double>(product->rows * product->columns) * static_cast<double>(product->depth);
  if (left == 0 || left > options.most_left * all) return false;
  const auto batches = static_cast<double>(editor.value(product->out).elements()) /
                       static_cast<double>(product->rows * product->columns);
  const auto least_saved = static_cast<double>(options.block * options.block * least_depth);
  if ((all - left) * batches < least_saved) return false;
  Blocks(editor, *product, bands, node).make(strips);
  editor.replace(index);
  return true;
}

}  // namespace planish::rewrite
