#include "codegen/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>

#include "codegen/attention/attention.h"
#include "codegen/attention/half.h"
#include "codegen/contraction/contraction.h"
#include "codegen/contraction/product.h"
#include "codegen/emit/expression.h"
#include "codegen/grouped/cpp_grouped.h"
#include "codegen/grouped/cuda_grouped.h"
#include "codegen/grouped/grouped.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/narrow_products.h"
#include "codegen/lower/recurrence.h"
#include "codegen/lower/segments.h"
#include "codegen/lower/space.h"
#include "codegen/lower/writes.h"
#include "codegen/order/order.h"
#include "codegen/row_and_column.h"
#include "codegen/skinny/skinny.h"

namespace planish::codegen {
namespace {

using ir::IndexExpr;

/// The space of the first output, and where each dim of that output lies in it.
struct Frame {
  ir::Space space;
  Coords coords;
  std::vector<std::int64_t> shape;
  std::optional<std::vector<int>> row;  ///< the variables of a whole row, where parts of rows are folded as well
};

/// Which kernels are looked for: those that fold one way, both ways, or parts of rows as well.
enum class LowerForm : std::uint8_t { plain, cross, parts, attention, pooled, spread };

Frame natural_frame(std::vector<std::int64_t> shape) {
  Frame frame;
  frame.shape = std::move(shape);
  for (const std::int64_t extent : frame.shape) {
    if (extent == 1) {
      frame.coords.push_back(IndexExpr());
    } else {
      frame.coords.push_back(IndexExpr::variable(static_cast<int>(frame.space.extents.size())));
      frame.space.extents.push_back(extent);
    }
  }
  return frame;
}

void apply(const SpaceChange& change, Frame& frame) {
  if (!change.row.empty()) {
    frame.row = change.row;
    return;
  }
  if (!change.appended.empty()) {
    frame.space.extents.insert(frame.space.extents.end(), change.appended.begin(), change.appended.end());
    return;
  }
  const int v = change.split_variable;
  if (frame.row) frame.row = split_variables(*frame.row, v);
  std::vector<IndexExpr> replacements;
  ir::Space split = frame.space;
  split.extents[static_cast<std::size_t>(v)] /= change.by;
  split.extents.insert(split.extents.begin() + v + 1, change.by);
  for (int u = 0; u < static_cast<int>(frame.space.extents.size()); ++u) {
    IndexExpr e = IndexExpr::variable(u > v ? u + 1 : u);
    if (u == v) e = ir::add(ir::scale(e, change.by), IndexExpr::variable(v + 1), split);
    replacements.push_back(std::move(e));
  }
  frame.space = std::move(split);
  for (auto& c : frame.coords) c = ir::substitute(c, replacements, frame.space);
}

IndexExpr offset_of(const ir::Value& value, const Coords& coords, const ir::Space& space) {
  IndexExpr offset;
  for (std::size_t i = 0; i < coords.size(); ++i) {
    if (value.shape[i] != 1) offset = ir::add(offset, ir::scale(coords[i], value.strides[i]), space);
  }
  return offset;
}

/// Distinct elements at distinct places: each stride reaches past everything inside it.
bool dense_enough(const ir::Value& value) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;
  for (std::size_t i = 0; i < value.shape.size(); ++i) {
    if (value.shape[i] > 1) dims.emplace_back(value.strides[i], value.shape[i]);
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t reach = 1;
  for (const auto& [stride, extent] : dims) {
    if (stride < reach) return false;
    reach = stride * extent;
  }
  return true;
}

void set_phases(Kernel& kernel) {
  // A reduction comes after those its argument needs: the walk that numbered them visited the argument first.
  std::vector<int> phase(kernel.nodes.size(), 0);
  std::size_t next = 0;
  for (std::size_t r = 0; r < kernel.reductions.size(); ++r) {
    const auto arg = static_cast<std::size_t>(kernel.reductions[r].arg);
    for (; next <= arg; ++next) {
      const Node& node = kernel.nodes[next];
      if (node.op == Op::reduced) phase[next] = kernel.reductions[static_cast<std::size_t>(node.reduction)].phase + 1;
      for (const int a : node.args) phase[next] = std::max(phase[next], phase[static_cast<std::size_t>(a)]);
    }
    kernel.reductions[r].phase = phase[arg];
  }
}

/// The same where rows and columns are folded: each of the two kinds counts its own.
void set_row_column_phases(Kernel& kernel) {
  std::vector<int> along(kernel.nodes.size(), 0), across(kernel.nodes.size(), 0);
  std::size_t next = 0;
  for (Reduction& reduction : kernel.reductions) {
    const auto arg = static_cast<std::size_t>(reduction.arg);
    for (; next <= arg; ++next) {
      const Node& node = kernel.nodes[next];
      if (node.op == Op::reduced) {
        const Reduction& needed = kernel.reductions[static_cast<std::size_t>(node.reduction)];
        (needed.across ? across : along)[next] = needed.phase + 1;
      }
      for (const int a : node.args) {
        along[next] = std::max(along[next], along[static_cast<std::size_t>(a)]);
        across[next] = std::max(across[next], across[static_cast<std::size_t>(a)]);
      }
    }
    reduction.phase = (reduction.across ? across : along)[arg];
  }
}

/// Renumbers a kernel by a walk from its outputs: what nothing needs is dropped, and the order no longer depends on how
/// it was built.
class Renumber {
 public:
  explicit Renumber(Kernel& kernel)
      : kernel_(kernel),
        nodes_(kernel.nodes.size(), -1),
        folds_(kernel.reductions.size(), -1),
        scans_(kernel.scans.size(), -1),
        inputs_(kernel.inputs.size(), -1) {}

