#include "codegen/lower/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "codegen/node_text.h"

namespace planish::codegen {

using ir::IndexExpr;

std::unexpected<Error> unsupported(std::string message) {
  return fail("unsupported", std::move(message));
}

std::int64_t product(std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

std::string_view base_name(std::string_view op) {
  if (!op.starts_with("aten.")) return {};
  op.remove_prefix(5);
  return op.substr(0, op.find('.'));
}

Lowering::Lowering(const ir::Graph& graph, const std::vector<bool>& inside, std::span<const int> given, ir::Space space)
    : graph_(graph),
      inside_(inside),
      given_(graph.values.size(), false),
      any_given_(!given.empty()),
      space_(std::move(space)),
      variables_(space_.extents.size()),
      producers_(graph.producers()) {
  for (const int id : given) given_[static_cast<std::size_t>(id)] = true;
}

bool Lowering::moves_at_run_time(const IndexExpr& e) const {
  for (std::size_t v = variables_; v < space_.extents.size(); ++v) {
    if (e.depends_on(static_cast<int>(v))) return true;
  }
  return false;
}

Result<int> Lowering::refuse(std::string message, std::size_t bounds) {
  bounds_.resize(bounds);
  return unsupported(std::move(message));
}

Result<IndexExpr> Lowering::at_run_time(int node, std::int64_t extent) {
  node = builder_.cast(node, DType::i64);
  const Node& n = builder_.at(node);
  // What needs no memory to know is an ordinary coordinate.
  if (n.op == Op::constant || n.op == Op::index) {
    const IndexExpr e = n.op == Op::index ? n.index : IndexExpr::constant(n.bits);
    if (always({e, 0, extent})) return e;
    if (n.op == Op::constant) return unsupported("a constant index out of range");
  }
  for (std::size_t i = 0; i < run_time_.size(); ++i) {
    if (run_time_[i] == node && space_.extents[variables_ + i] == extent)
      return IndexExpr::variable(static_cast<int>(variables_ + i));
  }
  run_time_.push_back(node);
  space_.extents.push_back(extent);
  return IndexExpr::variable(static_cast<int>(space_.extents.size()) - 1);
}

int Lowering::index(const IndexExpr& e) {
  if (!moves_at_run_time(e)) return builder_.index(e);
  std::vector<IndexExpr::Term> fixed;
  int sum = -1;
  for (const auto& term : e.terms()) {
    const IndexExpr alone = IndexExpr::build(0, {{term.atom, 1}});
    if (!moves_at_run_time(alone)) {
      fixed.push_back(term);
      continue;
    }
    int atom = -1;
    if (term.atom.kind == ir::Atom::Kind::variable) {
      atom = run_time_[static_cast<std::size_t>(term.atom.variable) - variables_];
    } else {
      const int by = builder_.integer(DType::i64, term.atom.divisor);
      atom = builder_.op(term.atom.kind == ir::Atom::Kind::div ? Op::floor_div : Op::remainder, index(*term.atom.inner),
                         by);
    }
    atom = builder_.op(Op::mul, atom, builder_.integer(DType::i64, term.coefficient));
    sum = sum < 0 ? atom : builder_.add(sum, atom);
  }
  return builder_.add(sum, builder_.index(IndexExpr::build(e.constant_term(), std::move(fixed))));
}

Result<Lowering::RunTimePlace> Lowering::place_of(const IndexExpr& offset) {
  RunTimePlace place;
  std::vector<IndexExpr::Term> fixed;
  for (const auto& term : offset.terms()) {
    const IndexExpr alone = IndexExpr::build(0, {{term.atom, 1}});
    if (!moves_at_run_time(alone)) {
      fixed.push_back(term);
      continue;
    }
    const auto [lo, hi] = alone.range(space_);
    if (lo < 0) return unsupported("a gathered place that may be negative");
    place.args.push_back(index(alone));
    place.strides.push_back(term.coefficient);
    place.limits.push_back(hi + 1);
  }
  // A coordinate under a div or mod is checked by itself, too: what comes out may be in range although it is not.
  for (std::size_t v = variables_; v < space_.extents.size(); ++v) {
    const int node = run_time_[v - variables_];
    if (!offset.depends_on(static_cast<int>(v)) || std::ranges::find(place.args, node) != place.args.end()) continue;
    place.args.push_back(node);
    place.strides.push_back(0);
    place.limits.push_back(space_.extents[v]);
  }
  place.fixed = IndexExpr::build(offset.constant_term(), std::move(fixed));
  return place;
}

Result<int> Lowering::load(int input, DType dtype, const IndexExpr& offset) {
  if (!moves_at_run_time(offset)) return builder_.load(input, dtype, offset, bounds_, 0);
  PLANISH_TRY(RunTimePlace place, place_of(offset));
  const int plain = builder_.load(input, dtype, std::move(place.fixed), bounds_, 0);
  return builder_.gather(plain, std::move(place.args), std::move(place.strides), std::move(place.limits));
}

bool Lowering::always(const ir::Bound& bound) const {
  return ir::always(bound, space_);
}

bool Lowering::never(const ir::Bound& bound) const {
  const auto [lo, hi] = bound.e.range(space_);
  return hi < bound.lo || lo >= bound.hi;
}

int Lowering::condition(const ir::Bound& bound) {
  const auto [lo, hi] = bound.e.range(space_);
  const int e = index(bound.e);
  int result = -1;
  if (lo < bound.lo) result = builder_.test(Op::ge, e, builder_.integer(DType::i64, bound.lo));
  if (hi >= bound.hi) {
    const int upper = builder_.test(Op::lt, e, builder_.integer(DType::i64, bound.hi));
    result = result < 0 ? upper : builder_.op(Op::logical_and, result, upper);
  }
  return result < 0 ? builder_.integer(DType::boolean, 1) : result;
}

IndexExpr Lowering::ravel(const Coords& coords, std::span<const std::int64_t> shape) const {
  IndexExpr linear;
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    linear = ir::add(linear, ir::scale(coords[i], stride), space_);
    stride *= shape[i];
  }
  return linear;
}

Coords Lowering::unravel(const IndexExpr& linear, std::span<const std::int64_t> shape) const {
  Coords coords(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const IndexExpr quotient = ir::floor_div(linear, stride, space_);
    coords[i] = stride * shape[i] > linear.range(space_).second ? quotient : ir::mod(quotient, shape[i], space_);
    stride *= shape[i];
  }
  return coords;
}

Result<int> Lowering::value(int id, Coords coords) {
  const ir::Value& v = info(id);
  if (v.dtype == DType::other) return unsupported(fmt::format("value {} has dtype {}", id, v.dtype_name));
  if (v.elements() == 0) return unsupported(fmt::format("value {} is empty", id));
  if (coords.size() != v.shape.size()) return unsupported(fmt::format("value {}: rank mismatch", id));
  std::string key = std::to_string(id);
  for (std::size_t i = 0; i < coords.size(); ++i) {
    if (v.shape[i] == 1) coords[i] = IndexExpr::constant(0);
    key += "," + coords[i].text();
  }
  key += bounds_text(bounds_);
  if (const auto known = memo_.find(key); known != memo_.end()) return known->second;

  const int producer = producers_[static_cast<std::size_t>(id)];
  Result<int> result = -1;
  if (producer < 0 || !inside_[static_cast<std::size_t>(producer)] || is_given(id)) {
    IndexExpr index;
    for (std::size_t i = 0; i < coords.size(); ++i) index = ir::add(index, ir::scale(coords[i], v.strides[i]), space_);
    auto at = std::find(inputs_.begin(), inputs_.end(), id);
    if (at == inputs_.end()) at = inputs_.insert(inputs_.end(), id);
    result = load(static_cast<int>(at - inputs_.begin()), v.dtype, index);
  } else {
    const ir::GraphNode& node = graph_.nodes[static_cast<std::size_t>(producer)];
    const auto name = base_name(node.op);
    Handler handler = nullptr;
    for (const HandlerTable* table :
         {&view_handlers(), &creation_handlers(), &movement_handlers(), &gather_handlers(), &pointwise_handlers(),
          &row_handlers(), &norm_handlers(), &scan_handlers(), &order_handlers(), &window_handlers()}) {
      if (const auto it = table->find(name); it != table->end()) handler = it->second;
    }
    if (const auto it = contraction_handlers().find(name); contracting_ && it != contraction_handlers().end())
      handler = it->second;
    if (const auto it = grouped_handlers().find(name); grouping_ && it != grouped_handlers().end())
      handler = it->second;
    if (const auto it = attention_handlers().find(name); attending_ && it != attention_handlers().end())
      handler = it->second;
    if (handler == nullptr) return unsupported(fmt::format("no lowering for {}", node.op));
    // Deep chains recurse; the partition cuts long before this, but a caller may not.
    if (depth_ > 2000) return unsupported("expression too deep");
    const auto out = std::find(node.outs.begin(), node.outs.end(), std::optional<int>(id));
    ++depth_;
    result = handler(
        Site{*this, node, static_cast<int>(out - node.outs.begin()), id, coords, v.dtype, Args(node), builder_});
    --depth_;
  }
  if (result) memo_.emplace(std::move(key), *result);
  return result;
}

Result<int> Lowering::value_as(int id, Coords coords, DType dtype) {
  PLANISH_TRY(const int node, value(id, std::move(coords)));
  return builder_.cast(node, dtype);
}

Result<int> Lowering::factor(int id, Coords coords, DType dtype) {
  PLANISH_TRY(const int node, value_as(id, std::move(coords), dtype));
  return builder_.as_stored(node, info(id).dtype);
}

Result<int> Lowering::operand(const ir::Arg* arg, const Coords& coords, DType dtype) {
  if (arg == nullptr) return unsupported("a missing operand");
  if (const auto* ref = std::get_if<ir::ValueRef>(&arg->data)) {
    const auto& shape = info(ref->id).shape;
    if (shape.size() > coords.size()) return unsupported("an operand of higher rank than the result");
    return value_as(ref->id, Coords(coords.end() - static_cast<std::ptrdiff_t>(shape.size()), coords.end()), dtype);
  }
  if (const auto* i = std::get_if<std::int64_t>(&arg->data)) return builder_.integer(compute_dtype(dtype), *i);
  if (const auto* d = std::get_if<double>(&arg->data)) return builder_.constant(dtype, *d);
  if (const auto* flag = std::get_if<bool>(&arg->data)) return builder_.integer(compute_dtype(dtype), *flag ? 1 : 0);
  return unsupported(fmt::format("operand `{}` is neither tensor nor number", arg->name));
}

Result<Coords> Lowering::row(const Coords& kept, std::span<const std::int64_t> kept_extents,
                             std::span<const std::int64_t> reduced_extents, Reach* reach) {
  if (guarded()) return unsupported("a reduction under a condition");
  const std::int64_t length = product(reduced_extents);
  std::vector<bool> used(variables_, false);
  for (const auto& e : kept) {
    if (moves_at_run_time(e)) return unsupported("a reduction of gathered rows");
    if (const auto split = find_split(e, space_)) {
      change_ = *split;
      return fail("space", "a row wants a split variable");
    }
    for (std::size_t v = 0; v < used.size(); ++v) used[v] = used[v] || e.depends_on(static_cast<int>(v));
  }
  if (attending_) return attended(used, reduced_extents, reach);
  if (pooling_ && reach != nullptr && (!inner_ || windows_)) {
    *reach = Reach::across;
    return folded(used, reduced_extents);
  }
  if (spreading_ && reach != nullptr) {
    *reach = Reach::across;
    return spread_over(used, kept_extents, reduced_extents);
  }
  if (!inner_) {
    std::vector<int> inner;
    std::int64_t extent = 1;
    for (std::size_t v = 0; v < used.size(); ++v) {
      if (used[v]) continue;
      inner.push_back(static_cast<int>(v));
      extent *= space_.extents[v];
    }
    if (extent == 1 && length > 1) {
      SpaceChange append;
      for (const std::int64_t e : reduced_extents) {
        if (e > 1) append.appended.push_back(e);
      }
      change_ = std::move(append);
      return fail("space", "a row to reduce");
    }
    if (extent != length) return unsupported("the row is not what remains of the space");
    inner_ = std::move(inner);
  }
  const bool moves = std::ranges::any_of(*inner_, [&](int v) { return used[static_cast<std::size_t>(v)]; });
  if (reach != nullptr) *reach = crossing_ && moves ? Reach::across : Reach::row;
  if (reach != nullptr && *reach == Reach::across) return crossed(used, kept_extents, reduced_extents);
  if (reach != nullptr && parting_) {
    PLANISH_TRY(auto part, parted(used, kept_extents, reduced_extents));
    if (part) {
      *reach = Reach::part;
      return std::move(*part);
    }
  }
  std::int64_t extent = 1;
  IndexExpr linear;
  for (std::size_t i = inner_->size(); i-- > 0;) {
    const int v = (*inner_)[i];
    if (used[static_cast<std::size_t>(v)]) return unsupported("two reductions with different rows");
    linear = ir::add(linear, ir::scale(IndexExpr::variable(v), extent), space_);
    extent *= space_.extents[static_cast<std::size_t>(v)];
  }
  if (extent != length) return unsupported("two reductions with rows of different length");
  const std::int64_t rows = product(std::span(space_.extents).first(variables_)) / extent;
  // What a factor of a product is made of, a norm's sum, is the same for all results that the factor is multiplied for.
  if ((has_contracted() || ranked_) && rows % product(kept_extents) == 0) return unravel(linear, reduced_extents);
  // Windows may leave out what is behind the last of them.
  if (windows_ ? rows > product(kept_extents) : rows != product(kept_extents))
    return unsupported("a reduction repeated for several rows");
  return unravel(linear, reduced_extents);
}

Result<Coords> Lowering::folded(const std::vector<bool>& used, std::span<const std::int64_t> reduced_extents) {
  if (!windows_) return window(reduced_extents);
  // Another fold over the same elements.
  std::int64_t extent = 1;
  IndexExpr linear;
  for (std::size_t i = windows_->size(); i-- > 0;) {
    const int v = (*windows_)[i];
    if (used[static_cast<std::size_t>(v)]) return unsupported("folds of what a window folds");
    linear = ir::add(linear, ir::scale(IndexExpr::variable(v), extent), space_);
    extent *= space_.extent(v);
  }
  if (extent != product(reduced_extents)) return unsupported("two folds of different elements");
  return unravel(linear, reduced_extents);
}

Result<Coords> Lowering::window(std::span<const std::int64_t> extents) {
  if (windows_) return unsupported("windows of windows");
  // Those that results do not move with: windows were asked for before rows.
  std::vector<int> open;
  for (std::size_t v = 0; v < variables_; ++v) {
    if (!own_[v]) open.push_back(static_cast<int>(v));
  }
  std::vector<int> found;
  Coords coords;
  SpaceChange append;
  for (const std::int64_t extent : extents) {
    coords.emplace_back();
    if (extent == 1) continue;
    append.appended.push_back(extent);
    // One variable, or the parts that it was split into.
    for (std::int64_t reached = 1; reached < extent && found.size() < open.size();) {
      const int v = open[found.size()];
      const std::int64_t own = space_.extent(v);
      if (own < 2 || extent % (reached * own) != 0)
        return unsupported("windows that are not what remains of the space");
      coords.back() = ir::add(ir::scale(coords.back(), own), IndexExpr::variable(v), space_);
      found.push_back(v);
      reached *= own;
    }
  }
  if (open.empty()) {
    change_ = std::move(append);
    return fail("space", "windows to fold");
  }
  std::int64_t all = 1;
  for (const int v : found) all *= space_.extent(v);
  if (all != product(append.appended)) return unsupported("windows that are not what remains of the space");
  windows_ = std::move(found);
  return coords;
}

Result<Coords> Lowering::attended(const std::vector<bool>& used, std::span<const std::int64_t> reduced_extents,
                                  Reach* reach) {
  const std::int64_t length = product(reduced_extents);
  if (length < 2) return unsupported("a product of single elements");
  const auto holds = [](const std::optional<std::vector<int>>& list, std::size_t v) {
    return list && std::ranges::find(*list, static_cast<int>(v)) != list->end();
  };
  bool within = false;  // what is folded is made for each element of a row
  for (std::size_t v = 0; v < used.size(); ++v) within = within || (used[v] && holds(inner_, v));
  std::optional<std::vector<int>>& variables = within ? parts_ : inner_;
  if (!variables) {
    // The first of those that nothing has: rows were asked for before what their elements are folded of.
    std::vector<int> open;
    std::int64_t extent = 1;
    for (std::size_t v = 0; v < used.size() && extent < length; ++v) {
      if (used[v] || own_[v] || holds(inner_, v)) continue;
      open.push_back(static_cast<int>(v));
      extent *= space_.extents[v];
    }
    if (open.empty()) {
      SpaceChange append;
      for (const std::int64_t e : reduced_extents) {
        if (e > 1) append.appended.push_back(e);
      }
      change_ = std::move(append);
      return fail("space", "a row to reduce");
    }
    if (extent != length) return unsupported("the row is not what remains of the space");
    variables = std::move(open);
  }
  if (within && reach == nullptr) return unsupported("a fold beside a product for each element of a row");
  IndexExpr linear;
  std::int64_t extent = 1;
  for (std::size_t i = variables->size(); i-- > 0;) {
    const int v = (*variables)[i];
    if (used[static_cast<std::size_t>(v)]) return unsupported("two reductions with different rows");
    linear = ir::add(linear, ir::scale(IndexExpr::variable(v), extent), space_);
    extent *= space_.extents[static_cast<std::size_t>(v)];
  }
  if (extent != length) return unsupported("two reductions with rows of different length");
  if (reach != nullptr) *reach = within ? Reach::part : Reach::row;
  return unravel(linear, reduced_extents);
}

Result<Coords> Lowering::spread_over(const std::vector<bool>& used, std::span<const std::int64_t> kept_extents,
                                     std::span<const std::int64_t> reduced_extents) {
  if (!inner_) return unsupported("folds ahead of a product");
  std::vector<bool> others = used;
  std::int64_t row = 1;
  for (const int v : *inner_) {
    if (used[static_cast<std::size_t>(v)]) return unsupported("folds for each element of a sum");
    others[static_cast<std::size_t>(v)] = true;
    row *= space_.extents[static_cast<std::size_t>(v)];
  }
  return across(others, row * product(kept_extents), reduced_extents);
}

Result<Coords> Lowering::crossed(const std::vector<bool>& used, std::span<const std::int64_t> kept_extents,
                                 std::span<const std::int64_t> reduced_extents) {
  for (const int v : *inner_) {
    if (!used[static_cast<std::size_t>(v)] && space_.extent(v) > 1) return unsupported("a reduction of parts of rows");
  }
  return across(used, product(kept_extents), reduced_extents);
}

Result<Coords> Lowering::across(const std::vector<bool>& used, std::int64_t kept,
                                std::span<const std::int64_t> reduced_extents) {
  std::vector<int> folded;
  std::int64_t extent = 1;
  IndexExpr linear;
  for (std::size_t v = used.size(); v-- > 0;) {
    if (used[v] || space_.extents[v] == 1) continue;
    const int variable = static_cast<int>(v);
    folded.insert(folded.begin(), variable);
    linear = ir::add(linear, ir::scale(IndexExpr::variable(variable), extent), space_);
    extent *= space_.extents[v];
  }
  if (across_ && *across_ != folded) return unsupported("two reductions across different rows");
  if (extent != product(reduced_extents))
    return unsupported("what lies across the rows is not what remains of the space");
  if (product(std::span(space_.extents).first(variables_)) / extent != kept)
    return unsupported("a reduction repeated for several columns");
  across_ = std::move(folded);
  return unravel(linear, reduced_extents);
}

Result<Sweep> Lowering::sweep(const IndexExpr& along, const Coords& kept) {
  std::vector<bool> used(variables_, false);
  const auto look = [&](const IndexExpr& e) -> Status {
    if (moves_at_run_time(e)) return unsupported("a running value at gathered places");
    if (const auto split = find_split(e, space_)) {
      change_ = *split;
      return fail("space", "a running value wants a split variable");
    }
    return {};
  };
  PLANISH_CHECK(look(along));
  for (const auto& e : kept) {
    PLANISH_CHECK(look(e));
    for (std::size_t v = 0; v < used.size(); ++v) used[v] = used[v] || e.depends_on(static_cast<int>(v));
  }
  std::vector<int> inner;
  for (std::size_t v = 0; v < used.size(); ++v) {
    const bool moves = along.depends_on(static_cast<int>(v));
    if (moves) inner.push_back(static_cast<int>(v));
    if (moves && used[v]) return unsupported("a running value along a diagonal");
    if (!moves && !used[v] && space_.extents[v] > 1) return unsupported("a running value repeated for several rows");
  }
  if (inner.empty()) return unsupported("a running value at one place");
  if (inner_ && *inner_ != inner) return unsupported("a running value along another row");
  std::int64_t extent = 1;
  IndexExpr linear;
  for (std::size_t i = inner.size(); i-- > 0;) {
    linear = ir::add(linear, ir::scale(IndexExpr::variable(inner[i]), extent), space_);
    extent *= space_.extents[static_cast<std::size_t>(inner[i])];
  }
  const IndexExpr forward = ir::add(along, ir::scale(linear, -1), space_), backward = ir::add(along, linear, space_);
  Sweep sweep;
  if (forward.is_constant()) {
    sweep = {false, forward.constant_term()};
  } else if (backward.is_constant()) {
    sweep = {true, backward.constant_term() - (extent - 1)};
  } else {
    return unsupported("a running value out of order");
  }
  if (sweep.shift > 0) return unsupported("a running value whose beginning is cut off");
  if (reversed_.value_or(sweep.reversed) != sweep.reversed) return unsupported("running values in both directions");
  inner_ = std::move(inner);
  reversed_ = sweep.reversed;
  return sweep;
}

int Args::value(std::string_view name) const {
  const ir::Arg* arg = get(name);
  const auto* ref = arg == nullptr ? nullptr : std::get_if<ir::ValueRef>(&arg->data);
  return ref == nullptr ? -1 : ref->id;
}

std::optional<std::int64_t> Args::integer(std::string_view name) const {
  const ir::Arg* arg = get(name);
  if (arg == nullptr) return std::nullopt;
  if (const auto* i = std::get_if<std::int64_t>(&arg->data)) return *i;
  if (const auto* b = std::get_if<bool>(&arg->data)) return *b ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Args::number(std::string_view name) const {
  const ir::Arg* arg = get(name);
  if (arg == nullptr) return std::nullopt;
  if (const auto* d = std::get_if<double>(&arg->data)) return *d;
  if (const auto i = integer(name)) return static_cast<double>(*i);
  return std::nullopt;
}

bool Args::flag(std::string_view name) const {
  return integer(name).value_or(0) != 0;
}

std::string Args::text(std::string_view name) const {
  const ir::Arg* arg = get(name);
  const auto* s = arg == nullptr ? nullptr : std::get_if<std::string>(&arg->data);
  return s == nullptr ? std::string() : *s;
}

std::optional<std::vector<std::int64_t>> Args::integers(std::string_view name) const {
  const ir::Arg* arg = get(name);
  if (arg == nullptr) return std::nullopt;
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&arg->data)) return *list;
  if (const auto* i = std::get_if<std::int64_t>(&arg->data)) return std::vector<std::int64_t>{*i};
  // An empty list has no kind of its own in the document.
  if (const auto* list = std::get_if<std::vector<double>>(&arg->data); list != nullptr && list->empty()) {
    return std::vector<std::int64_t>{};
  }
  return std::nullopt;
}

std::vector<int> Args::dims(std::string_view name, std::size_t rank) const {
  std::vector<int> result;
  const auto list = integers(name);
  if (!list || list->empty()) {
    result.resize(rank);
    std::iota(result.begin(), result.end(), 0);
    return result;
  }
  for (const std::int64_t d : *list) {
    if (rank == 0) continue;
    result.push_back(static_cast<int>(d < 0 ? d + static_cast<std::int64_t>(rank) : d));
  }
  std::sort(result.begin(), result.end());
  return result;
}

int Args::dim(std::string_view name, std::size_t rank, std::int64_t otherwise) const {
  const std::int64_t d = integer(name).value_or(otherwise);
  return static_cast<int>(d < 0 ? d + static_cast<std::int64_t>(rank) : d);
}

Input input_of(const ir::Value& value, int id) {
  Input input;
  input.dtype = value.dtype;
  input.shape = value.shape;
  input.strides = value.strides;
  input.storage_elements = 1;
  for (std::size_t i = 0; i < value.shape.size(); ++i)
    input.storage_elements += (value.shape[i] - 1) * value.strides[i];
  input.value = id;
  return input;
}

}  // namespace planish::codegen
