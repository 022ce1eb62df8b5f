#include "field.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "rewrite/editor.h"

namespace planish::rewrite {
namespace {

__extension__ using Wide = unsigned __int128;

Field times(Field a, Field b) {
  const Wide product = static_cast<Wide>(a) * b;
  return (static_cast<Field>(product & prime) + static_cast<Field>(product >> 61)) % prime;  // 2⁶¹ is 1
}
Field plus(Field a, Field b) {
  return (a + b) % prime;
}
Field inverse(Field a) {
  Field result = 1;
  for (Field power = prime - 2; power != 0; power /= 2) {
    if (power % 2 == 1) result = times(result, a);
    a = times(a, a);
  }
  return result;
}
/// A double is a whole number over a power of two.
Field from(double number) {
  int exponent = 0;
  const double fraction = std::frexp(number, &exponent);
  auto whole = static_cast<std::int64_t>(std::ldexp(fraction, 53));
  Field value = static_cast<Field>(whole < 0 ? -whole : whole) % prime;
  if (whole < 0) value = (prime - value) % prime;
  const Field half = (prime + 1) / 2;
  for (int e = exponent - 53; e != 0; e += e < 0 ? 1 : -1) value = times(value, e < 0 ? half : 2);
  return value;
}

class Evaluator {
 public:
  Evaluator(const ir::Graph& graph, const Elements& inputs) : graph_(graph), known_(inputs) {}

  bool compute(int id) {
    if (known_.contains(id)) return true;
    const int index = graph_.producers()[static_cast<std::size_t>(id)];
    if (index < 0) return false;
    const ir::GraphNode& node = graph_.nodes[static_cast<std::size_t>(index)];
    if (node.op == "aten.where.self") {
      const int condition = tensor(node, "condition"), taken = tensor(node, "self"), other = tensor(node, "other");
      if (!of_places(condition)) {
        return compute(taken) && choice(-1, taken, taken, id);
      }
      return compute(condition) && compute(taken) && compute(other) && choice(condition, taken, other, id);
    }
    for (const int read : ir::reads(node)) {
      if (!compute(read)) return false;
    }
    return step(node, id);
  }
  const std::vector<Field>& at(int id) { return known_[id]; }

 private:
  const std::vector<std::int64_t>& shape(int id) const { return graph_.values[static_cast<std::size_t>(id)].shape; }

  /// Where the element of `of` that meets element `linear` of `full` lies, by broadcasting.
  std::size_t broadcast(std::size_t linear, const std::vector<std::int64_t>& full,
                        const std::vector<std::int64_t>& own) const {
    std::size_t place = 0, step = 1;
    for (std::size_t d = 0; d < own.size(); ++d) {
      const auto n = static_cast<std::size_t>(full[full.size() - 1 - d]);
      const auto mine = static_cast<std::size_t>(own[own.size() - 1 - d]);
      place += (mine == 1 ? 0 : linear % n) * step;
      step *= mine;
      linear /= n;
    }
    return place;
  }

  bool pointwise(const ir::GraphNode& node, int id) {
    const int a = tensor(node, "self"), b = tensor(node, "other");
    const auto value = number(node, "other");
    if (b < 0 && !value) return false;
    std::vector<Field> out;
    const Field other = value ? from(*value) : 0;
    const Field reciprocal = value && node.op == "aten.div.Tensor" ? inverse(other) : 0;
    const std::vector<Field>& all = known_[a];
    const std::vector<Field>* others = b < 0 ? nullptr : &known_[b];
    for (std::size_t i = 0; i < static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(id)].elements()); ++i) {
      const Field left = all[broadcast(i, shape(id), shape(a))];
      const Field right = b < 0 ? other : (*others)[broadcast(i, shape(id), shape(b))];
      if (node.op == "aten.mul.Tensor") {
        out.push_back(times(left, right));
      } else if (node.op == "aten.div.Tensor") {
        out.push_back(times(left, b < 0 ? reciprocal : inverse(right)));
      } else {
        const Field sum = plus(left, node.op == "aten.sub.Tensor" ? prime - right : right);
        out.push_back(left == hidden ? hidden : sum);
      }
    }
    known_[id] = std::move(out);
    return true;
  }

