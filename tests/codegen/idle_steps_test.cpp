// What PyTorch's steps of a program may go: those that nobody reads, and views of what launches write.
#include "codegen/compose/idle_steps.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace planish;
using namespace planish::codegen;
using program::Program;
using program::Role;

namespace {

using Sizes = std::vector<std::int64_t>;

struct Made {
  Program program{"cpu", "x86-64", {}, {{"cpp", "k", {}, "extern \"C\" void k(void** args) {}"}}, {}, {}};

  int buffer(Role role, Sizes shape, Sizes strides) {
    program::Source source;
    if (role == Role::input) source = {"user", inputs++, {}, {}};
    program.buffers.push_back({role, source, "f32", std::move(shape), std::move(strides)});
    return static_cast<int>(program.buffers.size()) - 1;
  }
  void launch(const std::vector<int>& buffers) {
    program::Launch step;
    step.kernel = 0;
    for (const int b : buffers) step.args.emplace_back(program::BufferArg{b});
    program.steps.emplace_back(step);
  }
  void aten(const std::string& op, int from, int to) {
    program::Aten step;
    step.op = op;
    step.args.push_back({"self", ir::ValueRef{from}});
    step.outs.emplace_back(to);
    program.steps.emplace_back(step);
  }
  void result(int b) { program.outputs.push_back({"user", b, {}, -1, {}}); }
  /// What is left: one letter a step, and the buffers that each launch names.
  std::string left() {
    leave_out_idle_steps(program);
    std::string out;
    for (const program::Step& step : program.steps) {
      if (const auto* launch = std::get_if<program::Launch>(&step)) {
        out += "L";
        for (const auto& arg : launch->args) out += std::to_string(std::get<program::BufferArg>(arg).buffer);
      } else {
        out += std::holds_alternative<program::Aten>(step) ? "A" : "C";
      }
      out += " ";
    }
    for (const auto& output : program.outputs) out += "-> " + std::to_string(output.buffer);
    return out;
  }
  int inputs = 0;
};

}  // namespace

TEST_CASE("what nobody reads is not run") {
  Made made;
  const int x = made.buffer(Role::input, {4, 4}, {4, 1}), dead = made.buffer(Role::temp, {4}, {1});
  const int deader = made.buffer(Role::temp, {4}, {1}), y = made.buffer(Role::output, {4, 4}, {4, 1});
  made.aten("aten.select.int", x, dead);
  made.aten("aten.neg.default", dead, deader);
  made.launch({x, y});
  made.result(y);
  CHECK(made.left() == "L01 -> 1");
  CHECK(made.program.buffers.size() == 2);
}

TEST_CASE("views of what a launch writes are its memory") {
  Made made;
  const int x = made.buffer(Role::input, {2, 3, 4}, {12, 4, 1}), y = made.buffer(Role::temp, {3, 2, 4}, {8, 4, 1});
  const int wide = made.buffer(Role::temp, {3, 2, 1, 4}, {8, 4, 4, 1});
  const int turned = made.buffer(Role::temp, {2, 3, 4, 1}, {4, 8, 1, 4});
  const int z = made.buffer(Role::output, {2, 3, 4}, {4, 8, 1});
  made.launch({x, y});
  made.aten("aten.view.default", y, wide);
  made.aten("aten.permute.default", wide, turned);
  made.aten("aten.view.default", turned, z);
  made.result(z);
  CHECK(made.left() == "L01 -> 1");
  CHECK(made.program.buffers[1].role == Role::output);
  CHECK(made.program.buffers[1].strides == Sizes{4, 8, 1});
}

TEST_CASE("launches read views where they lie") {
  Made made;
  const int x = made.buffer(Role::input, {6}, {1}), y = made.buffer(Role::temp, {6}, {1});
  const int view = made.buffer(Role::temp, {2, 3}, {3, 1}), z = made.buffer(Role::output, {2, 3}, {3, 1});
  made.launch({x, y});
  made.aten("aten.view.default", y, view);
  made.launch({view, y, z});
  made.result(z);
  CHECK(made.left() == "L01 L112 -> 2");
}

TEST_CASE("views stay where another shape, another memory or another result is meant") {
  const auto with = [](auto&& build) {
    Made made;
    const int x = made.buffer(Role::input, {6}, {1}), y = made.buffer(Role::temp, {6}, {1});
    made.launch({x, y});
    build(made, x, y);
    return made.left();
  };
  CHECK(with([](Made& m, int, int y) {  // an operator reads what the launch writes
          const int z = m.buffer(Role::output, {2, 3}, {3, 1}), w = m.buffer(Role::output, {6}, {1});
          m.aten("aten.view.default", y, z);
          m.aten("aten.neg.default", y, w);
          m.result(z);
          m.result(w);
        }) == "L01 A A -> 2-> 3");
  CHECK(with([](Made& m, int, int y) {  // or the view
          const int v = m.buffer(Role::temp, {2, 3}, {3, 1}), w = m.buffer(Role::output, {2, 3}, {3, 1});
          m.aten("aten.view.default", y, v);
          m.aten("aten.neg.default", v, w);
          m.result(w);
        }) == "L01 A A -> 3");
  CHECK(with([](Made& m, int, int y) {  // not all of it
          const int z = m.buffer(Role::output, {3}, {1});
          m.aten("aten.slice.Tensor", y, z);
          m.result(z);
        }) == "L01 A -> 2");
  CHECK(with([](Made& m, int, int y) {  // two results in one memory
          const int z = m.buffer(Role::output, {2, 3}, {3, 1}), w = m.buffer(Role::output, {3, 2}, {2, 1});
          m.aten("aten.view.default", y, z);
          m.aten("aten.view.default", y, w);
          m.result(z);
          m.result(w);
        }) == "L01 A A -> 2-> 3");
  CHECK(with([](Made& m, int x, int y) {  // a view of the caller's own
          const int z = m.buffer(Role::output, {2, 3}, {3, 1}), w = m.buffer(Role::output, {6}, {1});
          m.aten("aten.view.default", x, z);
          m.launch({y, w});
          m.result(z);
          m.result(w);
        }) == "L01 A L13 -> 2-> 3");
  CHECK(with([](Made& m, int, int y) {  // what an operator makes lies where it chose
          const int n = m.buffer(Role::temp, {6}, {1}), z = m.buffer(Role::output, {2, 3}, {3, 1});
          m.aten("aten.neg.default", y, n);
          m.aten("aten.view.default", n, z);
          m.result(z);
        }) == "L01 A A -> 3");
  CHECK(with([](Made& m, int, int y) {  // memory with holes
          const int s = m.buffer(Role::temp, {2, 3}, {4, 1}), z = m.buffer(Role::output, {3, 2}, {1, 4});
          m.launch({y, s});
          m.aten("aten.permute.default", s, z);
          m.result(z);
        }) == "L01 L12 A -> 3");
}
