#include "codegen/attention/packing.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "codegen/emit/expression.h"
#include "codegen/grouped/grouped.h"

namespace planish::codegen::attention {
namespace {

/// An integer node as places and, so many times each, what offsets hold at the query's sequence.
struct Linear {
  ir::IndexExpr places;
  std::map<int, std::int64_t> looked_up;  ///< by node
};

class PackingReader {
 public:
  PackingReader(const Kernel& kernel, const Attention& a) : k_(kernel), a_(a) {}

  std::optional<Packing> read() {
    if (a_.scores.n.size() != 1 && a_.scores.n.size() != 3) return std::nullopt;
    out_.in_pages = a_.scores.n.size() == 3;
    const Node& choice = node(a_.score);
    if (choice.op != Op::select) return std::nullopt;
    const Node& otherwise = node(choice.args[2]);
    if (otherwise.op != Op::constant || otherwise.value != -std::numeric_limits<double>::infinity())
      return std::nullopt;
    out_.score = choice.args[1];
    take_conditions(choice.args[0]);
    if (!find_sequences() || !reads_no_more()) return std::nullopt;
    bool begins = false, ends = false;
    for (const int condition : conditions_) {
      if (!take_test(condition, begins, ends)) return std::nullopt;
    }
    return begins && ends ? std::optional(std::move(out_)) : std::nullopt;
  }

 private:
  const Node& node(int id) const { return k_.nodes[static_cast<std::size_t>(id)]; }

  void take_conditions(int id) {
    const Node& test = node(id);
    if (test.op != Op::logical_and) return conditions_.push_back(id);
    for (const int arg : test.args) take_conditions(arg);
  }

  /// The loads that conditions compare with: each takes the sequence that a search has found.
  bool find_sequences() {
    for (const int id : printing::closure(k_, conditions_, [](int) { return false; })) {
      const Node& load = node(id);
      if (!gathers(load) || load.args.size() != 1) continue;
      const auto search = end_search_of(k_, load.args[0], load.limits[0]);
      if (!search) continue;  // a step of the search itself
      if (sequence_ >= 0 && sequence_ != load.args[0]) return false;
      if (sequence_ < 0) {
        sequence_ = load.args[0];
        out_.count = search->count;
        out_.queries = {search->input, search->first - search->stride, search->stride};
        for (const int v : a_.scores.m) {
          if (search->row == ir::IndexExpr::variable(v)) out_.row = v;
        }
      }
      loads_.push_back(id);
    }
    return sequence_ >= 0 && out_.row >= 0 && out_.queries.first >= 0 && find_keys();
  }

  /// The loads that are no ends of queries: a sequence's first key, and the end of its keys.
  bool find_keys() {
    std::vector<int> others;
    for (const int id : loads_) {
      if (is_at(id, out_.queries, 1))
        last_query_ = id;
      else
        others.push_back(id);
    }
    if (out_.in_pages) {
      if (others.size() != 1) return false;
      last_key_ = others[0];
      const Node& used = node(last_key_);
      out_.keys = {used.input, used.index.constant_term(), used.strides[0]};
      return is_at(last_key_, out_.keys, 0) && out_.keys.first >= 0;
    }
    // Where queries and keys have the same offsets, one load is the end of both.
    if (others.size() == 1 && last_query_ >= 0) {
      out_.keys = out_.queries;
      first_key_ = others[0];
      last_key_ = last_query_;
      return is_at(first_key_, out_.keys, 0);
    }
    if (others.size() != 2) return false;
    for (const bool turned : {false, true}) {
      first_key_ = others[turned ? 1 : 0];
      last_key_ = others[turned ? 0 : 1];
      const Node& begin = node(first_key_);
      out_.keys = {begin.input, begin.index.constant_term(), begin.strides[0]};
      if (is_at(first_key_, out_.keys, 0) && is_at(last_key_, out_.keys, 1)) return out_.keys.first >= 0;
    }
    return false;
  }

  bool is_at(int id, const Offsets& offsets, std::int64_t further) const {
    const Node& load = node(id);
    return load.input == offsets.input && load.where.empty() && load.index.is_constant() &&
           load.strides[0] == offsets.stride && load.limits[0] == out_.count &&
           load.index.constant_term() == offsets.first + further * offsets.stride;
  }

  /// Nothing but these conditions looks anything up, and in pages keys and values, wherever the query is.
  bool reads_no_more() const {
    std::vector<int> roots{out_.score, a_.shift, a_.divisor};
    for (const Output& output : k_.outputs) roots.push_back(output.node);
    roots.insert(roots.end(), {a_.scores.first, a_.scores.second, a_.values.second});
    const auto all = printing::closure(k_, roots, [&](int id) { return id == a_.score; });
    return std::ranges::none_of(all, [&](int id) {
      if (id == a_.score || !gathers(node(id))) return false;
      const auto places = printing::closure(k_, node(id).args, [](int) { return false; });
      return !out_.in_pages || std::ranges::any_of(places, [&](int at) { return gathers(node(at)); });
    });
  }