  /// Whether a value depends on no input: it is made of counts.
  bool of_places(int id) const {
    const int index = graph_.producers()[static_cast<std::size_t>(id)];
    if (index < 0) return false;
    return std::ranges::all_of(ir::reads(graph_.nodes[static_cast<std::size_t>(index)]),
                               [&](int read) { return of_places(read); });
  }

  bool choice(int condition, int taken, int other, int id) {
    std::vector<Field> out(static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(id)].elements()));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const bool first = condition < 0 || known_[condition][broadcast(i, shape(id), shape(condition))] != 0;
      const int from = first ? taken : other;
      out[i] = known_[from][broadcast(i, shape(id), shape(from))];
    }
    known_[id] = std::move(out);
    return true;
  }

  static std::optional<double> fill(const ir::GraphNode& node, std::string_view name) {
    const ir::Arg* arg = node.arg(name);
    if (const auto* truth = arg == nullptr ? nullptr : std::get_if<bool>(&arg->data)) return *truth ? 1 : 0;
    return number(node, name);
  }

  /// Counts, constants and what compares them.
  bool places(const ir::GraphNode& node, int id) {
    std::vector<Field> out(static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(id)].elements()));
    const std::string op = node.op.substr(5, node.op.rfind('.') - 5);  // without "aten." and the overload
    const auto whole = [](Field a) {
      return a > prime / 2 ? -static_cast<std::int64_t>(prime - a) : static_cast<std::int64_t>(a);
    };
    if (op == "full" || op == "scalar_tensor") {
      const auto value = fill(node, op == "full" ? "fill_value" : "s");
      if (!value || (!std::isfinite(*value) && *value != -std::numeric_limits<double>::infinity())) return false;
      std::ranges::fill(out, std::isfinite(*value) ? from(*value) : hidden);
    } else if (op == "empty") {
      std::ranges::fill(out, 0);
    } else if (op == "arange") {
      const Field start = from(*number(node, "start")), by = from(*number(node, "step"));
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = plus(start, times(by, i));
    } else if (op == "bitwise_not" || op == "abs" || op == "_to_copy") {
      const auto& self = known_[tensor(node, "self")];
      for (std::size_t i = 0; i < out.size(); ++i) {
        const bool negative = whole(self[i]) < 0;
        const Field flag = self[i] != 0 ? 1 : 0;
        out[i] = op == "abs" ? (negative ? prime - self[i] : self[i]) : op == "_to_copy" ? flag : 1 - flag;
      }
    } else {
      const int a = tensor(node, "self"), b = tensor(node, "other");
      const auto value = number(node, "other");
      static constexpr std::array<std::string_view, 7> known{"le", "lt", "ge", "gt", "eq", "ne", "logical_and"};
      if (std::ranges::find(known, op) == known.end() || (b < 0 && !value)) return false;
      const std::int64_t fixed = value ? whole(from(*value)) : 0;
      for (std::size_t i = 0; i < out.size(); ++i) {
        const std::int64_t l = whole(known_[a][broadcast(i, shape(id), shape(a))]);
        const std::int64_t r = b < 0 ? fixed : whole(known_[b][broadcast(i, shape(id), shape(b))]);
        const bool found = op == "le"   ? l <= r
                           : op == "lt" ? l < r
                           : op == "ge" ? l >= r
                           : op == "gt" ? l > r
                           : op == "eq" ? l == r
                           : op == "ne" ? l != r
                                        : l != 0 && r != 0;
        out[i] = found ? 1 : 0;
      }
    }
    known_[id] = std::move(out);
    return true;
  }

  bool product(int x, int w, int bias, bool transposed, int id) {
    // A batch of matrices meets one of as many, or one matrix.
    const std::size_t matrix =
        shape(w).size() < 3 ? 0 : static_cast<std::size_t>(shape(w).back() * shape(w)[shape(w).size() - 2]);
    const std::size_t rows = shape(x).size() < 2 ? 1 : static_cast<std::size_t>(shape(x)[shape(x).size() - 2]);
    const auto depth = static_cast<std::size_t>(shape(x).back());
    const std::size_t columns = shape(w).size() == 1 ? 1 : static_cast<std::size_t>(shape(id).back());
    const std::vector<Field>&left = known_[x], &right = known_[w];
    std::vector<Field> out(static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(id)].elements()));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t row = i / columns, column = i % columns;
      Field sum = bias < 0 ? 0 : known_[bias][column];
      const Field* x_at = left.data() + row * depth;
      const Field* w_at = right.data() + row / rows * matrix + (transposed ? column * depth : column);
      const std::size_t step = transposed ? 1 : columns;
      for (std::size_t k = 0; k < depth; ++k) sum = plus(sum, times(x_at[k], w_at[k * step]));
      out[i] = sum;
    }
    known_[id] = std::move(out);
    return true;
  }

  std::vector<std::int64_t> digits(std::size_t linear, const std::vector<std::int64_t>& extents) const {
    std::vector<std::int64_t> out(extents.size());
    for (std::size_t d = extents.size(); d-- > 0; linear /= static_cast<std::size_t>(extents[d]))
      out[d] = static_cast<std::int64_t>(linear % static_cast<std::size_t>(extents[d]));
    return out;
  }
  /// Where it lies; nothing outside.
  std::optional<std::size_t> place(const std::vector<std::int64_t>& at,
                                   const std::vector<std::int64_t>& extents) const {
    std::size_t linear = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (at[d] < 0 || at[d] >= extents[d]) return std::nullopt;
      linear = linear * static_cast<std::size_t>(extents[d]) + static_cast<std::size_t>(at[d]);
    }
    return linear;
  }
  static std::vector<std::int64_t> list(const ir::GraphNode& node, std::string_view name, std::size_t count,
                                        std::int64_t otherwise) {
    const ir::Arg* arg = node.arg(name);
    if (arg == nullptr) return std::vector<std::int64_t>(count, otherwise);
    const auto& all = std::get<std::vector<std::int64_t>>(arg->data);
    return all.size() == 1 && count > 1 ? std::vector<std::int64_t>(count, all.front()) : all;
  }

  /// Element by element and tap by tap, transposed or not.
  bool convolution(const ir::GraphNode& node, int id) {
    const int x = tensor(node, "input"), w = tensor(node, "weight"), bias = tensor(node, "bias");
    const bool transposed = node.op.starts_with("aten.conv_transpose");
    const std::size_t dims = shape(x).size() - 2;
    const auto stride = list(node, "stride", dims, 1), padding = list(node, "padding", dims, 0),
               dilation = list(node, "dilation", dims, 1);
    const auto& outer = transposed ? shape(x) : shape(id);  // whose places a stride moves
    const auto& inner = transposed ? shape(id) : shape(x);
    const auto groups = static_cast<std::size_t>(number(node, "groups").value_or(1));
    const auto per = static_cast<std::size_t>(inner[1]) / groups;
    const std::size_t outer_per = static_cast<std::size_t>(outer[1]) / groups;
    const std::vector<std::int64_t> window(shape(w).begin() + 2, shape(w).end());
    std::size_t taps = 1, outer_count = 1;
    for (const std::int64_t n : window) taps *= static_cast<std::size_t>(n);
    for (const std::int64_t n : outer) outer_count *= static_cast<std::size_t>(n);
    std::vector<Field> out(static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(id)].elements()), 0);
    const std::size_t plane = out.size() / static_cast<std::size_t>(shape(id)[0] * shape(id)[1]);
    for (std::size_t i = 0; bias >= 0 && i < out.size(); ++i)
      out[i] = known_[bias][i / plane % static_cast<std::size_t>(shape(id)[1])];
    const std::vector<Field>&elements = known_[x], &weights = known_[w];
    std::vector<std::vector<std::int64_t>> all_taps;
    for (std::size_t t = 0; t < taps; ++t) all_taps.push_back(digits(t, window));
    std::vector<std::int64_t> to(dims + 2);
    for (std::size_t i = 0; i < outer_count; ++i) {
      const auto from = digits(i, outer);
      for (std::size_t c = 0; c < per; ++c) {
        for (std::size_t t = 0; t < taps; ++t) {
          const auto& tap = all_taps[t];
          const std::size_t group = static_cast<std::size_t>(from[1]) / outer_per;
          to[0] = from[0];
          to[1] = static_cast<std::int64_t>(group * per + c);
          for (std::size_t d = 0; d < dims; ++d)
            to[d + 2] = from[d + 2] * stride[d] + tap[d] * dilation[d] - padding[d];
          const auto at = place(to, inner);
          if (!at) continue;
          const Field factor = weights[(static_cast<std::size_t>(from[1]) * per + c) * taps + t];
          if (transposed) {
            out[*at] = plus(out[*at], times(elements[i], factor));
          } else {
            out[i] = plus(out[i], times(elements[*at], factor));
          }
        }
      }
    }
    known_[id] = std::move(out);
    return true;
  }

  /// Stands for -∞, which a mask gives, and a softmax takes.
  static constexpr Field hidden = prime;

  /// Shares of the last dim; the exponential is some function as well.
  bool softmax(const ir::GraphNode& node, int id) {
    std::vector<Field> out = known_[tensor(node, "self")];
    const auto keys = static_cast<std::size_t>(shape(id).back());
    for (std::size_t row = 0; row < out.size(); row += keys) {
      Field sum = 0;
      for (std::size_t k = row; k < row + keys; ++k) {
        out[k] = out[k] == hidden ? 0 : some_function(out[k]);
        sum = plus(sum, out[k]);
      }
      for (std::size_t k = row; k < row + keys; ++k) out[k] = times(out[k], inverse(sum));
    }
    known_[id] = std::move(out);
    return true;
  }

  /// Attention of single heads or batches of as many each, as PyTorch's documents define it. A mask of booleans hides
  /// nothing, as conditions are true here.
  bool attention(const ir::GraphNode& node, int id) {
    const int q = tensor(node, "query"), k = tensor(node, "key"), v = tensor(node, "value");
    const int mask = tensor(node, "attn_mask");
    const bool added = mask >= 0 && graph_.values[static_cast<std::size_t>(mask)].dtype != DType::boolean;
    const auto side = [&](int of, std::size_t back) {
      return static_cast<std::size_t>(shape(of)[shape(of).size() - back]);
    };
    const std::size_t rows = side(q, 2), features = side(q, 1), keys = side(k, 2), columns = side(v, 1);
    const Field scale = from(number(node, "scale").value_or(1 / std::sqrt(static_cast<double>(features))));
    const ir::Arg* causal = node.arg("is_causal");
    std::vector<std::int64_t> full = shape(q);
    full.back() = static_cast<std::int64_t>(keys);
    std::vector<Field> out;
    for (std::size_t r = 0; r < known_[q].size() / features; ++r) {
      const std::size_t batch = r / rows;
      std::vector<Field> weights(keys, 0);
      Field sum = 0;
      for (std::size_t j = 0; j < keys; ++j) {
        if (std::get<bool>(causal->data) && j > r % rows) continue;
        Field score = 0;
        for (std::size_t f = 0; f < features; ++f)
          score = plus(score, times(known_[q][r * features + f], known_[k][(batch * keys + j) * features + f]));
        score = times(score, scale);
        if (added) score = plus(score, known_[mask][broadcast(r * keys + j, full, shape(mask))]);
        weights[j] = some_function(score);
        sum = plus(sum, weights[j]);
      }
      for (std::size_t c = 0; c < columns; ++c) {
        Field total = 0;
        for (std::size_t j = 0; j < keys; ++j)
          total = plus(total, times(weights[j], known_[v][(batch * keys + j) * columns + c]));
        out.push_back(times(total, inverse(sum)));
      }
    }
    known_[id] = std::move(out);
    return true;
  }

  /// 1/√ is some function here: what is equal for any function of equal arguments is equal for that one.
  static Field some_function(Field a) { return plus(times(times(a, a), plus(a, 12345)), 678910); }

  /// A batch norm in evaluation.
  bool norm(const ir::GraphNode& node, int id) {
    const int x = tensor(node, "input"), mean = tensor(node, "running_mean"), variance = tensor(node, "running_var");
    const int weight = tensor(node, "weight"), bias = tensor(node, "bias");
    const auto channels = static_cast<std::size_t>(shape(id)[1]);
    std::vector<Field> out = known_[x];
    const Field eps = from(number(node, "eps").value_or(0));
    std::vector<Field> factor, shift;
    for (std::size_t c = 0; c < channels; ++c) {
      factor.push_back(some_function(plus(known_[variance][c], eps)));
      if (weight >= 0) factor[c] = times(factor[c], known_[weight][c]);
      shift.push_back(bias < 0 ? 0 : known_[bias][c]);
    }
    const std::size_t plane = out.size() / static_cast<std::size_t>(shape(id)[0]) / channels;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t c = i / plane % channels;
      out[i] = plus(times(plus(out[i], prime - known_[mean][c]), factor[c]), shift[c]);
    }
    known_[id] = std::move(out);
    return true;
  }

  /// Of elements in groups, which `group` numbers: the mean, and the mean of squared distances from it.
  template <typename F>
  std::array<std::vector<Field>, 2> moments(int x, std::size_t groups, const F& group) {
    std::array<std::vector<Field>, 2> out{std::vector<Field>(groups, 0), std::vector<Field>(groups, 0)};
    const std::vector<Field>& data = known_[x];
    const Field each = inverse(data.size() / groups);
    for (std::size_t i = 0; i < data.size(); ++i) out[0][group(i)] = plus(out[0][group(i)], times(data[i], each));
    for (std::size_t i = 0; i < data.size(); ++i) {
      const Field away = plus(data[i], prime - out[0][group(i)]);
      out[1][group(i)] = plus(out[1][group(i)], times(times(away, away), each));
    }
    return out;
  }

  /// A norm of batches in training, or of groups of channels: the result at hand.
  bool norm_of_data(const ir::GraphNode& node, int id) {
    const int x = tensor(node, "input"), weight = tensor(node, "weight"), bias = tensor(node, "bias");
    const auto images = static_cast<std::size_t>(shape(x)[0]), channels = static_cast<std::size_t>(shape(x)[1]);
    const std::size_t plane = known_[x].size() / images / channels;
    const bool grouped = node.op == "aten.native_group_norm.default";
    const auto groups = static_cast<std::size_t>(number(node, "group").value_or(0));
    const auto group = [&](std::size_t i) {
      const std::size_t c = i / plane % channels;
      return grouped ? i / plane / channels * groups + c / (channels / groups) : c;
    };
    const auto [mean, variance] = moments(x, grouped ? images * groups : channels, group);
    std::vector<Field> rstd;
    for (const Field one : variance) rstd.push_back(some_function(plus(one, from(*number(node, "eps")))));
    const auto position = std::ranges::find(node.outs, std::optional<int>(id)) - node.outs.begin();
    if (position >= 3) {
      const Field momentum = from(*number(node, "momentum"));
      const Field count = images * plane, sample = times(count, inverse(count - 1));
      std::vector<Field> out = known_[tensor(node, position == 3 ? "running_mean" : "running_var")];
      for (std::size_t c = 0; c < channels; ++c) {
        const Field now = position == 3 ? mean[c] : times(variance[c], sample);
        out[c] = plus(times(out[c], plus(1, prime - momentum)), times(now, momentum));
      }
      known_[id] = std::move(out);
    } else if (position > 0) {
      known_[id] = position == 1 ? mean : rstd;
    } else {
      std::vector<Field> out = known_[x];
      for (std::size_t i = 0; i < out.size(); ++i) {
        const std::size_t c = i / plane % channels;
        out[i] = times(plus(out[i], prime - mean[group(i)]), rstd[group(i)]);
        if (weight >= 0) out[i] = times(out[i], known_[weight][c]);
        if (bias >= 0) out[i] = plus(out[i], known_[bias][c]);
      }
      known_[id] = std::move(out);
    }
    return true;
  }

  /// Variances, not of a sample, and means, over some dims.
  bool variance(const ir::GraphNode& node, int id) {
    const int x = tensor(node, "self");
    const auto folded = list(node, "dim", 0, 0);
    if (number(node, "correction") != 0) return false;
    const auto group = [&](std::size_t i) {
      std::size_t place = 0;
      const auto at = digits(i, shape(x));
      for (std::size_t d = 0; d < at.size(); ++d) {
        if (std::ranges::find(folded, static_cast<std::int64_t>(d)) == folded.end())
          place = place * static_cast<std::size_t>(shape(x)[d]) + static_cast<std::size_t>(at[d]);
      }
      return place;
    };
    const auto both =
        moments(x, static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(id)].elements()), group);
    known_[id] = both[node.outs.front() == id ? 1 : 0];
    return true;
  }

  /// Averages as PyTorch defines them: what a window has of data and padding counts, or what it has of data alone.
  bool average(const ir::GraphNode& node, int id) {
    const int x = tensor(node, "self");
    const std::size_t dims = shape(x).size() - 2;
    const auto size = list(node, "kernel_size", dims, 1), stride = list(node, "stride", dims, 1),
               padding = list(node, "padding", dims, 0);
    const ir::Arg* all = node.arg("count_include_pad");
    const bool padded = all == nullptr || std::get<bool>(all->data);
    std::vector<Field> out;
    for (std::size_t i = 0; i < static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(id)].elements()); ++i) {
      const auto at = digits(i, shape(id));
      std::int64_t taps = 1, count = 1;
      for (std::size_t d = 0; d < dims; ++d) {
        const std::int64_t extent = shape(x)[d + 2], begin = at[d + 2] * stride[d] - padding[d];
        const std::int64_t end = std::min(begin + size[d], extent + padding[d]);
        taps *= size[d];
        count *= padded ? end - begin : std::min(end, extent) - std::max<std::int64_t>(begin, 0);
      }
      Field sum = 0;
      for (std::int64_t t = 0; t < taps; ++t) {
        const auto tap = digits(static_cast<std::size_t>(t), size);
        std::vector<std::int64_t> where{at[0], at[1]};
        for (std::size_t d = 0; d < dims; ++d) where.push_back(at[d + 2] * stride[d] - padding[d] + tap[d]);
        if (const auto element = place(where, shape(x))) sum = plus(sum, known_[x][*element]);
      }
      const auto divisor = number(node, "divisor_override");
      out.push_back(times(sum, inverse(divisor ? from(*divisor) : static_cast<Field>(count))));
    }
    known_[id] = std::move(out);
    return true;
  }

  /// Elements of one value at other places: `from` says where; zero outside.
  template <typename F>
  bool moved(int x, int id, F&& from) {
    std::vector<Field> out;
    for (std::size_t i = 0; i < static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(id)].elements()); ++i) {
      const auto at = place(from(digits(i, shape(id))), shape(x));
      out.push_back(at ? known_[x][*at] : 0);
    }
    known_[id] = std::move(out);
    return true;
  }

  bool movement(const ir::GraphNode& node, int id) {
    const int x = tensor(node, "self");
    // Numbers of a field are not rounded.
    const auto number_of = [&](int v) { return is_floating(graph_.values[static_cast<std::size_t>(v)].dtype); };
    const bool wider = node.op == "aten._to_copy.default" && number_of(x) && number_of(id);
    if (wider || node.op == "aten.view.default" || node.op == "aten.unsqueeze.default" ||
        node.op == "aten.clone.default") {
      known_[id] = known_[x];
      return true;
    }
    if (node.op == "aten.expand.default") {
      const std::size_t own = shape(x).size();
      return moved(x, id, [&](std::vector<std::int64_t> at) {
        at.erase(at.begin(), at.end() - static_cast<std::ptrdiff_t>(own));
        for (std::size_t d = 0; d < own; ++d) at[d] = shape(x)[d] == 1 ? 0 : at[d];
        return at;
      });
    }
    if (node.op == "aten.permute.default") {
      const auto order = list(node, "dims", 0, 0);
      return moved(x, id, [&](const std::vector<std::int64_t>& at) {
        std::vector<std::int64_t> own(at.size());
        for (std::size_t d = 0; d < at.size(); ++d) own[static_cast<std::size_t>(order[d])] = at[d];
        return own;
      });
    }
    const auto whole = [&](std::string_view name) {
      const auto value = number(node, name);
      return static_cast<std::int64_t>(value.value_or(0));
    };
    if (node.op == "aten.slice.Tensor") {
      return moved(x, id, [&](std::vector<std::int64_t> at) {
        auto& one = at[static_cast<std::size_t>(whole("dim"))];
        one = one * whole("step") + whole("start");
        return at;
      });
    }
    if (node.op == "aten.copy.default") {
      known_[id] = known_[tensor(node, "src")];
      return true;
    }
    if (node.op == "aten.slice_scatter.default") {
      const int src = tensor(node, "src");
      const auto dim = static_cast<std::size_t>(whole("dim"));
      known_[id] = known_[x];
      for (std::size_t i = 0; i < known_[src].size(); ++i) {
        auto at = digits(i, shape(src));
        at[dim] = at[dim] * whole("step") + whole("start");
        known_[id][*place(at, shape(id))] = known_[src][i];
      }
      return true;
    }
    if (node.op == "aten.split_with_sizes.default") {
      const std::int64_t dim = whole("dim"), rank = static_cast<std::int64_t>(shape(x).size());
      const auto sizes = list(node, "split_sizes", 0, 0);
      std::int64_t before = 0;
      for (std::size_t part = 0; node.outs[part] != id; ++part) before += sizes[part];
      return moved(x, id, [&](std::vector<std::int64_t> at) {
        at[static_cast<std::size_t>(dim < 0 ? dim + rank : dim)] += before;
        return at;
      });
    }
    if (node.op == "aten.flip.default") {
      const auto turned = list(node, "dims", 0, 0);
      return moved(x, id, [&](std::vector<std::int64_t> at) {
        for (const std::int64_t d : turned) {
          auto& one = at[static_cast<std::size_t>(d)];
          one = shape(x)[static_cast<std::size_t>(d)] - 1 - one;
        }
        return at;
      });
    }
    // Infinities around are for an extreme, which is not computed.
    if (node.op == "aten.constant_pad_nd.default" &&
        (number(node, "value") == 0 || std::isinf(*number(node, "value")))) {
      const auto around = list(node, "pad", 0, 0);
      return moved(x, id, [&](std::vector<std::int64_t> at) {
        for (std::size_t i = 0; 2 * i < around.size(); ++i) at[at.size() - 1 - i] -= around[2 * i];
        return at;
      });
    }
    if (node.op == "aten.select.int") {
      return moved(x, id, [&](std::vector<std::int64_t> at) {
        at.insert(at.begin() + whole("dim"), whole("index"));
        return at;
      });
    }
    if (node.op == "aten.cat.default") {
      const auto& ids = std::get<ir::ValueList>(node.arg("tensors")->data).ids;
      const auto dim = static_cast<std::size_t>(whole("dim") + (whole("dim") < 0 ? std::ssize(shape(id)) : 0));
      std::vector<Field> out;
      for (std::size_t i = 0; i < static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(id)].elements());
           ++i) {
        auto at = digits(i, shape(id));
        std::size_t part = 0;
        for (; at[dim] >= shape(*ids[part])[dim]; ++part) at[dim] -= shape(*ids[part])[dim];
        const int from = *ids[part];
        out.push_back(known_[from][*place(at, shape(from))]);
      }
      known_[id] = std::move(out);
      return true;
    }
    if (node.op == "aten.stack.default" && number(node, "dim") == -1) {
      const ir::Arg* tensors = node.arg("tensors");
      std::vector<Field> out;
      const auto& ids = std::get<ir::ValueList>(tensors->data).ids;
      for (std::size_t i = 0; i < known_[*ids[0]].size(); ++i) {
        for (const auto& one : ids) out.push_back(known_[*one][i]);
      }
      known_[id] = std::move(out);
      return true;
    }
    return false;
  }

  bool fold(const Fold& what, int id) {
    const auto& full = shape(what.of);
    std::vector<Field> out(static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(id)].elements()), 0);
    for (std::size_t i = 0; i < known_[what.of].size(); ++i) {
      std::size_t rest = i, place = 0, step = 1;
      for (std::size_t d = full.size(); d-- > 0;) {
        const auto n = static_cast<std::size_t>(full[d]);
        const bool goes = std::ranges::find(what.dims, static_cast<std::int64_t>(d)) != what.dims.end();
        if (!goes) {
          place += rest % n * step;
          step *= n;
        }
        rest /= n;
      }
      out[place] = plus(out[place], known_[what.of][i]);
    }
    if (what.mean)
      for (Field& one : out) one = times(one, inverse(static_cast<Field>(what.count)));
    known_[id] = std::move(out);
    return true;
  }

  /// A field has no signs. Signs and extremes of weights meet what is not finite alone, in whose place there is zero:
  /// any number will do for them.
  bool of_signs(const ir::GraphNode& node, int id) {
    bool known = false;
    for (const char* op : {"aten.amin.default", "aten.amax.default", "aten.relu.default", "aten.neg.default"})
      known = known || node.op == op;
    if (!known) return false;
    if (node.op == "aten.amax.default") {  // a softmax is the same whatever is taken from all scores of a row: nothing
      known_[id].assign(static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(id)].elements()), 0);
      return true;
    }
    const std::vector<Field>& from = known_[tensor(node, "self")];
    std::vector<Field> out;
    for (std::size_t i = 0; i < static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(id)].elements()); ++i)
      out.push_back(some_function(from[i]));
    known_[id] = std::move(out);
    return true;
  }

  bool step(const ir::GraphNode& node, int id) {
    if (node.op == "aten.linear.default")
      return product(tensor(node, "input"), tensor(node, "weight"), tensor(node, "bias"), true, id);
    if (node.op == "aten.mm.default" || node.op == "aten.bmm.default" || node.op == "aten.bmm.dtype")
      return product(tensor(node, "self"), tensor(node, "mat2"), -1, false, id);
    if (node.op == "aten.mv.default") return product(tensor(node, "self"), tensor(node, "vec"), -1, true, id);
    if (node.op == "aten.matmul.default") return product(tensor(node, "self"), tensor(node, "other"), -1, false, id);
    if (node.op == "aten.mul.Tensor" || node.op == "aten.div.Tensor" || node.op == "aten.add.Tensor" ||
        node.op == "aten.sub.Tensor")
      return pointwise(node, id);
    if (node.op.starts_with("aten.conv")) return convolution(node, id);
    if (node.op.starts_with("aten.avg_pool")) return average(node, id);
    if (node.op == "aten._native_batch_norm_legit_no_training.default") return norm(node, id);
    if (node.op == "aten._native_batch_norm_legit_functional.default" || node.op == "aten.native_group_norm.default")
      return norm_of_data(node, id);
    if (node.op == "aten.var_mean.correction") return variance(node, id);
    if (node.op.starts_with("aten.adaptive_avg_pool")) {  // of all places
      std::vector<std::int64_t> places;
      for (std::size_t d = 2; d < shape(id).size(); ++d) places.push_back(static_cast<std::int64_t>(d));
      const int x = tensor(node, "self");
      std::int64_t count = 1;
      for (const std::int64_t d : places) count *= shape(x)[static_cast<std::size_t>(d)];
      return fold({x, places, true, count, true}, id);
    }
    if (node.op == "aten.rsqrt.default" || node.op == "aten.exp.default") {
      const bool none = node.op == "aten.exp.default";
      std::vector<Field> out;
      for (const Field one : known_[tensor(node, "self")])
        out.push_back(none && one == hidden ? 0 : some_function(one));
      known_[id] = std::move(out);
      return true;
    }
    if (node.op == "aten._softmax.default") return softmax(node, id);
    if (node.op == "aten.scaled_dot_product_attention.default") return attention(node, id);
    if (movement(node, id) || places(node, id)) return true;
    if (of_signs(node, id)) return true;
    const Editor editor(graph_);
    const auto what = linear_fold(editor, node);
    return what && fold(*what, id);
  }

  const ir::Graph& graph_;
  Elements known_;
};

}  // namespace

std::optional<std::vector<Field>> evaluate(const ir::Graph& graph, const Elements& inputs, int wanted) {
  Evaluator evaluator(graph, inputs);
  if (!evaluator.compute(wanted)) return std::nullopt;
  return evaluator.at(wanted);
}

}  // namespace planish::rewrite

TEST_CASE("numbers of a field") {
  using namespace planish::rewrite;
  CHECK(from(3.0) == 3);
  CHECK(from(-1.0) == prime - 1);
  CHECK(times(from(0.375), 8) == 3);
  CHECK(times(inverse(7), 7) == 1);
  CHECK(from(0.0) == 0);
}