  void run() {
    for (Output& output : kernel_.outputs) {
      output.node = visit(output.node);
      for (int& arg : output.args) arg = visit(arg);
    }
    kernel_.nodes = std::move(new_nodes_);
    kernel_.reductions = std::move(new_reductions_);
    kernel_.scans = std::move(new_scans_);
    kernel_.inputs = std::move(new_inputs_);
  }

 private:
  int visit(int n) {
    int& number = nodes_[static_cast<std::size_t>(n)];
    if (number >= 0) return number;
    Node node = kernel_.nodes[static_cast<std::size_t>(n)];
    for (int& a : node.args) a = visit(a);
    if (node.op == Op::reduced) {
      int& fold = folds_[static_cast<std::size_t>(node.reduction)];
      if (fold < 0) {
        Reduction reduction = kernel_.reductions[static_cast<std::size_t>(node.reduction)];
        reduction.arg = visit(reduction.arg);
        if (reduction.at >= 0) reduction.at = visit(reduction.at);
        if (reduction.rank >= 0) reduction.rank = visit(reduction.rank);
        fold = static_cast<int>(new_reductions_.size());
        new_reductions_.push_back(reduction);
      }
      node.reduction = fold;
    }
    if (node.op == Op::scanned) {
      int& known = scans_[static_cast<std::size_t>(node.scan)];
      if (known < 0) {
        Scan scan = kernel_.scans[static_cast<std::size_t>(node.scan)];
        scan.arg = visit(scan.arg);
        if (scan.at >= 0) scan.at = visit(scan.at);
        known = static_cast<int>(new_scans_.size());
        new_scans_.push_back(scan);
      }
      node.scan = known;
    }
    if (node.op == Op::load) {
      int& input = inputs_[static_cast<std::size_t>(node.input)];
      if (input < 0) {
        input = static_cast<int>(new_inputs_.size());
        new_inputs_.push_back(kernel_.inputs[static_cast<std::size_t>(node.input)]);
      }
      node.input = input;
    }
    number = static_cast<int>(new_nodes_.size());
    new_nodes_.push_back(std::move(node));
    return number;
  }

