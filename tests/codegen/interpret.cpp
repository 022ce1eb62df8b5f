#include "codegen/interpret.h"

#include <map>
#include <stdexcept>

namespace planish::codegen::testing {
namespace {

std::int64_t wrapped(DType t, std::int64_t v) {
  switch (t) {
    case DType::i32:
      return static_cast<std::int32_t>(v);
    case DType::i16:
      return static_cast<std::int16_t>(v);
    case DType::i8:
      return static_cast<std::int8_t>(v);
    case DType::u8:
      return static_cast<std::uint8_t>(v);
    case DType::boolean:
      return v != 0;
    default:
      return v;
  }
}
std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

/// One kernel on its way through its points.
class Walk {
 public:
  static std::vector<Bytes> run(const Kernel& k, const std::vector<Bytes>& inputs) {
    Walk me(k, inputs);
    me.all();
    return std::move(me.outputs_);
  }

 private:
  Walk(const Kernel& k, const std::vector<Bytes>& inputs)
      : k_(k), inputs_(inputs), values_(k.nodes.size()), folded_(k.reductions.size()), running_(k.scans.size()) {
    for (const auto& o : k.outputs) {
      std::int64_t n = 1;
      for (std::size_t i = 0; i < o.shape.size(); ++i) n += (o.shape[i] - 1) * o.strides[i];
      outputs_.emplace_back(static_cast<std::size_t>(n) * static_cast<std::size_t>(size_of(o.dtype)),
                            static_cast<unsigned char>(0));
    }
    point_.assign(k.space.extents.size(), 0);
  }

  void set(std::size_t first, std::size_t last, std::int64_t linear) {
    for (std::size_t i = last; i-- > first;) {
      point_[i] = linear % k_.space.extents[i];
      linear /= k_.space.extents[i];
    }
  }

  /// A point as what a reduction's result depends on.
  std::vector<std::int64_t> place_of(const Reduction& r) const {
    auto key = point_;
    if (r.part) {
      for (std::size_t v = key.size() - static_cast<std::size_t>(k_.parts); v < key.size(); ++v) key[v] = 0;
      return key;
    }
    const std::size_t outer = key.size() - static_cast<std::size_t>(k_.inner);
    const std::size_t from = r.across ? outer - static_cast<std::size_t>(k_.across) : outer;
    for (std::size_t v = from; v < (r.across ? outer : key.size()); ++v) key[v] = 0;
    return key;
  }

  /// Rows, and columns or parts of rows, one reduction after the other over all points.
  void both() {
    std::vector<std::map<std::vector<std::int64_t>, Value>> known(folded_.size());
    const std::int64_t points = k_.outer_extent() * k_.inner_extent();
    const auto visit = [&](std::size_t upto, const auto& f) {
      for (std::int64_t at = 0; at < points; ++at) {
        set(0, point_.size(), at);
        for (std::size_t r = 0; r < upto; ++r) folded_[r] = known[r].at(place_of(k_.reductions[r]));
        evaluate();
        f();
      }
    };
    for (std::size_t r = 0; r < folded_.size(); ++r) {
      visit(r, [&] {
        Value& result = known[r].try_emplace(place_of(k_.reductions[r]), start(k_.reductions[r])).first->second;
        fold(k_.reductions[r], result);
      });
    }
    visit(folded_.size(), [&] {
      for (std::size_t o = 0; o < outputs_.size(); ++o) {
        const auto& out = k_.outputs[o];
        write(out.dtype, outputs_[o], out.index.evaluate(point_), values_[static_cast<std::size_t>(out.node)]);
      }
    });
  }

