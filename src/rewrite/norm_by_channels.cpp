#include <numeric>

#include "rewrite/norms.h"
#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

using Extents = std::vector<std::int64_t>;

constexpr std::int64_t whole_words = 16;                     ///< bytes that a thread reads at once
constexpr std::int64_t many_bytes = std::int64_t{16} << 20;  ///< of an image, whatever a group has of a place

/// Whether channels are neighbours in memory, and behind them places.
bool is_channels_last(const ir::Value& x) {
  const std::size_t rank = x.shape.size();
  std::int64_t stride = 1;
  if (x.strides.size() != rank || x.strides[1] != stride) return false;
  stride = x.shape[1];
  for (std::size_t d = rank; d-- > 2; stride *= x.shape[d]) {
    if (x.shape[d] != 1 && x.strides[d] != stride) return false;
  }
  return x.shape[0] == 1 || x.strides[0] == stride;
}

/// Whether what one kernel reads of a group at each place is too little for it.
bool in_pieces(const ir::Value& x, std::int64_t groups) {
  const std::int64_t bytes = size_of(x.dtype), piece = x.shape[1] / groups * bytes;
  return piece % whole_words != 0 || x.elements() * bytes >= many_bytes;
}

/// What a value is a copy of that lies as it does; itself elsewhere.
int original(const Editor& editor, int id) {
  const ir::GraphNode* const maker = editor.maker(id);
  if (maker == nullptr || maker->op != "aten.clone.default") return id;
  const int from = tensor(*maker, "self");
  const ir::Value &copy = editor.value(id), &own = editor.value(from);
  const bool alike = copy.dtype == own.dtype && copy.shape == own.shape && copy.strides == own.strides;
  return alike ? original(editor, from) : id;
}

}  // namespace

bool norm_by_channels(Editor& editor, int index) {
  const ir::GraphNode node = editor.node(index);  // copies: new nodes move what is there
  const auto least = editor.options().norms_by_channels;
  if (!least) return false;
  const auto norm = norm_of(editor, node);
  if (!norm || norm->groups < 2 || norm->weight < 0 || norm->bias < 0 || !node.outs[0]) return false;
  for (std::size_t out = 1; out < node.outs.size(); ++out) {
    if (node.outs[out] && (!editor.readers(*node.outs[out]).empty() || editor.is_output(*node.outs[out]))) return false;
  }
  const int data = original(editor, norm->x);  // one value, whoever reads it
  const ir::Value x = editor.value(data);
  const bool narrow = x.dtype == DType::f16 || x.dtype == DType::bf16;
  if ((!narrow && x.dtype != DType::f32) || !is_channels_last(x) || x.elements() < *least ||
      !in_pieces(x, norm->groups) || x.shape[1] % (whole_words / 2) != 0 || x.shape[1] == norm->groups)
    return false;
  for (const int id : {*node.outs[0], norm->weight, norm->bias}) {
    if (editor.value(id).dtype != x.dtype) return false;
  }

  const std::int64_t images = x.shape[0], channels = x.shape[1];
  const Extents split{images, norm->groups, channels / norm->groups}, whole{1, split[1], split[2]};
  Extents over(x.shape.size() - 2), plane(x.shape.size(), 1), each(x.shape.size(), 1);
  std::iota(over.begin(), over.end(), 2);
  plane[0] = images, plane[1] = each[1] = channels;
  const auto as = [&](int id, DType dtype) {
    return editor.value(id).dtype == dtype ? id : editor.converted(id, dtype);
  };
  const int weight = as(norm->weight, DType::f32), bias = as(norm->bias, DType::f32);
  Steps s(editor, weight);  // in f32, of the data as they are
  auto [variance, mean] = s.variance(data, over);
  const int apart = s.view(mean, split);
  const auto group = s.joined(apart, s.view(variance, split), 2, norm->eps);
  const int scale = s.multiply(group.rstd, s.view(weight, whole));
  // Of a group for each of its channels, so that nothing of single elements is made before it is known.
  const int total = s.view(s.subtract(apart, group.away), plane);
  const int normed = s.add(s.multiply(s.subtract(data, total), s.view(scale, plane)), s.view(bias, each));
  const int out = narrow ? as(normed, x.dtype) : s.view(normed, x.shape);
  editor.replace(index, {{*node.outs[0], out}});
  return true;
}

}  // namespace planish::rewrite
