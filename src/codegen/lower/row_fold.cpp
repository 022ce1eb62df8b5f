#include "codegen/lower/row_fold.h"

#include "codegen/fold.h"

namespace planish::codegen {

Rows::Rows(Lowering& low, std::vector<std::int64_t> shape, const std::vector<int>& dims)
    : low_(low), shape_(std::move(shape)) {
  reduced_.assign(shape_.size(), false);
  for (const int d : dims) reduced_[static_cast<std::size_t>(d)] = true;
  for (std::size_t i = 0; i < shape_.size(); ++i) (reduced_[i] ? reduced_extents_ : kept_extents_).push_back(shape_[i]);
}

Status Rows::at(const Coords& coords) {
  kept_.clear();
  if (coords.size() == kept_extents_.size() && coords.size() != shape_.size()) {
    kept_ = coords;
  } else if (coords.size() == shape_.size()) {
    for (std::size_t i = 0; i < shape_.size(); ++i) {
      if (!reduced_[i]) kept_.push_back(coords[i]);
    }
  } else {
    return unsupported("a reduction of unexpected rank");
  }
  // A size-1 kept dim may carry any expression: it is 0.
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    if (kept_extents_[i] == 1) kept_[i] = ir::IndexExpr();
  }
  if (length() == 1) {
    row_.assign(reduced_extents_.size(), ir::IndexExpr());
  } else {
    PLANISH_TRY(row_, low_.row(kept_, kept_extents_, reduced_extents_, &reach_));
  }
  full_.clear();
  std::size_t k = 0, r = 0;
  for (std::size_t i = 0; i < shape_.size(); ++i) full_.push_back(reduced_[i] ? row_[r++] : kept_[k++]);
  return {};
}

int Rows::fold(ReduceKind kind, int node) const {
  Builder& b = low_.builder();
  if (info(kind).truth) {
    const int flag = b.cast(node, DType::boolean);
    return length() == 1 ? flag : b.reduce(kind, flag, DType::boolean, -1, reach_);
  }
  const DType accumulate = accumulate_dtype(b.dtype(node));
  node = b.cast(node, accumulate);
  return length() == 1 ? node : b.reduce(kind, node, accumulate, -1, reach_);
}

int Rows::find(ReduceKind kind, int node) const {
  Builder& b = low_.builder();
  if (length() == 1) return b.integer(DType::i64, 0);
  if (!is_floating(b.dtype(node)) && b.dtype(node) != DType::i64) node = b.cast(node, DType::i32);
  return b.reduce(kind, node, DType::i64, low_.index(low_.ravel(row_, reduced_extents_)), reach_);
}

Moments moments(const Rows& rows, Builder& b, int x) {
  Moments m{};
  m.mean = b.div(rows.fold(ReduceKind::sum, x), static_cast<double>(rows.length()));
  m.centred = b.sub(x, m.mean);
  m.squares = rows.fold(ReduceKind::sum, b.mul(m.centred, m.centred));
  return m;
}

std::vector<int> trailing(std::size_t rank, std::size_t count) {
  std::vector<int> dims;
  for (std::size_t i = rank - count; i < rank; ++i) dims.push_back(static_cast<int>(i));
  return dims;
}

}  // namespace planish::codegen
