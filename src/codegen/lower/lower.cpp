#include "codegen/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>

#include "codegen/lower/lowering.h"
#include "codegen/lower/space.h"

namespace planish::codegen {
namespace {

using ir::IndexExpr;

/// The space of the first output, and where each dim of that output lies in it.
struct Frame {
  ir::Space space;
  Coords coords;
  std::vector<std::int64_t> shape;
};

Frame natural_frame(const ir::Value& output) {
  Frame frame;
  frame.shape = output.shape;
  for (const std::int64_t extent : output.shape) {
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
  if (!change.appended.empty()) {
    frame.space.extents.insert(frame.space.extents.end(), change.appended.begin(), change.appended.end());
    return;
  }
  const int v = change.split_variable;
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
    for (Output& output : kernel_.outputs) output.node = visit(output.node);
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

/// One attempt over a fixed frame. Sets `change` where the space must be another.
Result<Kernel> attempt(const ir::Graph& graph, const std::vector<bool>& inside, std::span<const int> given,
                       const std::vector<int>& outputs, const Frame& frame, const LowerLimits& limits,
                       std::optional<SpaceChange>& change) {
  Lowering low(graph, inside, given, frame.space);
  Kernel kernel;
  const std::int64_t points = product(frame.shape);
  for (const int id : outputs) {
    const ir::Value& value = low.info(id);
    Coords coords;
    if (value.shape == frame.shape) {
      coords = frame.coords;
    } else if (value.elements() == points) {
      coords = low.unravel(low.ravel(frame.coords, frame.shape), value.shape);
    } else if (low.inner()) {
      IndexExpr linear;
      std::int64_t extent = 1;
      for (std::size_t v = frame.space.extents.size(); v-- > 0;) {
        if (std::find(low.inner()->begin(), low.inner()->end(), static_cast<int>(v)) != low.inner()->end()) continue;
        linear = ir::add(linear, ir::scale(IndexExpr::variable(static_cast<int>(v)), extent), low.space());
        extent *= frame.space.extents[v];
      }
      if (extent != value.elements()) return unsupported("outputs of different spaces");
      coords = low.unravel(linear, value.shape);
    } else {
      return unsupported("outputs of different spaces");
    }
    auto node = low.value(id, coords);
    if (!node) {
      change = low.change();
      return std::unexpected(node.error());
    }
    Output output;
    output.node = *node;
    output.dtype = value.dtype;
    output.shape = value.shape;
    output.strides = value.strides;
    output.index = offset_of(value, coords, low.space());
    output.value = id;
    kernel.outputs.push_back(std::move(output));
  }
  for (const int id : low.input_values()) {
    const ir::Value& value = low.info(id);
    Input input;
    input.dtype = value.dtype;
    input.shape = value.shape;
    input.strides = value.strides;
    input.storage_elements = 1;
    for (std::size_t i = 0; i < value.shape.size(); ++i)
      input.storage_elements += (value.shape[i] - 1) * value.strides[i];
    input.value = id;
    kernel.inputs.push_back(std::move(input));
  }
  kernel.space = frame.space;
  kernel.nodes = std::move(low.builder().nodes());
  kernel.reductions = std::move(low.builder().reductions());
  kernel.scans = std::move(low.builder().scans());
  Renumber(kernel).run();
  kernel.anchor = !kernel.scans.empty() ? Anchor::scan : !kernel.reductions.empty() ? Anchor::row : Anchor::pointwise;
  kernel.reversed = kernel.anchor == Anchor::scan && low.reversed();
  if (places_read(kernel) > limits.max_loads || static_cast<int>(kernel.nodes.size()) > limits.max_nodes) {
    return unsupported("larger than one kernel should be");
  }
  // A variable that no output needs would be a row that nothing folds.
  if (kernel.anchor == Anchor::pointwise && product(kernel.space.extents) != points)
    return unsupported("a row that nothing folds");
  for (const IndexExpr* e : index_expressions(kernel)) {
    if ((change = find_split(*e, kernel.space))) return fail("space", "an index wants a split variable");
  }
  PLANISH_CHECK(check_scans(kernel));
  set_phases(kernel);
  PLANISH_CHECK(order_variables(kernel, low.inner()));
  merge_variables(kernel);
  for (Output& output : kernel.outputs) {
    bool moves = false;
    for (std::size_t v = kernel.space.extents.size() - static_cast<std::size_t>(kernel.inner);
         v < kernel.space.extents.size(); ++v) {
      moves = moves || output.index.depends_on(static_cast<int>(v));
    }
    output.per_row = kernel.has_rows() && !moves;
  }
  return kernel;
}

}  // namespace

OpClass classify(std::string_view op) {
  const auto name = base_name(op);
  if (view_handlers().contains(name)) return OpClass::view;
  if (creation_handlers().contains(name)) return OpClass::creation;
  if (movement_handlers().contains(name) || gather_handlers().contains(name) || pointwise_handlers().contains(name) ||
      window_handlers().contains(name))
    return OpClass::pointwise;
  if (row_handlers().contains(name) || norm_handlers().contains(name)) return OpClass::row;
  if (scan_handlers().contains(name)) return OpClass::scan;
  return OpClass::other;
}

Result<Kernel> lower(const ir::Graph& graph, const std::vector<bool>& inside, std::span<const int> outputs,
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
  Frame frame = natural_frame(value(order[0]));
  // Each round splits a variable or adds a row; real graphs settle in a few.
  for (int round = 0; round < 32; ++round) {
    std::optional<SpaceChange> change;
    auto kernel = attempt(graph, inside, given, order, frame, limits, change);
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
    if (kernel.error().kind != "space" || !change) return kernel;
    apply(*change, frame);
  }
  return unsupported("the index maps did not settle");
}

}  // namespace planish::codegen
