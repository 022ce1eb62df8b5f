#include "codegen/compose/idle_steps.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/arg_values.h"

namespace planish::codegen {
namespace {

using program::Aten;
using program::Buffer;
using program::Program;
using program::Role;
using program::Step;

/// Calls body with a reference to each buffer that the step names.
template <typename AnyStep, typename Body>
void each_buffer(AnyStep& step, const Body& body) {
  if (auto* launch = std::get_if<program::Launch>(&step)) {
    for (auto& arg : launch->args) {
      if (auto* buffer = std::get_if<program::BufferArg>(&arg)) body(buffer->buffer);
    }
  } else if (auto* aten = std::get_if<Aten>(&step)) {
    ir::each_value(aten->args, body);
    for (auto& out : aten->outs) {
      if (out) body(*out);
    }
  } else if (auto* copy = std::get_if<program::Copy>(&step)) {
    body(copy->from);
    body(copy->to);
  } else if (auto* set = std::get_if<program::Set>(&step)) {
    body(set->buffer);
  }
}

void take_out_dead(Program& program) {
  std::set<int> live;
  for (const auto& output : program.outputs) live.insert(output.buffer);
  std::vector<bool> keep(program.steps.size(), true);
  for (std::size_t s = program.steps.size(); s-- > 0;) {
    const Step& step = program.steps[s];
    if (const auto* aten = std::get_if<Aten>(&step); aten != nullptr && !aten->outs.empty())
      keep[s] = std::ranges::any_of(aten->outs, [&](const auto& out) { return out && live.contains(*out); });
    if (keep[s]) each_buffer(step, [&](int b) { live.insert(b); });
  }
  std::size_t s = 0;
  std::erase_if(program.steps, [&](const Step&) { return !keep[s++]; });
}

bool is_view(std::string_view op) {
  constexpr std::string_view names[] = {
      "aten.view.default", "aten._unsafe_view.default", "aten.permute.default", "aten.transpose.int",
      "aten.t.default",    "aten.unsqueeze.default",    "aten.squeeze.default", "aten.squeeze.dim",
      "aten.squeeze.dims", "aten.alias.default",        "aten.detach.default",
  };
  return std::ranges::find(names, op) != std::end(names);
}

/// The number of elements where they fill the memory from the first to the last; nothing else.
std::optional<std::int64_t> dense_elements(const Buffer& buffer) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;
  for (std::size_t i = 0; i < buffer.shape.size(); ++i) {
    if (buffer.shape[i] == 0) return std::nullopt;
    if (buffer.shape[i] > 1) dims.emplace_back(buffer.strides[i], buffer.shape[i]);
  }
  std::ranges::sort(dims);
  std::int64_t elements = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != elements) return std::nullopt;
    elements *= size;
  }
  return elements;
}

/// Views of a program that its launches' buffers can stand for.
class Views {
 public:
  explicit Views(Program& program) : program_(program) {
    for (std::size_t s = 0; s < program.steps.size(); ++s) note(s);
    for (std::size_t s = 0; s < program.steps.size(); ++s) consider(s);
  }

  void take_out() {
    leave_unclear();
    // By what the launch writes: its views, in order.
    std::map<int, std::vector<int>> groups;
    std::map<int, int> root;
    for (const auto& [s, view] : views_) {
      const auto known = root.find(view.source);
      const int first = known == root.end() ? view.source : known->second;
      root[view.out] = first;
      groups[first].push_back(view.out);
    }
    std::map<int, int> stands_for;
    for (const auto& [first, members] : groups) {
      const auto given = [&](int b) { return role(b) == Role::output; };
      if (std::ranges::count_if(members, given) > 1) continue;  // two results in one memory
      const auto result = std::ranges::find_if(members, given);
      const int name = result == members.end() ? first : *result;
      stands_for[first] = name;
      for (const int member : members) stands_for[member] = name;
    }
    std::size_t s = 0;
    std::erase_if(program_.steps, [&](const Step&) {
      const auto view = views_.find(s++);
      return view != views_.end() && stands_for.contains(view->second.out);
    });
    const auto rename = [&](int& b) {
      if (const auto found = stands_for.find(b); found != stands_for.end()) b = found->second;
    };
    for (Step& step : program_.steps) each_buffer(step, rename);
    for (auto& output : program_.outputs) rename(output.buffer);
  }