  void all() {
    if (k_.anchor == Anchor::row_and_column || k_.anchor == Anchor::segmented_row) return both();
    const std::size_t n = point_.size(), split = n - static_cast<std::size_t>(k_.inner);
    int phases = 0;
    for (const auto& r : k_.reductions) phases = std::max(phases, r.phase + 1);
    for (std::int64_t row = 0; row < k_.outer_extent(); ++row) {
      set(0, split, row);
      for (int p = 0; p < phases; ++p) {
        for (std::size_t r = 0; r < folded_.size(); ++r)
          if (k_.reductions[r].phase == p) folded_[r] = start(k_.reductions[r]);
        for (std::int64_t in = 0; in < k_.inner_extent(); ++in) {
          set(split, n, in);
          evaluate();
          for (std::size_t r = 0; r < folded_.size(); ++r)
            if (k_.reductions[r].phase == p) fold(k_.reductions[r], folded_[r]);
        }
      }
      for (Running& r : running_) r = {};
      for (std::int64_t step = 0; step < k_.inner_extent(); ++step) {
        const std::int64_t in = k_.reversed ? k_.inner_extent() - 1 - step : step;
        set(split, n, in);
        evaluate();
        if (!k_.scans.empty()) {
          for (std::size_t s = 0; s < running_.size(); ++s) scan(k_.scans[s], running_[s]);
          evaluate();
        }
        for (std::size_t o = 0; o < outputs_.size(); ++o) {
          const auto& out = k_.outputs[o];
          if (out.per_row && step > 0) continue;
          write(out.dtype, outputs_[o], out.index.evaluate(point_), values_[static_cast<std::size_t>(out.node)]);
        }
      }
    }
  }

  /// A scan with and without the element at hand.
  struct Running {
    Value now{}, before{};
    std::int64_t at = -1, at_before = -1;
    bool begun = false;
  };
  void scan(const Scan& s, Running& r) const {
    const Value v = values_[static_cast<std::size_t>(s.arg)];
    const auto wrap = [](std::int64_t a, std::int64_t b, bool times) {
      const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
      return static_cast<std::int64_t>(times ? x * y : x + y);
    };
    r.before = r.now;
    r.at_before = r.at;
    if (!r.begun) {
      constexpr double inf = std::numeric_limits<double>::infinity();
      const std::int64_t lowest = s.accumulate == DType::i32 ? std::numeric_limits<std::int32_t>::min()
                                                             : std::numeric_limits<std::int64_t>::min();
      const std::int64_t highest = s.accumulate == DType::i32 ? std::numeric_limits<std::int32_t>::max()
                                                              : std::numeric_limits<std::int64_t>::max();
      switch (s.kind) {
        case ScanKind::product:
          r.before = {1, 1};
          break;
        case ScanKind::max:
          r.before = {-inf, lowest};
          break;
        case ScanKind::min:
          r.before = {inf, highest};
          break;
        case ScanKind::log_sum_exp:
          r.before = {-inf, 0};
          break;
        default:
          r.before = {};
      }
      r.now = r.before;
    }
    r.begun = true;
    const std::int64_t at = s.at < 0 ? -1 : values_[static_cast<std::size_t>(s.at)].i;
    const bool real = floating(s.arg);
    switch (s.kind) {
      case ScanKind::sum:
        r.now = {r.now.f + v.f, wrap(r.now.i, v.i, false)};
        break;
      case ScanKind::product:
        r.now = {r.now.f * v.f, wrap(r.now.i, v.i, true)};
        break;
      case ScanKind::max:
      case ScanKind::min: {
        const bool up = s.kind == ScanKind::max;
        const bool better = real ? std::isnan(v.f) || (!std::isnan(r.now.f) && (up ? v.f >= r.now.f : v.f <= r.now.f))
                                 : (up ? v.i >= r.now.i : v.i <= r.now.i);
        if (better) r.now = v, r.at = at;
        break;
      }
      case ScanKind::log_sum_exp: {
        const double low = std::min(r.now.f, v.f), high = std::max(r.now.f, v.f);
        if (std::isnan(v.f) || std::isnan(r.now.f)) {
          r.now.f = std::nan("");
        } else {
          r.now.f = low != high || std::isfinite(low) ? high + std::log1p(std::exp(low - high)) : high;
        }
        break;
      }
    }
  }

  bool floating(int node) const { return is_floating(k_.nodes[static_cast<std::size_t>(node)].dtype); }

