#include "rewrite/editor.h"

#include <algorithm>
#include <functional>

namespace planish::rewrite {
namespace {

std::vector<std::int64_t> contiguous(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<std::int64_t>(shape[i], 1);
  return strides;
}

}  // namespace

Editor::Editor(ir::Graph graph, const Options& options) : graph_(std::move(graph)), options_(options) {
  look();
}

void Editor::look() {
  makers_ = graph_.producers();
  readers_ = graph_.consumers();
}

const ir::GraphNode* Editor::maker(int id) const {
  const int index = id < 0 ? -1 : makers_[static_cast<std::size_t>(id)];
  return index < 0 || node(index).outs.size() != 1 ? nullptr : &node(index);
}

const ir::GraphNode* Editor::first_of(int id) const {
  const int index = id < 0 ? -1 : makers_[static_cast<std::size_t>(id)];
  if (index < 0 || node(index).outs.front() != id) return nullptr;
  const auto unread = [&](const std::optional<int>& out) {
    return !out || *out == id || (readers(*out).empty() && !is_output(*out));
  };
  return std::ranges::all_of(node(index).outs, unread) ? &node(index) : nullptr;
}

bool Editor::is_parameter(int id) const {
  const auto at = std::ranges::find(graph_.inputs, id, &ir::GraphInput::value);
  return at != graph_.inputs.end() && (at->kind == "param" || at->kind == "buffer" || at->kind == "const");
}

bool Editor::read_once(int id) const {
  return readers_[static_cast<std::size_t>(id)].size() == 1 && !is_output(id);
}

int Editor::put_value(ir::Value value) {
  graph_.values.push_back(std::move(value));
  return static_cast<int>(graph_.values.size()) - 1;
}

int Editor::put(std::string op, std::vector<ir::Arg> args, ir::Value value) {
  const int id = put_value(std::move(value));
  fresh_.push_back({std::move(op), std::move(args), {id}});
  return id;
}

int Editor::put_contiguous(std::string op, std::vector<ir::Arg> args, ir::Value value) {
  value.strides = contiguous(value.shape);
  return put(std::move(op), std::move(args), std::move(value));
}

int Editor::add(std::string op, std::vector<ir::Arg> args, std::vector<std::int64_t> shape, int like) {
  ir::Value made = value(like);
  made.shape = std::move(shape);
  return put_contiguous(std::move(op), std::move(args), std::move(made));
}

int Editor::add_result(std::vector<std::int64_t> shape, int like) {
  ir::Value made = value(like);
  made.strides = contiguous(shape);
  made.shape = std::move(shape);
  const int id = put_value(std::move(made));
  fresh_.back().outs.push_back(id);
  return id;
}

int Editor::add_as(DType dtype, std::string op, std::vector<ir::Arg> args, std::vector<std::int64_t> shape, int like) {
  ir::Value made = value(like);
  made.dtype = dtype;
  made.dtype_name = name(dtype);
  made.shape = std::move(shape);
  return put_contiguous(std::move(op), std::move(args), std::move(made));
}

int Editor::add_boolean(std::string op, std::vector<ir::Arg> args, std::vector<std::int64_t> shape, int like) {
  return add_as(DType::boolean, std::move(op), std::move(args), std::move(shape), like);
}

int Editor::slice(int self, std::size_t dim, std::int64_t begin, std::int64_t end) {
  ir::Value part = value(self);
  if (begin == 0 && end == part.shape[dim]) return self;
  part.shape[dim] = end - begin;
  return put("aten.slice.Tensor",
             {of("self", self),
              {"dim", static_cast<std::int64_t>(dim)},
              {"start", begin},
              {"end", end},
              {"step", std::int64_t{1}}},
             std::move(part));
}

int Editor::converted(int self, DType dtype) {
  ir::Value as = value(self);
  as.dtype = dtype;
  as.dtype_name = name(dtype);
  return put("aten._to_copy.default", conversion(self, dtype), std::move(as));
}

int Editor::permuted(int self, const std::vector<std::int64_t>& order) {
  const ir::Value from = value(self);
  ir::Value other = from;
  for (std::size_t d = 0; d < order.size(); ++d) {
    other.shape[d] = from.shape[static_cast<std::size_t>(order[d])];
    other.strides[d] = from.strides[static_cast<std::size_t>(order[d])];
  }
  return put("aten.permute.default", {of("self", self), {"dims", order}}, std::move(other));
}

int Editor::selected(int self, std::size_t dim, std::int64_t index) {
  ir::Value other = value(self);
  other.shape.erase(other.shape.begin() + static_cast<std::ptrdiff_t>(dim));
  other.strides.erase(other.strides.begin() + static_cast<std::ptrdiff_t>(dim));
  return put("aten.select.int", {of("self", self), {"dim", static_cast<std::int64_t>(dim)}, {"index", index}},
             std::move(other));
}

int Editor::unsqueezed(int self, std::size_t dim) {
  ir::Value other = value(self);
  const std::int64_t stride = dim < other.shape.size() ? other.shape[dim] * other.strides[dim] : 1;
  other.shape.insert(other.shape.begin() + static_cast<std::ptrdiff_t>(dim), 1);
  other.strides.insert(other.strides.begin() + static_cast<std::ptrdiff_t>(dim), stride);
  return put("aten.unsqueeze.default", {of("self", self), {"dim", static_cast<std::int64_t>(dim)}}, std::move(other));
}

int Editor::turned(int self) {
  ir::Value other = value(self);
  const std::size_t rank = other.shape.size();
  std::vector<std::int64_t> order;
  for (std::size_t d = 0; d < rank; ++d) order.push_back(static_cast<std::int64_t>(d));
  std::swap(order[rank - 2], order[rank - 1]);
  std::swap(other.shape[rank - 2], other.shape[rank - 1]);
  std::swap(other.strides[rank - 2], other.strides[rank - 1]);
  return put("aten.permute.default", {of("self", self), {"dims", order}}, std::move(other));
}

void Editor::replace(int index) {
  fresh_.back().outs = {node(index).outs.front()};
  replace(index, {});
}

void Editor::replace(int index, const std::vector<std::pair<int, int>>& made) {
  std::vector<int> gone{index};
  for (const auto& [id, fresh] : made) {
    const int maker = makers_[static_cast<std::size_t>(id)];
    if (std::ranges::find(gone, maker) == gone.end()) gone.push_back(maker);
    for (ir::GraphNode& node : fresh_) {
      if (node.outs.front() == fresh) node.outs.front() = id;
    }
  }
  for (ir::GraphNode& one : fresh_) {
    one.file = node(index).file;
    one.line = node(index).line;
  }
  const std::vector<int> read = ir::reads(node(index));
  std::ranges::sort(gone, std::greater());
  for (const int each : gone) graph_.nodes.erase(graph_.nodes.begin() + each);
  graph_.nodes.insert(graph_.nodes.begin() + index, std::make_move_iterator(fresh_.begin()),
                      std::make_move_iterator(fresh_.end()));
  fresh_.clear();
  look();
  for (const int id : read) drop(id);
}

void Editor::forget() {
  for (const ir::GraphNode& made : fresh_) graph_.values.resize(graph_.values.size() - made.outs.size());
  fresh_.clear();
}

void Editor::drop(int id) {
  const ir::GraphNode* unread = first_of(id);
  if (unread == nullptr || !readers_[static_cast<std::size_t>(id)].empty() || is_output(id)) return;
  const std::vector<int> read = ir::reads(*unread);
  graph_.nodes.erase(graph_.nodes.begin() + makers_[static_cast<std::size_t>(id)]);
  look();
  for (const int one : read) drop(one);
}

bool Editor::is_output(int id) const {
  return std::ranges::any_of(graph_.outputs, [&](const ir::GraphOutput& output) { return output.value == id; });
}

int tensor(const ir::GraphNode& node, std::string_view name) {
  const ir::Arg* arg = node.arg(name);
  const auto* ref = arg == nullptr ? nullptr : std::get_if<ir::ValueRef>(&arg->data);
  return ref == nullptr ? -1 : ref->id;
}

std::optional<double> number(const ir::GraphNode& node, std::string_view name) {
  const ir::Arg* arg = node.arg(name);
  if (arg == nullptr) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(&arg->data)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&arg->data)) return *real;
  return std::nullopt;
}