  Kernel& kernel_;
  std::vector<int> nodes_, folds_, scans_, inputs_;
  std::vector<Node> new_nodes_;
  std::vector<Reduction> new_reductions_;
  std::vector<Scan> new_scans_;
  std::vector<Input> new_inputs_;
};

/// A sweep folds what does not need the sweep's own results.
Status check_scans(const Kernel& kernel) {
  std::vector<bool> running(kernel.nodes.size(), false);
  for (std::size_t n = 0; n < running.size(); ++n) {
    running[n] = kernel.nodes[n].op == Op::scanned;
    for (const int a : kernel.nodes[n].args) running[n] = running[n] || running[static_cast<std::size_t>(a)];
  }
  for (const Reduction& r : kernel.reductions) {
    if (running[static_cast<std::size_t>(r.arg)] || (r.at >= 0 && running[static_cast<std::size_t>(r.at)]))
      return unsupported("a reduction of running values");
  }
  for (const Scan& s : kernel.scans) {
    if (running[static_cast<std::size_t>(s.arg)]) return unsupported("a running value of running values");
  }
  return {};
}

bool depends_on_any(const IndexExpr& e, const std::vector<int>& variables) {
  return std::any_of(variables.begin(), variables.end(), [&](int v) { return e.depends_on(v); });
}

/// The load that a row sweep mostly reads: the largest one that moves with the row.
const IndexExpr* main_load(const Kernel& kernel, const std::vector<int>& inner) {
  const IndexExpr* best = nullptr;
  std::int64_t most = -1;
  for (const Node& node : kernel.nodes) {
    if (node.op != Op::load || !depends_on_any(node.index, inner)) continue;
    const std::int64_t size = kernel.inputs[static_cast<std::size_t>(node.input)].storage_elements;
    if (size > most) {
      most = size;
      best = &node.index;
    }
  }
  return best;
}

/// True where memory runs along an outer variable rather than along the row.
bool runs_across(const IndexExpr& e, const std::vector<bool>& is_inner) {
  std::int64_t inner_least = std::numeric_limits<std::int64_t>::max(), outer_least = inner_least;
  for (const auto& term : e.terms()) {
    if (term.atom.kind != ir::Atom::Kind::variable) continue;
    const std::int64_t stride = std::abs(term.coefficient);
    auto& least = is_inner[static_cast<std::size_t>(term.atom.variable)] ? inner_least : outer_least;
    least = std::min(least, stride);
  }
  return outer_least < inner_least;
}

/// Orders the variables by their stride in `by`, widest first; those it does not move with keep their place in front.
void sort_by_stride(std::vector<int>& variables, const IndexExpr& by) {
  std::stable_sort(variables.begin(), variables.end(), [&](int a, int b) {
    const auto stride = [&](int v) {
      const std::int64_t c = std::abs(by.coefficient_of(v));
      return c == 0 ? std::numeric_limits<std::int64_t>::max() : c;
    };
    return stride(a) > stride(b);
  });
}

/// Outer variables in front, in the order of the first output (or of the main load where memory runs along them and the
/// outputs are smaller), then the row in the order of its main load.
Status order_variables(Kernel& kernel, const std::optional<std::vector<int>>& inner) {
  std::vector<bool> is_inner(kernel.space.extents.size(), false);
  std::vector<int> outer, row;
  if (inner && kernel.has_rows()) {
    for (const int v : *inner) is_inner[static_cast<std::size_t>(v)] = true;
  }
  for (std::size_t v = 0; v < is_inner.size(); ++v) (is_inner[v] ? row : outer).push_back(static_cast<int>(v));
  const IndexExpr* by = &kernel.outputs[0].index;
  if (!row.empty()) {
    const IndexExpr* load = main_load(kernel, row);
    if (load == nullptr) return unsupported("a reduction of values that do not move with the row");
    if (!depends_on_any(*by, row) && runs_across(*load, is_inner)) by = load;
    if (kernel.anchor == Anchor::row) sort_by_stride(row, *load);  // a scan has its order
  }
  sort_by_stride(outer, *by);
  kernel.inner = static_cast<int>(row.size());
  outer.insert(outer.end(), row.begin(), row.end());
  permute_variables(kernel, outer);
  return {};
}

/// Common variables in front, then those that are folded across rows, then the row: the last two in the order of the
/// main load. What runs along memory becomes the row; error `unsupported` where the result is no cross kernel.
Status order_row_and_column(Kernel& kernel, const std::vector<int>& inner, const std::vector<int>& across) {
  std::vector<int> order, folded = across, row = inner;
  const auto has = [](const std::vector<int>& list, int v) { return std::ranges::find(list, v) != list.end(); };
  for (int v = 0; v < static_cast<int>(kernel.space.extents.size()); ++v) {
    if (!has(inner, v) && !has(across, v)) order.push_back(v);
  }
  const IndexExpr* load = main_load(kernel, row);
  if (load == nullptr) return unsupported("a reduction of values that do not move with the row");
  sort_by_stride(order, *load);
  sort_by_stride(folded, *load);
  sort_by_stride(row, *load);
  order.insert(order.end(), folded.begin(), folded.end());
  order.insert(order.end(), row.begin(), row.end());
  kernel.inner = static_cast<int>(row.size());
  kernel.across = static_cast<int>(folded.size());
  permute_variables(kernel, order);
  const int all = static_cast<int>(order.size());
  for (Output& output : kernel.outputs) {
    const auto moves = [&](int from, int to) {
      for (int v = from; v < to; ++v) {
        if (output.index.depends_on(v)) return true;
      }
      return false;
    };
    output.per_row = !moves(all - kernel.inner, all);
    output.per_column = !moves(all - kernel.inner - kernel.across, all - kernel.inner);
  }
  if (const auto why = row_column_broken(kernel); !why.empty()) {
    turn_over(kernel);
    if (!row_column_broken(kernel).empty()) return unsupported(why);
  }
  merge_variables(kernel);
  return {};
}

/// Coordinates of a value in some of the variables, each dim meeting one of its extent, the first or the last that is
/// left. Nothing where a dim meets none.
std::optional<Coords> meet_dims(const Lowering& low, std::vector<int> variables, std::span<const std::int64_t> shape,
                                bool last) {
  Coords coords(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t d = last ? shape.size() - 1 - i : i;
    if (shape[d] == 1) continue;
    const auto fits = [&](int v) { return low.space().extents[static_cast<std::size_t>(v)] == shape[d]; };
    auto at = std::ranges::find_if(variables, fits);
    if (last) {
      const auto back = std::find_if(variables.rbegin(), variables.rend(), fits);
      at = back == variables.rend() ? variables.end() : back.base() - 1;
    }
    if (at == variables.end()) return std::nullopt;
    coords[d] = IndexExpr::variable(*at);
    variables.erase(at);
  }
  return coords;
}

/// The same where the dims meet the variables' settings in their order.
Coords flat_dims(const Lowering& low, const std::vector<int>& variables, std::span<const std::int64_t> shape) {
  IndexExpr linear;
  std::int64_t stride = 1;
  for (std::size_t i = variables.size(); i-- > 0;) {
    linear = ir::add(linear, ir::scale(IndexExpr::variable(variables[i]), stride), low.space());
    stride *= low.space().extents[static_cast<std::size_t>(variables[i])];
  }
  return low.unravel(linear, shape);
}

/// The variables of a column that has so many elements: the row's, and the first of the others. Nothing where none fit.
std::optional<std::vector<int>> column_variables(const Lowering& low, std::size_t count, std::int64_t elements) {
  const auto& inner = *low.inner();
  std::int64_t reached = 1;
  for (const int v : inner) reached *= low.space().extents[static_cast<std::size_t>(v)];
  std::vector<int> variables = inner;
  for (int v = 0; v < static_cast<int>(count) && reached < elements; ++v) {
    if (std::ranges::find(inner, v) != inner.end()) continue;
    variables.push_back(v);
    reached *= low.space().extents[static_cast<std::size_t>(v)];
  }
  if (reached != elements) return std::nullopt;
  std::ranges::sort(variables);
  return variables;
}

/// Of several readings of an output that may be a row's or a column's, the one that loads least: the others read the
/// elements again, in another order.
std::optional<Coords> least_loading(const Lowering& low, int id, const std::vector<Coords>& readings) {
  std::optional<Coords> best;
  std::ptrdiff_t least = std::numeric_limits<std::ptrdiff_t>::max();
  for (const Coords& coords : readings) {
    Lowering trial = low;
    const auto node = trial.value(id, coords);
    if (!node && node.error().kind != "space") continue;
    const auto loads = std::ranges::count(trial.builder().nodes(), Op::load, &Node::op);
    if (loads < least) least = loads, best = coords;
  }
  return best;
}

/// How an output that is smaller than the space may lie in it.
std::optional<Coords> reading(const Lowering& low, int id, const Frame& frame) {
  const ir::Value& value = low.info(id);
  std::vector<Coords> readings;
  const auto add = [&](std::optional<Coords> coords) {
    if (coords) readings.push_back(std::move(*coords));
  };
  if (value.elements() == product(frame.shape))
    add(value.shape == frame.shape ? frame.coords : low.unravel(low.ravel(frame.coords, frame.shape), value.shape));
  if (!low.inner()) {
    std::vector<int> all(frame.space.extents.size());
    std::iota(all.begin(), all.end(), 0);
    if (value.elements() != product(frame.shape)) {
      add(meet_dims(low, all, value.shape, false));
      add(meet_dims(low, all, value.shape, true));
    }
  } else if (const auto column = column_variables(low, frame.space.extents.size(), value.elements())) {
    auto coords = meet_dims(low, *column, value.shape, false);
    add(coords ? std::move(coords) : flat_dims(low, *column, value.shape));
  }
  if (readings.size() < 2) return readings.empty() ? std::nullopt : std::optional(readings.front());
  return least_loading(low, id, readings);
}

/// How an output that is smaller than the space may lie in it while no reduction has fixed a row: it has some of the
/// variables, all others being the row. Several sets may fit, of which the right one loads what others have loaded.
std::optional<Coords> first_reading(const Lowering& low, int id, const Frame& frame) {
  constexpr std::size_t most_variables = 8;
  constexpr std::size_t most_readings = 12;
  const ir::Value& value = low.info(id);
  const auto& extents = frame.space.extents;
  std::vector<int> moving;
  for (int v = 0; v < static_cast<int>(extents.size()); ++v) {
    if (extents[static_cast<std::size_t>(v)] > 1) moving.push_back(v);
  }
  if (moving.size() > most_variables) return std::nullopt;
  std::vector<Coords> readings;
  const auto add = [&](std::optional<Coords> coords) {
    if (coords && readings.size() < most_readings && std::ranges::find(readings, *coords) == readings.end())
      readings.push_back(std::move(*coords));
  };
  // The first variables come first: rows are what is mostly folded.
  for (std::uint32_t set = (std::uint32_t{1} << moving.size()) - 1; set-- > 0;) {
    std::vector<int> variables;
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < moving.size(); ++i) {
      if ((set >> (moving.size() - 1 - i) & 1) == 0) continue;
      variables.push_back(moving[i]);
      elements *= extents[static_cast<std::size_t>(moving[i])];
    }
    if (elements == value.elements()) add(flat_dims(low, variables, value.shape));
  }
  if (readings.empty()) return std::nullopt;
  // Its dims may be in another order.
  add(meet_dims(low, moving, value.shape, false));
  add(meet_dims(low, moving, value.shape, true));
  return readings.size() == 1 ? std::optional(readings.front()) : least_loading(low, id, readings);
}

/// How an output that is smaller than the space lies in it where its elements are sums over a product's results: of
/// several ways the one that makes each result once. A dim may be the first part of a variable, which then is split.
std::optional<Coords> reading_of_sums(Lowering& low, int id, const Frame& frame) {
  if (!low.inner()) return std::nullopt;
  const ir::Value& value = low.info(id);
  std::vector<int> outer;
  for (int v = 0; v < static_cast<int>(frame.space.extents.size()); ++v) {
    if (std::ranges::find(*low.inner(), v) == low.inner()->end()) outer.push_back(v);
  }
  std::vector<Coords> readings;
  const auto add = [&](std::optional<Coords> coords) {
    if (coords) readings.push_back(std::move(*coords));
  };
  add(meet_dims(low, outer, value.shape, false));
  add(meet_dims(low, outer, value.shape, true));
  add(leading_coords(low, value));
  for (Coords& coords : readings) {
    Lowering trial = low;
    const auto node = trial.value(id, coords);
    if (!node && node.error().kind != "space") continue;
    if (std::ranges::count(trial.builder().reductions(), false, &Reduction::across) == 1) return std::move(coords);
  }
  // Groups of channels.
  std::int64_t reached = 1;
  for (const int v : outer) {
    const std::int64_t extent = frame.space.extent(v), left = value.elements() / reached;
    if (value.elements() % reached != 0 || left <= 1) break;
    if (extent > left && extent % left == 0) {
      low.want_split(v, extent / left);
      return std::nullopt;
    }
    reached *= extent;
  }
  return std::nullopt;
}

/// Loads, those that lie beside each other (taps of one window) counted once.
int places_read(const Kernel& kernel) {
  std::vector<std::pair<int, IndexExpr>> seen;
  for (const Node& node : kernel.nodes) {
    if (node.op != Op::load) continue;
    std::pair<int, IndexExpr> place{
        node.input, ir::add(node.index, IndexExpr::constant(-node.index.constant_term()), kernel.space)};
    if (gathers(node) || std::ranges::find(seen, place) == seen.end()) seen.push_back(std::move(place));
  }
  return static_cast<int>(seen.size());
}

/// A kernel that folds products, and nothing else. Where one of the factors is a vector it stays what rows are folded
/// by.
Status become_contraction(Kernel& kernel) {
  if (kernel.anchor == Anchor::pointwise) return {};  // a sum of one product
  if (skinny_of(kernel)) return {};                   // by whatever anchor: a row is what it folds
  if (kernel.reductions.size() != 1 || !kernel.scans.empty()) return unsupported("a matrix product beside other folds");
  if (!std::ranges::all_of(kernel.outputs, &Output::per_row))
    return unsupported("a matrix product beside outputs of its factors' size");
  if (const auto grouped = grouped_of(kernel)) {
    if (!cpp_grouped_lacks(kernel, *grouped).empty() && !device_grouped_of(*grouped))
      return unsupported("a product of groups, and more than a schedule of its own computes");
    kernel.anchor = Anchor::contraction;
  } else if (contraction::product_of(kernel)) {
    kernel.anchor = Anchor::contraction;
  }
  return {};
}

/// Outer variables in the order of the first output, then these, then those: the kernel's counts of them are set.
void order_behind_results(Kernel& kernel, const std::vector<int>& these, const std::vector<int>& those) {
  std::vector<int> order;
  const auto has = [](const std::vector<int>& list, int v) { return std::ranges::find(list, v) != list.end(); };
  for (int v = 0; v < static_cast<int>(kernel.space.extents.size()); ++v) {
    if (!has(these, v) && !has(those, v)) order.push_back(v);
  }
  sort_by_stride(order, kernel.outputs[0].index);
  order.insert(order.end(), these.begin(), these.end());
  order.insert(order.end(), those.begin(), those.end());
  permute_variables(kernel, order);
  merge_variables(kernel);
}

/// Whether every output has one element for each setting of all variables but the last `folded` ones; `larger` says
/// what an output is that moves with those.
Status check_results(const Kernel& kernel, int folded, const char* larger) {
  const int all = static_cast<int>(kernel.space.extents.size());
  const auto points = product(std::span(kernel.space.extents).first(static_cast<std::size_t>(all - folded)));
  for (const Output& output : kernel.outputs) {
    for (int v = all - folded; v < all; ++v) {
      if (output.index.depends_on(v)) return unsupported(larger);
    }
    if (product(output.shape) != points) return unsupported("an output that would be written several times");
  }
  return {};
}

/// Results, keys, features. `packed`: a search finds the sequence of each query.
Status become_attention(Kernel& kernel, const std::vector<int>& keys, const std::vector<int>& features, bool packed,
                        bool wide) {
  kernel.inner = static_cast<int>(keys.size() + features.size());
  kernel.parts = static_cast<int>(features.size());
  kernel.anchor = Anchor::attention;
  order_behind_results(kernel, keys, features);
  PLANISH_CHECK(check_results(kernel, kernel.inner, "attention beside outputs of its scores' size"));
  for (Output& output : kernel.outputs) output.per_row = true;
  PLANISH_TRY(const Attention attention, attention_of(kernel));
  if (attention.scores.depth > most_features && !wide)
    return unsupported("attention of heads that no block has room for");
  // Any other kernel multiplies each query with the keys of all sequences.
  if (const auto half = attention::half_attention_of(kernel, attention); packed && !half)
    return std::unexpected(half.error());
  return {};
}

/// Results, places within windows, the sum.
Status become_pooled(Kernel& kernel, const std::vector<int>& windows, const std::vector<int>& sum) {
  kernel.inner = static_cast<int>(sum.size());
  kernel.across = static_cast<int>(windows.size());
  kernel.anchor = Anchor::contraction;
  order_behind_results(kernel, windows, sum);
  PLANISH_CHECK(check_results(kernel, kernel.inner + kernel.across, "folds beside outputs of their elements' size"));
  for (Output& output : kernel.outputs) output.per_row = output.per_column = true;
  PLANISH_TRY(const contraction::Product made, contraction::product_of(kernel));
  return contraction::computable(made);
}

/// The same where some outputs have an element for each result, which do not need what is folded; `across`: variables
/// of the results that the others are sums over.
Status become_spread(Kernel& kernel, const std::vector<int>& across, const std::vector<int>& sum) {
  kernel.inner = static_cast<int>(sum.size());
  kernel.across = static_cast<int>(across.size());
  kernel.anchor = Anchor::contraction;
  order_behind_results(kernel, across, sum);
  const int all = static_cast<int>(kernel.space.extents.size()), results = all - kernel.inner;
  const auto points = [&](int outer) { return product(std::span(kernel.space.extents).first(std::size_t(outer))); };
  for (Output& output : kernel.outputs) {
    bool moves = false;
    for (int v = results - kernel.across; v < results; ++v) moves = moves || output.index.depends_on(v);
    output.per_row = true;
    output.per_column = !moves;
    if (product(output.shape) != points(moves ? results : results - kernel.across))
      return unsupported("an output that would be written several times");
    const std::vector<int> root{output.node};
    for (const int id : printing::closure(kernel, root, [](int) { return false; })) {
      const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
      if (moves && node.op == Op::reduced && kernel.reductions[static_cast<std::size_t>(node.reduction)].across)
        return unsupported("elements that need what all of them are folded to");
    }
  }
  PLANISH_TRY(const contraction::Product made, contraction::product_of(kernel));
  return contraction::computable(made);
}

/// One attempt over a fixed frame.
class Attempt {
 public:
  Attempt(const ir::Graph& graph, const std::vector<bool>& inside, std::span<const int> given, const Frame& frame,
          const LowerLimits& limits, LowerForm form, int whole)
      : low_(graph, inside, given, frame.space),
        inside_(inside),
        given_(given),
        frame_(frame),
        limits_(limits),
        form_(form),
        whole_(whole),
        points_(product(frame.shape)) {
    if (form == LowerForm::cross) low_.cross();
    if (form == LowerForm::parts) low_.part(frame.row);
    if (limits.contractions && form != LowerForm::cross && form != LowerForm::parts) low_.contract();
    if (limits.grouped && form == LowerForm::plain) low_.group();
    if (form == LowerForm::spread) low_.spread();
    if (form == LowerForm::attention || form == LowerForm::pooled) {
      std::vector<bool> own(frame.space.extents.size(), false);
      for (const IndexExpr& e : frame.coords) {
        for (std::size_t v = 0; v < own.size(); ++v) own[v] = own[v] || e.depends_on(static_cast<int>(v));
      }
      form == LowerForm::attention ? low_.attend(std::move(own)) : low_.pool(std::move(own));
    }
  }

