#include "codegen/interpreter.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

namespace planish::codegen {

std::vector<std::vector<double>> Interpreter::run() {
  std::vector<std::vector<double>> outputs;
  for (const Output& o : k_.outputs) {
    std::int64_t size = 1;
    for (std::size_t d = 0; d < o.shape.size(); ++d) size += (o.shape[d] - 1) * o.strides[d];
    outputs.emplace_back(static_cast<std::size_t>(size), unwritten);
  }
  std::vector<std::int64_t> point(k_.space.extents.size(), 0);
  const std::size_t first_inner = point.size() - static_cast<std::size_t>(k_.inner);
  std::optional<std::vector<std::int64_t>> row;
  if (two_ways()) fold_both();
  do {
    const auto holds = [&](const ir::Bound& b) { return b.lo <= b.e.evaluate(point) && b.e.evaluate(point) < b.hi; };
    if (!std::ranges::all_of(k_.outputs[0].where, holds)) continue;  // dropped, as are the others there
    std::vector<std::int64_t> outer(point.begin(), point.begin() + static_cast<std::ptrdiff_t>(first_inner));
    if (!row || *row != outer) {
      row = outer;
      if (!two_ways()) fold(point, first_inner);
    }
    if (two_ways()) set_folded(point);
    set_running(point, first_inner);
    const auto values = evaluate(point);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const auto inside = [&](const ir::Bound& b) { return b.lo <= b.e.evaluate(point) && b.e.evaluate(point) < b.hi; };
      if (!std::ranges::all_of(k_.outputs[o].where, inside)) continue;
      auto at = k_.outputs[o].index.evaluate(point);
      if (!move(k_.outputs[o], values, at)) continue;
      double& slot = outputs[o].at(static_cast<std::size_t>(at));
      const double value = values[static_cast<std::size_t>(k_.outputs[o].node)];
      if (!k_.outputs[o].per_row && !k_.outputs[o].per_column && !k_.outputs[o].per_part &&
          k_.outputs[o].args.empty() && slot != unwritten)
        throw std::runtime_error("written twice");
      slot = value;
    }
  } while (next(point, 0));
  return outputs;
}

bool Interpreter::next(std::vector<std::int64_t>& point, std::size_t first) const {
  for (std::size_t i = point.size(); i-- > first;) {
    if (++point[i] < k_.space.extents[i]) return true;
    point[i] = 0;
  }
  return false;
}

bool Interpreter::move(const Output& output, const std::vector<double>& values, std::int64_t& at) {
  for (std::size_t i = 0; i < output.args.size(); ++i) {
    const auto place = static_cast<std::int64_t>(values[static_cast<std::size_t>(output.args[i])]);
    if (place < 0 || place >= output.arg_limits[i]) return false;
    at += place * output.arg_strides[i];
  }
  return true;
}

void Interpreter::set_running(const std::vector<std::int64_t>& point, std::size_t first_inner) {
  running_.assign(k_.scans.size(), {});
  if (k_.scans.empty()) return;
  std::vector<std::vector<std::int64_t>> row;
  std::vector<std::int64_t> at = point;
  for (std::size_t i = first_inner; i < at.size(); ++i) at[i] = 0;
  do row.push_back(at);
  while (next(at, first_inner));
  if (k_.reversed) std::reverse(row.begin(), row.end());
  for (const auto& step : row) {
    const auto values = evaluate(step);
    for (std::size_t s = 0; s < running_.size(); ++s) {
      const Scan& scan = k_.scans[s];
      const double x = values[static_cast<std::size_t>(scan.arg)];
      Running& r = running_[s];
      r.before = r.now;
      r.at_before = r.at;
      const bool beyond = scan.kind == ScanKind::max ? x >= r.now : x <= r.now;
      if (!r.begun) r.before = scan.kind == ScanKind::product;
      if (!r.begun) {
        r.now = x;
      } else if (scan.kind == ScanKind::sum) {
        r.now += x;
      } else if (scan.kind == ScanKind::product) {
        r.now *= x;
      } else if (scan.kind == ScanKind::log_sum_exp) {
        r.now = std::log(std::exp(r.now) + std::exp(x));
      } else if (beyond) {
        r.now = x;
      }
      if (scan.at >= 0 && (!r.begun || beyond)) r.at = values[static_cast<std::size_t>(scan.at)];
      r.begun = true;
    }
    if (step == point) return;
  }
}