std::optional<std::int64_t> integer(const ir::GraphNode& node, std::string_view name) {
  const ir::Arg* arg = node.arg(name);
  const auto* value = arg == nullptr ? nullptr : std::get_if<std::int64_t>(&arg->data);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

bool is_set(const ir::GraphNode& node, std::string_view name) {
  const ir::Arg* arg = node.arg(name);
  const auto* truth = arg == nullptr ? nullptr : std::get_if<bool>(&arg->data);
  return truth != nullptr && *truth;
}

void redirect(ir::GraphNode& node, std::string_view name, int value) {
  for (ir::Arg& arg : node.args) {
    if (arg.name == name) arg.data = ir::ValueRef{value};
  }
}

ir::Arg of(std::string name, int value) {
  return {std::move(name), ir::ValueRef{value}};
}
ir::Arg dims(std::vector<std::int64_t> list) {
  return {"dim", std::move(list)};
}
ir::Arg flag(std::string name, bool value) {
  return {std::move(name), value};
}

std::vector<ir::Arg> conversion(int self, DType dtype) {
  return {of("self", self),
          {"dtype", ir::DTypeArg{std::string(name(dtype))}},
          {"layout", ir::None{}},
          {"device", ir::None{}},
          {"pin_memory", ir::None{}},
          flag("non_blocking", false),
          {"memory_format", ir::None{}}};
}

std::optional<Fold> linear_fold(const Editor& editor, const ir::GraphNode& node) {
  const bool mean = node.op == "aten.mean.dim";
  if (!mean && node.op != "aten.sum.dim_IntList") return std::nullopt;
  Fold fold;
  fold.mean = mean;
  fold.of = tensor(node, "self");
  const ir::Arg* over = node.arg("dim");
  const ir::Arg* kept = node.arg("keepdim");
  if (fold.of < 0 || over == nullptr || kept == nullptr || node.outs.size() != 1 || !node.outs[0]) return std::nullopt;
  const auto* list = std::get_if<std::vector<std::int64_t>>(&over->data);
  const auto* keeps = std::get_if<bool>(&kept->data);
  const ir::Value& data = editor.value(fold.of);
  if (list == nullptr || list->empty() || keeps == nullptr) return std::nullopt;
  if (data.dtype != editor.value(*node.outs[0]).dtype) return std::nullopt;
  fold.kept = *keeps;
  const auto rank = static_cast<std::int64_t>(data.shape.size());
  for (const std::int64_t d : *list) fold.dims.push_back(d < 0 ? d + rank : d);
  std::ranges::sort(fold.dims);
  for (const std::int64_t d : fold.dims) {
    if (d < 0 || d >= rank) return std::nullopt;
    fold.count *= data.shape[static_cast<std::size_t>(d)];
  }
  return fold;
}

}  // namespace planish::rewrite