  Result<Kernel> run(const std::vector<int>& outputs) {
    PLANISH_CHECK(lower_outputs(outputs));
    take_nodes();
    PLANISH_CHECK(check_space());
    PLANISH_CHECK(check_scans(kernel_));
    if (has_ranks(kernel_) && form_ != LowerForm::plain)
      return unsupported("elements by their rank beside other folds");
    if (writes_places(kernel_)) {
      PLANISH_CHECK(become_scatter(kernel_, low_.graph()));
      return std::move(kernel_);
    }
    switch (form_) {
      case LowerForm::cross:
        PLANISH_CHECK(become_row_and_column());
        break;
      case LowerForm::parts:
        set_phases(kernel_);
        if (!low_.inner() || !low_.parts() || kernel_.anchor == Anchor::scan) return unsupported("no parts are folded");
        PLANISH_CHECK(order_segments(kernel_, *low_.inner(), *low_.parts()));
        break;
      case LowerForm::attention:
        set_phases(kernel_);
        if (!low_.inner() || !low_.parts() || kernel_.anchor == Anchor::scan) return unsupported("no attention");
        PLANISH_CHECK(become_attention(kernel_, *low_.inner(), *low_.parts(), low_.has_packed(), limits_.wide_heads));
        break;
      case LowerForm::pooled:
        set_phases(kernel_);
        if (!low_.inner() || !low_.windows() || !low_.has_contracted() || kernel_.anchor == Anchor::scan)
          return unsupported("no folds of sums of products");
        PLANISH_CHECK(become_pooled(kernel_, *low_.windows(), *low_.inner()));
        break;
      case LowerForm::spread:
        set_phases(kernel_);
        if (!low_.inner() || !low_.across() || !low_.has_contracted() || kernel_.anchor == Anchor::scan)
          return unsupported("no sums over a product's results");
        PLANISH_CHECK(become_spread(kernel_, *low_.across(), *low_.inner()));
        break;
      case LowerForm::plain:
        set_phases(kernel_);
        PLANISH_CHECK(become_plain());
    }
    return std::move(kernel_);
  }