bool Interpreter::two_ways() const {
  return k_.across > 0 || k_.anchor == Anchor::row_and_column || k_.anchor == Anchor::segmented_row ||
         k_.anchor == Anchor::attention;
}

std::vector<std::int64_t> Interpreter::place_of(const Reduction& r, std::vector<std::int64_t> point) const {
  const std::size_t first_inner = point.size() - static_cast<std::size_t>(k_.inner);
  const std::size_t first = r.across ? first_inner - static_cast<std::size_t>(k_.across)
                            : r.part ? point.size() - static_cast<std::size_t>(k_.parts)
                                     : first_inner;
  for (std::size_t v = first; v < (r.across ? first_inner : point.size()); ++v) point[v] = 0;
  return point;
}

void Interpreter::fold_both() {
  known_.assign(k_.reductions.size(), {});
  for (std::size_t r = 0; r < k_.reductions.size(); ++r) {
    const Reduction& red = k_.reductions[r];
    std::map<std::vector<std::int64_t>, double> results;
    std::vector<std::int64_t> point(k_.space.extents.size(), 0);
    do {
      // Keys are folded once, whatever they are folded of.
      const auto features = static_cast<std::ptrdiff_t>(k_.anchor == Anchor::attention && !red.part ? k_.parts : 0);
      if (std::any_of(point.end() - features, point.end(), [](std::int64_t at) { return at != 0; })) continue;
      set_folded(point);
      const double x = evaluate(point)[static_cast<std::size_t>(red.arg)];
      const auto key = place_of(red, point);
      const auto [at, fresh] = results.try_emplace(key, x);
      if (!fresh) at->second = joined(red.kind, at->second, x);
    } while (next(point, 0));
    known_[r] = std::move(results);
  }
}

void Interpreter::set_folded(const std::vector<std::int64_t>& point) {
  folded_.assign(k_.reductions.size(), 0);
  for (std::size_t r = 0; r < k_.reductions.size(); ++r) {
    const auto at = known_[r].find(place_of(k_.reductions[r], point));
    if (at != known_[r].end()) folded_[r] = at->second;
  }
}

double Interpreter::joined(ReduceKind kind, double acc, double x) {
  switch (kind) {
    case ReduceKind::sum:
      return acc + x;
    case ReduceKind::product:
      return acc * x;
    case ReduceKind::max:
      return std::isnan(acc) || std::isnan(x) ? NAN : std::max(acc, x);
    case ReduceKind::min:
      return std::isnan(acc) || std::isnan(x) ? NAN : std::min(acc, x);
    case ReduceKind::any:
      return acc != 0 || x != 0;
    case ReduceKind::all:
      return acc != 0 && x != 0;
    default:
      throw std::runtime_error("no value");
  }
}

void Interpreter::fold(std::vector<std::int64_t> point, std::size_t first_inner) {
  folded_.assign(k_.reductions.size(), 0);
  for (std::size_t r = 0; r < k_.reductions.size(); ++r) {
    const Reduction& red = k_.reductions[r];
    bool first = true;
    double acc = 0, best = 0;
    for (std::size_t i = first_inner; i < point.size(); ++i) point[i] = 0;
    do {
      const auto values = evaluate(point);
      const double x = values[static_cast<std::size_t>(red.arg)];
      if (finds_position(red.kind)) {
        const double at = values[static_cast<std::size_t>(red.at)];
        const bool beyond = red.kind == ReduceKind::argmax ? x > best : x < best;
        if (first || beyond || (std::isnan(x) && !std::isnan(best)) || (x == best && at < acc)) best = x, acc = at;
      } else if (first) {
        acc = x;
      } else {
        acc = joined(red.kind, acc, x);
      }
      first = false;
    } while (next(point, first_inner));
    folded_[r] = acc;
  }
}