  Value start(const Reduction& r) const {
    constexpr double inf = std::numeric_limits<double>::infinity();
    using L = std::numeric_limits<std::int64_t>;
    switch (r.kind) {
      case ReduceKind::product:
        return {1, 1};
      case ReduceKind::max:
        return {-inf, L::min()};
      case ReduceKind::min:
        return {inf, L::max()};
      case ReduceKind::all:
        return {0, 1};
      case ReduceKind::argmax:
        return {-inf, L::max()};
      case ReduceKind::argmin:
        return {inf, L::max()};
      default:
        return {0, 0};
    }
  }
  void fold(const Reduction& r, Value& into) const {
    const Value v = values_[static_cast<std::size_t>(r.arg)];
    const auto wrap = [](std::int64_t a, std::int64_t b, bool times) {
      const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
      return static_cast<std::int64_t>(times ? x * y : x + y);
    };
    switch (r.kind) {
      case ReduceKind::sum:
        into = {into.f + (floating(r.arg) ? v.f : 0), wrap(into.i, v.i, false)};
        break;
      case ReduceKind::product:
        into = {into.f * v.f, wrap(into.i, v.i, true)};
        break;
      case ReduceKind::max:
        into = {v.f > into.f || std::isnan(v.f) ? v.f : into.f, std::max(into.i, v.i)};
        break;
      case ReduceKind::min:
        into = {v.f < into.f || std::isnan(v.f) ? v.f : into.f, std::min(into.i, v.i)};
        break;
      case ReduceKind::any:
        into.i |= truth(r.arg);
        break;
      case ReduceKind::all:
        into.i &= truth(r.arg);
        break;
      case ReduceKind::argmax:
      case ReduceKind::argmin: {
        // The extreme so far in f, its position in i.
        const double x = floating(r.arg) ? v.f : static_cast<double>(v.i);
        const std::int64_t at = values_[static_cast<std::size_t>(r.at)].i;
        const bool beyond = r.kind == ReduceKind::argmax ? x > into.f : x < into.f;
        const bool equal = x == into.f || (std::isnan(x) && std::isnan(into.f));
        if (beyond || (std::isnan(x) && !std::isnan(into.f)) || (equal && at < into.i)) into = {x, at};
        break;
      }
      case ReduceKind::nth_smallest:
      case ReduceKind::nth_largest:
        throw std::logic_error("ranks are not folded: order_samples.h has their definition");
    }
  }
  std::int64_t truth(int node) const {
    const Value v = values_[static_cast<std::size_t>(node)];
    return floating(node) ? v.f != 0 : v.i != 0;
  }

  void evaluate() {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = node(k_.nodes[i]);
  }