  /// Set where the space must be another.
  const std::optional<SpaceChange>& change() const { return change_; }

 private:
  /// Where an output's elements lie in the space.
  struct Reading {
    Coords coords;
    bool first = false;  ///< of the outputs that say what the row is
  };

  Status lower_outputs(const std::vector<int>& outputs) {
    std::vector<int> todo = outputs;
    // Sums alone do not say over what.
    if (form_ == LowerForm::spread && std::ranges::find(outputs, whole_) == outputs.end()) {
      if (const auto made = low_.value(whole_, frame_.coords); !made) {
        change_ = low_.change();
        return std::unexpected(made.error());
      }
    }
    for (std::size_t next = 0; next < todo.size(); ++next) {
      const int id = todo[next];
      const ir::Value& value = low_.info(id);
      if (const auto write = write_inside(low_.graph(), inside_, given_, id)) {
        PLANISH_CHECK(lower_write_of(id, *write));
        continue;
      }
      const bool again = next >= outputs.size();
      const auto read = reading_of(id, value, again);
      if (!read) {
        change_ = low_.change();
        return std::unexpected(read.error());
      }
      auto node = low_.value(id, read->coords);
      if (!node) {
        change_ = low_.change();
        return std::unexpected(node.error());
      }
      if (read->first && !low_.inner()) {  // it folds nothing: others say whether it has one element a row
        todo.push_back(id);
        continue;
      }
      Output output;
      output.node = *node;
      output.dtype = value.dtype;
      output.shape = value.shape;
      output.strides = value.strides;
      output.index = offset_of(value, read->coords, low_.space());
      output.value = id;
      kernel_.outputs.push_back(std::move(output));
    }
    return {};
  }