std::vector<double> Interpreter::evaluate(const std::vector<std::int64_t>& point) const {
  std::vector<double> v(k_.nodes.size(), 0);
  for (std::size_t n = 0; n < v.size(); ++n) {
    const Node& node = k_.nodes[n];
    const auto a = [&](std::size_t i) { return v[static_cast<std::size_t>(node.args[i])]; };
    const bool integer = !is_floating(node.dtype);
    switch (node.op) {
      case Op::constant:
        v[n] = integer ? static_cast<double>(node.bits) : node.value;
        break;
      case Op::index:
        v[n] = static_cast<double>(node.index.evaluate(point));
        break;
      case Op::reduced:
        v[n] = folded_[static_cast<std::size_t>(node.reduction)];
        break;
      case Op::scanned: {
        const Running r = running_.empty() ? Running{} : running_[static_cast<std::size_t>(node.scan)];
        v[n] = node.position ? (node.exclusive ? r.at_before : r.at) : node.exclusive ? r.before : r.now;
        break;
      }
      case Op::load: {
        bool inside = true;
        for (const auto& b : node.where) {
          const auto e = b.e.evaluate(point);
          inside = inside && e >= b.lo && e < b.hi;
        }
        const auto& in = inputs_[static_cast<std::size_t>(node.input)];
        std::int64_t at = node.index.evaluate(point);
        bool in_range = true;
        for (std::size_t i = 0; i < node.args.size(); ++i) {
          const auto place = static_cast<std::int64_t>(a(i));
          in_range = in_range && place >= 0 && place < node.limits[i];
          at += place * node.strides[i];
        }
        const OutOfRange missing = out_of_range(node.dtype);
        v[n] = inside    ? in_range  ? in.at(static_cast<std::size_t>(at))
                           : integer ? static_cast<double>(missing.bits)
                                     : missing.value
               : integer ? static_cast<double>(node.bits)
                         : node.value;
        break;
      }
      case Op::cast:
        v[n] = node.dtype == DType::boolean ? a(0) != 0 : integer ? std::trunc(a(0)) : a(0);
        break;
      case Op::neg:
        v[n] = -a(0);
        break;
      case Op::abs:
        v[n] = std::abs(a(0));
        break;
      case Op::sqrt:
        v[n] = std::sqrt(a(0));
        break;
      case Op::rsqrt:
        v[n] = 1 / std::sqrt(a(0));
        break;
      case Op::reciprocal:
        v[n] = 1 / a(0);
        break;
      case Op::exp:
        v[n] = std::exp(a(0));
        break;
      case Op::expm1:
        v[n] = std::expm1(a(0));
        break;
      case Op::log:
        v[n] = std::log(a(0));
        break;
      case Op::log1p:
        v[n] = std::log1p(a(0));
        break;
      case Op::tanh:
        v[n] = std::tanh(a(0));
        break;
      case Op::erf:
        v[n] = std::erf(a(0));
        break;
      case Op::sigmoid:
        v[n] = 1 / (1 + std::exp(-a(0)));
        break;
      case Op::relu:
        v[n] = std::isnan(a(0)) ? a(0) : std::max(0.0, a(0));
        break;
      case Op::isnan:
        v[n] = std::isnan(a(0));
        break;
      case Op::logical_not:
        v[n] = a(0) == 0;
        break;
      case Op::add:
        v[n] = a(0) + a(1);
        break;
      case Op::sub:
        v[n] = a(0) - a(1);
        break;
      case Op::mul:
        v[n] = a(0) * a(1);
        break;
      case Op::div:
        v[n] = a(0) / a(1);
        break;
      case Op::round_even:
        v[n] = std::nearbyint(a(0));
        break;
      case Op::floor_div:
        v[n] = std::floor(a(0) / a(1));
        break;
      case Op::trunc_div:
        v[n] = std::trunc(a(0) / a(1));
        break;
      case Op::pow:
        v[n] = std::pow(a(0), a(1));
        break;
      case Op::maximum:
        v[n] = std::isnan(a(0)) || std::isnan(a(1)) ? NAN : std::max(a(0), a(1));
        break;
      case Op::minimum:
        v[n] = std::isnan(a(0)) || std::isnan(a(1)) ? NAN : std::min(a(0), a(1));
        break;
      case Op::eq:
        v[n] = a(0) == a(1);
        break;
      case Op::ne:
        v[n] = a(0) != a(1);
        break;
      case Op::lt:
        v[n] = a(0) < a(1);
        break;
      case Op::le:
        v[n] = a(0) <= a(1);
        break;
      case Op::gt:
        v[n] = a(0) > a(1);
        break;
      case Op::ge:
        v[n] = a(0) >= a(1);
        break;
      case Op::logical_and:
        v[n] = a(0) != 0 && a(1) != 0;
        break;
      case Op::logical_or:
        v[n] = a(0) != 0 || a(1) != 0;
        break;
      case Op::select:
        v[n] = a(0) != 0 ? a(1) : a(2);
        break;
      default:
        throw std::runtime_error("the test interpreter lacks an operation");
    }
  }
  return v;
}

}  // namespace planish::codegen