  /// How many keys a step of each key variable is, as conditions count them: none of the one that numbers sequences.
  std::vector<std::int64_t> steps() const {
    if (!out_.in_pages) return {1};
    return {0, k_.space.extent(a_.scores.n[2]), 1};
  }

  std::optional<Linear> linear(int id) const {
    const Node& each = node(id);
    Linear out;
    if (each.op == Op::index) {
      out.places = each.index;
    } else if (each.op == Op::constant && !is_floating(each.dtype)) {
      out.places = ir::IndexExpr::constant(each.bits);
    } else if (each.op == Op::load && std::ranges::find(loads_, id) != loads_.end()) {
      out.looked_up[id] = 1;
    } else if (each.op == Op::cast && !is_floating(each.dtype) && each.dtype != DType::boolean) {
      return linear(each.args[0]);
    } else if (each.op == Op::add || each.op == Op::sub) {
      const auto left = linear(each.args[0]), right = linear(each.args[1]);
      if (!left || !right) return std::nullopt;
      return sum(*left, *right, each.op == Op::add ? 1 : -1);
    } else {
      return std::nullopt;
    }
    return out;
  }

  Linear sum(Linear left, const Linear& right, std::int64_t times) const {
    left.places = ir::add(left.places, ir::scale(right.places, times), k_.space);
    for (const auto& [id, n] : right.looked_up) left.looked_up[id] += times * n;
    return left;
  }

  /// A condition as a test of places within the sequence: what is looked up must be what these are counted from.
  bool take_test(int id, bool& begins, bool& ends) {
    const Node& test = node(id);
    if (out_.in_pages && test.op == Op::eq) return begins = is_own(test);
    const bool grows = test.op == Op::ge || test.op == Op::gt;
    if (!grows && test.op != Op::le && test.op != Op::lt) return false;
    const auto more = linear(test.args[grows ? 0 : 1]), less = linear(test.args[grows ? 1 : 0]);
    if (!more || !less) return false;
    Linear e = sum(*more, *less, -1);  // at least 0, or 1
    const int key = a_.scores.n.back();
    const PlaceTest found{e.places.coefficient_of(out_.row), e.places.coefficient_of(key),
                          e.places.constant_term() - (test.op == Op::gt || test.op == Op::lt ? 1 : 0)};
    auto counted = ir::scale(ir::IndexExpr::variable(out_.row), found.row);
    const std::vector<std::int64_t> by = steps();
    for (std::size_t i = 0; i < by.size(); ++i)
      counted = ir::add(counted, ir::scale(ir::IndexExpr::variable(a_.scores.n[i]), found.key * by[i]), k_.space);
    if (!(ir::add(counted, ir::IndexExpr::constant(e.places.constant_term()), k_.space) == e.places)) return false;
    // row = its place + the last query's - the last key's + the first key's; key = its place + the first key's, which
    // in pages is the first of all.
    if (!out_.in_pages) e.looked_up[first_key_] += found.row + found.key;
    e.looked_up[last_key_] -= found.row;
    if (last_query_ >= 0)
      e.looked_up[last_query_] += found.row;
    else if (found.row != 0)
      return false;
    const bool none = std::ranges::all_of(e.looked_up, [](const auto& each) { return each.second == 0; });
    if (!out_.in_pages && none && found.row == 0 && found.key == 1 && found.constant == 0) {
      begins = true;
      return true;
    }
    e.looked_up[last_key_] -= 1;
    if (!out_.in_pages) e.looked_up[first_key_] += 1;
    if (!none) {  // the one that is about how many keys there are
      ends = found.row == 0 && found.key == -1 && found.constant == -1 &&
             std::ranges::all_of(e.looked_up, [](const auto& each) { return each.second == 0; });
      return ends;
    }
    constexpr std::int64_t most = std::int64_t{1} << 29;
    const bool fits =
        found.key != 0 && found.row >= -1 && found.row <= 1 && found.constant > -most && found.constant < most;
    if (fits) out_.tests.push_back(found);
    return fits && (found.key == 1 || found.key == -1);
  }

  /// Whether it asks for keys of the query's own sequence.
  bool is_own(const Node& test) const {
    const auto is_sequence = [&](int id) {
      const auto value = linear(id);
      return value && value->looked_up.empty() && value->places == ir::IndexExpr::variable(a_.scores.n[0]);
    };
    return (test.args[1] == sequence_ && is_sequence(test.args[0])) ||
           (test.args[0] == sequence_ && is_sequence(test.args[1]));
  }

  const Kernel& k_;
  const Attention& a_;
  Packing out_;
  std::vector<int> conditions_, loads_;
  int sequence_ = -1, first_key_ = -1, last_key_ = -1, last_query_ = -1;
};

}  // namespace

std::optional<Packing> packing_of(const Kernel& kernel, const Attention& attention) {
  return PackingReader(kernel, attention).read();
}

}  // namespace planish::codegen::attention