  Status lower_write_of(int id, const Write& write) {
    if (product(write.shape) != points_) return unsupported("places written beside outputs of another space");
    auto output = lower_write(low_, write, id, low_.unravel(low_.ravel(frame_.coords, frame_.shape), write.shape));
    change_ = low_.change();
    if (!output) return std::unexpected(output.error());
    kernel_.outputs.push_back(std::move(*output));
    return {};
  }

  Result<Reading> reading_of(int id, const ir::Value& value, bool again) {
    const bool cross = form_ == LowerForm::cross;
    if (cross && value.elements() != product(frame_.space.extents)) {
      if (auto read = reading(low_, id, frame_)) return Reading{std::move(*read)};
    }
    if (value.shape == frame_.shape) return Reading{frame_.coords};
    if (value.elements() == points_) return Reading{low_.unravel(low_.ravel(frame_.coords, frame_.shape), value.shape)};
    if (form_ == LowerForm::spread) {
      if (auto read = reading_of_sums(low_, id, frame_)) return Reading{std::move(*read)};
      return low_.change() ? Result<Reading>(fail("space", "sums over parts of a dim")) : unsupported("other sums");
    }
    if (form_ == LowerForm::parts) {
      if (auto leading = leading_coords(low_, value)) return Reading{std::move(*leading)};
    }
    if (low_.inner()) return one_for_each_row(value);
    if (!cross && limits_.unneeded_rows && !again) {
      if (auto some = first_reading(low_, id, frame_)) return Reading{std::move(*some), true};
    }
    return unsupported("outputs of different spaces");
  }