 private:
  struct View {
    int source = -1, out = -1;
  };

  Role role(int b) const { return program_.buffers[static_cast<std::size_t>(b)].role; }

  void note(std::size_t s) {
    const Step& step = program_.steps[s];
    each_buffer(step, [&](int b) { first_.emplace(b, s); });
    if (const auto* aten = std::get_if<Aten>(&step))
      ir::each_value(aten->args, [&](int b) { readers_[b].push_back(s); });
    else if (!std::holds_alternative<program::Launch>(step))
      each_buffer(step, [&](int b) { by_shape_.insert(b); });
  }

  void consider(std::size_t s) {
    const auto* aten = std::get_if<Aten>(&program_.steps[s]);
    if (aten == nullptr || !is_view(aten->op) || aten->outs.size() != 1 || !aten->outs.front()) return;
    View view{-1, *aten->outs.front()};
    int reads = 0;
    ir::each_value(aten->args, [&](int b) { view.source = b, ++reads; });
    if (reads != 1 || role(view.source) != Role::temp) return;
    if (role(view.out) != Role::temp && role(view.out) != Role::output) return;
    const Buffer& from = program_.buffers[static_cast<std::size_t>(view.source)];
    const Buffer& to = program_.buffers[static_cast<std::size_t>(view.out)];
    const auto elements = dense_elements(from);
    if (elements && elements == dense_elements(to) && from.dtype == to.dtype) views_.emplace(s, view);
  }

  /// Operators, copies and fills go by a buffer's own shape, and what an operator makes lies where it chose.
  bool is_clear(const View& view) const {
    const auto made = [&](int b) {
      const std::size_t s = first_.at(b);
      return std::holds_alternative<program::Launch>(program_.steps[s]) || views_.contains(s);
    };
    const auto read_by_views = [&](int b) {
      const auto readers = readers_.find(b);
      return readers == readers_.end() ||
             std::ranges::all_of(readers->second, [&](std::size_t s) { return views_.contains(s); });
    };
    return made(view.source) && read_by_views(view.source) && read_by_views(view.out) &&
           !by_shape_.contains(view.source) && !by_shape_.contains(view.out);
  }

  void leave_unclear() {
    for (bool changed = true; changed;) {
      changed = std::erase_if(views_, [&](const auto& each) { return !is_clear(each.second); }) > 0;
    }
  }

  Program& program_;
  std::map<int, std::size_t> first_;                 ///< step that names a buffer
  std::map<int, std::vector<std::size_t>> readers_;  ///< operators
  std::set<int> by_shape_;                           ///< buffers of copies and fills
  std::map<std::size_t, View> views_;                ///< by step
};

void take_out_unnamed(Program& program) {
  std::set<int> named;
  for (const Step& step : program.steps) each_buffer(step, [&](int b) { named.insert(b); });
  for (const auto& output : program.outputs) named.insert(output.buffer);
  std::vector<int> now(program.buffers.size(), -1);
  std::vector<Buffer> kept;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].role == Role::temp && !named.contains(static_cast<int>(b))) continue;
    now[b] = static_cast<int>(kept.size());
    kept.push_back(std::move(program.buffers[b]));
  }
  program.buffers = std::move(kept);
  const auto renumber = [&](int& b) {
    if (b >= 0) b = now[static_cast<std::size_t>(b)];
  };
  for (Step& step : program.steps) each_buffer(step, renumber);
  for (auto& output : program.outputs) renumber(output.buffer);
}

}  // namespace

void leave_out_idle_steps(Program& program) {
  take_out_dead(program);
  Views(program).take_out();
  take_out_unnamed(program);
}

}  // namespace planish::codegen