  Value node(const Node& n) const {
    const auto a = [&](std::size_t i) { return values_[static_cast<std::size_t>(n.args[i])]; };
    const bool real = is_floating(n.dtype);
    const auto f = [](double x) { return Value{x, 0}; };
    const auto b = [](bool x) { return Value{0, x}; };
    const auto z = [&](std::uint64_t x) { return Value{0, wrapped(n.dtype, static_cast<std::int64_t>(x))}; };
    const auto u = [&](std::size_t i) { return static_cast<std::uint64_t>(a(i).i); };
    const auto compare = [&](auto op) { return b(floating(n.args[0]) ? op(a(0).f, a(1).f) : op(a(0).i, a(1).i)); };
    const double x = n.args.empty() ? 0 : a(0).f, y = n.args.size() < 2 ? 0 : a(1).f;
    switch (n.op) {
      case Op::constant:
        return {n.value, n.bits};
      case Op::load: {
        for (const auto& w : n.where) {
          const std::int64_t at = w.e.evaluate(point_);
          if (at < w.lo || at >= w.hi) return {n.value, n.bits};
        }
        const DType stored = k_.inputs[static_cast<std::size_t>(n.input)].dtype;
        std::int64_t at = n.index.evaluate(point_);
        for (std::size_t i = 0; i < n.args.size(); ++i) {
          if (a(i).i < 0 || a(i).i >= n.limits[i]) return {out_of_range(stored).value, out_of_range(stored).bits};
          at += a(i).i * n.strides[i];
        }
        return read(stored, inputs_[static_cast<std::size_t>(n.input)], at);
      }
      case Op::index:
        return {0, n.index.evaluate(point_)};
      case Op::reduced:
        return folded_[static_cast<std::size_t>(n.reduction)];
      case Op::scanned: {
        const Running& r = running_[static_cast<std::size_t>(n.scan)];
        if (n.position) return {0, n.exclusive ? r.at_before : r.at};
        return n.exclusive ? r.before : r.now;
      }
      case Op::cast: {
        const bool from = floating(n.args[0]);
        if (n.dtype == DType::boolean) return b(from ? x != 0 : a(0).i != 0);
        if (!real) return from ? z(static_cast<std::uint64_t>(static_cast<std::int64_t>(x))) : z(u(0));
        double v = from ? x : static_cast<double>(a(0).i);
        if (n.rounds && n.dtype == DType::bf16) v = widen_bf16(narrow_bf16(static_cast<float>(v)));
        if (n.rounds && n.dtype == DType::f16) v = static_cast<float>(static_cast<_Float16>(static_cast<float>(v)));
        return f(v);
      }
      case Op::neg:
        return real ? f(-x) : z(0 - u(0));
      case Op::abs:
        return real ? f(std::fabs(x)) : z(a(0).i < 0 ? 0 - u(0) : u(0));
      case Op::sign:
        return real ? f((x > 0) - (x < 0)) : z(static_cast<std::uint64_t>((a(0).i > 0) - (a(0).i < 0)));
      case Op::ceil:
        return {std::ceil(x), a(0).i};
      case Op::floor:
        return {std::floor(x), a(0).i};
      case Op::round_even:
        return {std::nearbyint(x), a(0).i};
      case Op::trunc:
        return {std::trunc(x), a(0).i};
      case Op::frac:
        return f(x - std::trunc(x));
      case Op::reciprocal:
        return f(1 / x);
      case Op::sqrt:
        return f(std::sqrt(x));
      case Op::rsqrt:
        return f(1 / std::sqrt(x));
      case Op::exp:
        return f(std::exp(x));
      case Op::exp2:
        return f(std::exp2(x));
      case Op::expm1:
        return f(std::expm1(x));
      case Op::log:
        return f(std::log(x));
      case Op::log2:
        return f(std::log2(x));
      case Op::log10:
        return f(std::log10(x));
      case Op::log1p:
        return f(std::log1p(x));
      case Op::sin:
        return f(std::sin(x));
      case Op::cos:
        return f(std::cos(x));
      case Op::tan:
        return f(std::tan(x));
      case Op::asin:
        return f(std::asin(x));
      case Op::acos:
        return f(std::acos(x));
      case Op::atan:
        return f(std::atan(x));
      case Op::sinh:
        return f(std::sinh(x));
      case Op::cosh:
        return f(std::cosh(x));
      case Op::tanh:
        return f(std::tanh(x));
      case Op::asinh:
        return f(std::asinh(x));
      case Op::acosh:
        return f(std::acosh(x));
      case Op::atanh:
        return f(std::atanh(x));
      case Op::erf:
        return f(std::erf(x));
      case Op::erfc:
        return f(std::erfc(x));
      case Op::sigmoid:
        return f(1 / (1 + std::exp(-x)));
      case Op::logical_not:
        return b(!truth(n.args[0]));
      case Op::bitwise_not:
        return n.dtype == DType::boolean ? b(!a(0).i) : z(~u(0));
      case Op::isnan:
        return b(std::isnan(x));
      case Op::isinf:
        return b(std::isinf(x));
      case Op::isfinite:
        return b(floating(n.args[0]) ? std::isfinite(x) : true);
      case Op::relu:
        return {x < 0 ? 0 : x, a(0).i < 0 ? 0 : a(0).i};
      case Op::add:
        return real ? f(x + y) : z(u(0) + u(1));
      case Op::sub:
        return real ? f(x - y) : z(u(0) - u(1));
      case Op::mul:
        return real ? f(x * y) : z(u(0) * u(1));
      case Op::div:
        return f(x / y);
      case Op::floor_div:
        return real ? f(std::floor(x / y)) : z(a(1).i ? static_cast<std::uint64_t>(floor_div(a(0).i, a(1).i)) : 0);
      case Op::trunc_div:
        return real ? f(std::trunc(x / y)) : z(a(1).i ? static_cast<std::uint64_t>(a(0).i / a(1).i) : 0);
      case Op::remainder: {
        if (!real) return z(a(1).i ? static_cast<std::uint64_t>(a(0).i - floor_div(a(0).i, a(1).i) * a(1).i) : 0);
        const double m = std::fmod(x, y);
        return f(m != 0 && (y < 0) != (m < 0) ? m + y : m);
      }
      case Op::fmod:
        return real ? f(std::fmod(x, y)) : z(a(1).i ? static_cast<std::uint64_t>(a(0).i % a(1).i) : 0);
      case Op::pow: {
        if (real) return f(std::pow(x, y));
        std::uint64_t r = 1;
        for (std::int64_t i = 0; i < a(1).i; ++i) r *= u(0);
        return z(r);
      }
      case Op::atan2:
        return f(std::atan2(x, y));
      case Op::maximum:
        return real ? f(std::isnan(x) || x > y ? x : y) : Value{0, std::max(a(0).i, a(1).i)};
      case Op::minimum:
        return real ? f(std::isnan(x) || x < y ? x : y) : Value{0, std::min(a(0).i, a(1).i)};
      case Op::fmax:
        return real ? f(std::fmax(x, y)) : Value{0, std::max(a(0).i, a(1).i)};
      case Op::fmin:
        return real ? f(std::fmin(x, y)) : Value{0, std::min(a(0).i, a(1).i)};
      case Op::hypot:
        return f(std::hypot(x, y));
      case Op::copysign:
        return f(std::copysign(x, y));
      case Op::eq:
        return compare([](auto p, auto q) { return p == q; });
      case Op::ne:
        return compare([](auto p, auto q) { return p != q; });
      case Op::lt:
        return compare([](auto p, auto q) { return p < q; });
      case Op::le:
        return compare([](auto p, auto q) { return p <= q; });
      case Op::gt:
        return compare([](auto p, auto q) { return p > q; });
      case Op::ge:
        return compare([](auto p, auto q) { return p >= q; });
      case Op::logical_and:
        return b(truth(n.args[0]) && truth(n.args[1]));
      case Op::logical_or:
        return b(truth(n.args[0]) || truth(n.args[1]));
      case Op::logical_xor:
        return b(truth(n.args[0]) != truth(n.args[1]));
      case Op::bitwise_and:
        return z(u(0) & u(1));
      case Op::bitwise_or:
        return z(u(0) | u(1));
      case Op::bitwise_xor:
        return z(u(0) ^ u(1));
      case Op::shift_left:
        return z(a(1).i < 0 || a(1).i >= 8 * size_of(n.dtype) ? 0 : u(0) << a(1).i);
      case Op::shift_right:
        return z(static_cast<std::uint64_t>(a(0).i >> (a(1).i < 0 || a(1).i > 63 ? 63 : a(1).i)));
      case Op::select:
        return truth(n.args[0]) ? a(1) : a(2);
      case Op::fma:
        return f(x * y + a(2).f);
    }
    return {};
  }

  const Kernel& k_;
  const std::vector<Bytes>& inputs_;
  std::vector<Value> values_, folded_;
  std::vector<Running> running_;
  std::vector<Bytes> outputs_;
  std::vector<std::int64_t> point_;
};

}  // namespace

std::vector<Bytes> Interpreter::run(const Kernel& k, const std::vector<Bytes>& inputs) {
  return Walk::run(k, inputs);
}

}  // namespace planish::codegen::testing