  Result<Reading> one_for_each_row(const ir::Value& value) const {
    const auto& row = *low_.inner();
    IndexExpr linear;
    std::int64_t extent = 1;
    for (std::size_t v = frame_.space.extents.size(); v-- > 0;) {
      if (std::ranges::find(row, static_cast<int>(v)) != row.end()) continue;
      linear = ir::add(linear, ir::scale(IndexExpr::variable(static_cast<int>(v)), extent), low_.space());
      extent *= frame_.space.extents[v];
    }
    if (extent != value.elements()) return unsupported("outputs of different spaces");
    return Reading{low_.unravel(linear, value.shape)};
  }

  /// Inputs, and what the walk from the outputs has built.
  void take_nodes() {
    for (const int id : low_.input_values()) kernel_.inputs.push_back(input_of(low_.info(id), id));
    kernel_.space = frame_.space;
    kernel_.nodes = std::move(low_.builder().nodes());
    kernel_.reductions = std::move(low_.builder().reductions());
    kernel_.scans = std::move(low_.builder().scans());
    Renumber(kernel_).run();
    kernel_.anchor = !kernel_.scans.empty()        ? Anchor::scan
                     : has_ranks(kernel_)          ? Anchor::order
                     : !kernel_.reductions.empty() ? Anchor::row
                                                   : Anchor::pointwise;
    kernel_.reversed = kernel_.anchor == Anchor::scan && low_.reversed();
  }

  /// Whether it is small enough, and the space what its indices want.
  Status check_space() {
    const int most = kernel_.has_rows() ? std::min(limits_.max_loads, limits_.max_row_loads) : limits_.max_loads;
    const auto loads = std::ranges::count(kernel_.nodes, Op::load, &Node::op);
    if (places_read(kernel_) > most || loads > limits_.max_taps ||
        static_cast<int>(kernel_.nodes.size()) > limits_.max_nodes)
      return unsupported("larger than one kernel should be");
    // A variable that no output needs would be a row that nothing folds.
    if (kernel_.anchor == Anchor::pointwise && product(kernel_.space.extents) != points_)
      return unsupported("a row that nothing folds");
    for (const IndexExpr* e : index_expressions(kernel_)) {
      if ((change_ = find_split(*e, kernel_.space))) return fail("space", "an index wants a split variable");
    }
    return {};
  }

  Status become_row_and_column() {
    const bool folds_across = std::ranges::any_of(kernel_.reductions, &Reduction::across);
    if (!folds_across || !low_.inner() || !low_.across() || kernel_.anchor == Anchor::scan)
      return unsupported("nothing is folded across rows");
    kernel_.anchor = Anchor::row_and_column;
    set_row_column_phases(kernel_);
    return order_row_and_column(kernel_, *low_.inner(), *low_.across());
  }

  Status become_plain() {
    PLANISH_CHECK(order_variables(kernel_, low_.inner()));
    merge_variables(kernel_);
    const int all = static_cast<int>(kernel_.space.extents.size());
    for (Output& output : kernel_.outputs) {
      bool moves = false;
      for (int v = all - kernel_.inner; v < all; ++v) moves = moves || output.index.depends_on(v);
      output.per_row = kernel_.has_rows() && !moves;
      const std::int64_t rows = kernel_.outer_extent();
      if (product(output.shape) != (output.per_row ? rows : rows * kernel_.inner_extent()))
        return unsupported("an output that would be written several times");
    }
    if (has_ranks(kernel_)) return check_order(kernel_, limits_.longest_order);
    if (low_.has_contracted()) PLANISH_CHECK(become_contraction(kernel_));
    return {};
  }

