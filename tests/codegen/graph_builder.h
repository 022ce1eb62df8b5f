#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

/// Builds graphs for tests by hand. Values are contiguous and f32 unless said otherwise.
namespace planish::codegen {

using Shape = std::vector<std::int64_t>;

struct GraphBuilder {
  ir::Graph graph;

  static Shape contiguous(const Shape& shape) {
    Shape strides(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<std::int64_t>(shape[i], 1);
    return strides;
  }

  int value(const Shape& shape, DType dtype = DType::f32, Shape strides = {}) {
    if (strides.empty()) strides = contiguous(shape);
    graph.values.push_back({dtype, std::string(name(dtype)), shape, strides, "cpu"});
    return static_cast<int>(graph.values.size()) - 1;
  }
  int input(const Shape& shape, DType dtype = DType::f32, Shape strides = {}) {
    const int id = value(shape, dtype, std::move(strides));
    graph.inputs.push_back({id, "user", "", static_cast<int>(graph.inputs.size()), ""});
    return id;
  }
  int node(const std::string& op, std::vector<ir::Arg> args, const Shape& shape, DType dtype = DType::f32,
           Shape strides = {}) {
    const int id = value(shape, dtype, std::move(strides));
    graph.nodes.push_back({"aten." + op, std::move(args), {id}});
    return id;
  }
  void output(int id) { graph.outputs.push_back({"user", id, "", -1, ""}); }
};

inline ir::Arg V(const std::string& name, int id) {
  return {name, ir::ValueRef{id}};
}
inline ir::Arg I(const std::string& name, std::int64_t i) {
  return {name, i};
}
inline ir::Arg F(const std::string& name, double d) {
  return {name, d};
}
inline ir::Arg B(const std::string& name, bool b) {
  return {name, b};
}
inline ir::Arg S(const std::string& name, const std::string& s) {
  return {name, s};
}
inline ir::Arg L(const std::string& name, std::vector<std::int64_t> list) {
  return {name, std::move(list)};
}
inline ir::Arg N(const std::string& name) {
  return {name, ir::None{}};
}
inline ir::Arg VS(const std::string& name, std::vector<int> ids) {
  ir::ValueList list;
  for (const int id : ids) list.ids.emplace_back(id);
  return {name, std::move(list)};
}

}  // namespace planish::codegen