  Lowering low_;
  const std::vector<bool>& inside_;
  const std::span<const int> given_;
  const Frame& frame_;
  const LowerLimits& limits_;
  const LowerForm form_;
  const int whole_;  ///< the value that the frame is of
  const std::int64_t points_;
  Kernel kernel_;
  std::optional<SpaceChange> change_;
};

/// Attempts over one frame after another, until the space is what the values need. The first is that of the value
/// `whole`.
Result<Kernel> settle(const ir::Graph& graph, const std::vector<bool>& inside, std::span<const int> given,
                      std::span<const int> outputs, const std::vector<int>& order, const LowerLimits& limits,
                      LowerForm form, int whole) {
  const auto write = write_inside(graph, inside, given, whole);
  Frame frame = natural_frame(write ? write->shape : graph.values[static_cast<std::size_t>(whole)].shape);
  // Each round splits a variable or adds a row; real graphs settle in a few.
  for (int round = 0; round < 32; ++round) {
    Attempt attempt(graph, inside, given, frame, limits, form, whole);
    auto kernel = attempt.run(order);
    if (kernel) {
      std::vector<Output> sorted;
      for (const int id : outputs) {
        for (const Output& output : kernel->outputs) {
          if (output.value == id) {
            sorted.push_back(output);
            break;
          }
        }
      }
      kernel->outputs = std::move(sorted);
      return kernel;
    }
    if (kernel.error().kind != "space" || !attempt.change()) return kernel;
    apply(*attempt.change(), frame);
  }
  return unsupported("the index maps did not settle");
}

/// Two reductions at least: what a kernel that folds both ways, or rows and parts of them, is made of.
bool may_be_row_and_column(const ir::Graph& graph, const std::vector<bool>& inside) {
  int folds = 0;
  for (std::size_t n = 0; n < inside.size(); ++n)
    folds += inside[n] && classify(graph.nodes[n].op) == OpClass::row ? 1 : 0;
  return folds >= 2;
}

/// True where a row kernel reads elements of one input at places that are not the same, moved: of a square, rows and
/// columns.
bool reads_two_ways(const Kernel& kernel) {
  if (kernel.anchor != Anchor::row) return false;
  const std::size_t outer = kernel.space.extents.size() - static_cast<std::size_t>(kernel.inner);
  std::vector<const Node*> seen;
  for (const Node& node : kernel.nodes) {
    bool along = false, over = false;
    for (std::size_t v = 0; v < kernel.space.extents.size(); ++v)
      (v < outer ? over : along) |= node.op == Op::load && node.index.depends_on(static_cast<int>(v));
    if (!along || !over || gathers(node)) continue;
    for (const Node* other : seen) {
      if (other->input == node.input && !ir::add(other->index, ir::scale(node.index, -1), kernel.space).is_constant())
        return true;
    }
    seen.push_back(&node);
  }
  return false;
}

/// Two products at least, or attention as one operator.
bool may_be_attention(const ir::Graph& graph, const std::vector<bool>& inside) {
  int products = 0;
  for (std::size_t n = 0; n < inside.size(); ++n) {
    if (!inside[n]) continue;
    const auto name = base_name(graph.nodes[n].op);
    products += contraction_handlers().contains(name) ? 1 : attention_handlers().contains(name) ? 2 : 0;
  }
  return products >= 2;
}

/// Whether one of the nodes inside, by its name, is such.
template <class Is>
bool any_inside(const ir::Graph& graph, const std::vector<bool>& inside, const Is& is) {
  for (std::size_t n = 0; n < inside.size(); ++n) {
    if (inside[n] && is(graph.nodes[n].op)) return true;
  }
  return false;
}

bool has_product(const ir::Graph& graph, const std::vector<bool>& inside) {
  return any_inside(graph, inside, contracts);
}

/// Folds, beside products: over something that a product may have a part in.
bool folds_products(const ir::Graph& graph, const std::vector<bool>& inside) {
  return any_inside(graph, inside, [](std::string_view op) {
    const auto name = base_name(op);
    return row_handlers().contains(name) || (name.contains("_pool") && window_handlers().contains(name));
  });
}

bool has_norm(const ir::Graph& graph, const std::vector<bool>& inside) {
  return any_inside(graph, inside, [](std::string_view op) { return norm_handlers().contains(base_name(op)); });
}

/// What the one product inside makes, where that is more than this: its results are folded and not stored then.
int results_of_product(const ir::Graph& graph, const std::vector<bool>& inside, int largest) {
  const auto elements = [&](int v) { return graph.values[static_cast<std::size_t>(v)].elements(); };
  std::optional<int> made;
  for (std::size_t n = 0; n < inside.size(); ++n) {
    if (!inside[n] || !contracts(graph.nodes[n].op)) continue;
    if (made) return largest;
    made = graph.nodes[n].outs[0];
  }
  return made && elements(*made) > elements(largest) ? *made : largest;
}

bool has_recurrence(const ir::Graph& graph, const std::vector<bool>& inside) {
  return any_inside(graph, inside, recurs);
}

Result<Kernel> lower_any(const ir::Graph& graph, const std::vector<bool>& inside, std::span<const int> outputs,
                         const LowerLimits& limits, std::span<const int> given) {
  if (outputs.empty()) return unsupported("a kernel without outputs");
  // Whole-space outputs first: they say what the space is. The order given is restored at the end.
  std::vector<int> order(outputs.begin(), outputs.end());
  const auto value = [&](int id) -> const ir::Value& { return graph.values[static_cast<std::size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return value(a).elements() > value(b).elements(); });
  for (const int id : order) {
    if (value(id).dtype == DType::other || value(id).elements() == 0)
      return unsupported(fmt::format("value {} cannot be stored by a kernel", id));
    if (!dense_enough(value(id))) return unsupported(fmt::format("value {} overlaps itself", id));
  }
  const int largest = order[0];
  if (limits.contractions && has_recurrence(graph, inside)) return lower_recurrence(graph, inside, outputs);
  auto kernel = settle(graph, inside, given, outputs, order, limits, LowerForm::plain, largest);
  if (!kernel && limits.contractions && may_be_attention(graph, inside))
    return settle(graph, inside, given, outputs, order, limits, LowerForm::attention, largest);
  if (!kernel && limits.contractions && has_product(graph, inside)) {
    const bool pools = folds_products(graph, inside);
    auto pooled = pools ? settle(graph, inside, given, outputs, order, limits, LowerForm::pooled, largest)
                        : unsupported("no fold");
    if (pooled) return pooled;
    if (pools || has_norm(graph, inside)) {
      const int whole = results_of_product(graph, inside, largest);
      if (auto sums = settle(graph, inside, given, outputs, order, limits, LowerForm::spread, whole)) return sums;
    }
    if (pools) return pooled;
  }
  // One pass for rows and columns: where no other kernel does both, or one reads the same elements twice.
  if ((kernel && !reads_two_ways(*kernel)) || !may_be_row_and_column(graph, inside)) return kernel;
  auto cross = settle(graph, inside, given, outputs, order, limits, LowerForm::cross, largest);
  if (cross || kernel || !limits.parts) return cross ? std::move(cross) : std::move(kernel);
  auto parts = settle(graph, inside, given, outputs, order, limits, LowerForm::parts, largest);
  return parts ? std::move(parts) : std::move(kernel);
}

}  // namespace

Result<Kernel> lower(const ir::Graph& graph, const std::vector<bool>& inside, std::span<const int> outputs,
                     const LowerLimits& limits, std::span<const int> given) {
  auto kernel = lower_any(graph, inside, outputs, limits, given);
  if (!kernel || !limits.contractions || !limits.narrow_products || !multiplies_wide(*kernel)) return kernel;
  LowerLimits streaming = limits;
  streaming.contractions = false;
  return lower_any(graph, inside, outputs, streaming, given);
}

}  // namespace planish::codegen
