#include "codegen/skinny/codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "codegen/emit/expression.h"
#include "codegen/node_text.h"
#include "codegen/passes.h"

namespace planish::codegen::skinny {
namespace {

using ir::IndexExpr;

constexpr int piece_bytes = 16;
constexpr int step_pieces = 4;     ///< that the lanes of a warp have of one row and step
constexpr double least_codes = 8;  ///< times what a table of groups has

std::unexpected<Error> no_codes(const char* why) {
  return fail("unsupported", fmt::format("weights computed of {}", why));
}

bool is_whole(DType dtype) {
  return is_integer(dtype) || dtype == DType::boolean;
}

/// Copies nodes for one place of a piece: its variable and a number in place of those of k, and what follows from that
/// alone is computed.
class PieceUnroller {
 public:
  PieceUnroller(const Kernel& from, Kernel& to, const std::vector<int>& k, int variable, int count)
      : from_(from), to_(to), k_(k), variable_(variable), count_(count) {}

  /// At one place of these variables alone, the last of them fastest.
  void only_at(std::span<const int> variables, std::int64_t place) {
    for (std::size_t i = variables.size(); i-- > 0;) {
      const std::int64_t extent = from_.space.extent(variables[i]);
      fixed_.emplace_back(variables[i], place % extent);
      place /= extent;
    }
  }

  /// Node of `to` that is node `id` of `from` at element `element` of the piece.
  int at(int id, int element) {
    const auto key = std::pair{id, element};
    if (const auto known = done_.find(key); known != done_.end()) return known->second;
    Node node = from_.nodes[static_cast<std::size_t>(id)];
    for (int& arg : node.args) arg = at(arg, element);
    if (node.op == Op::load || node.op == Op::index) {
      const std::vector<IndexExpr> places = places_of(element);
      node.index = ir::substitute(node.index, places, to_.space);
      std::vector<ir::Bound> where;
      for (ir::Bound bound : node.where) {
        bound.e = ir::substitute(bound.e, places, to_.space);
        if (!ir::always(bound, to_.space)) where.push_back(std::move(bound));
      }
      node.where = std::move(where);
    }
    const int made = folded(std::move(node));
    done_.emplace(key, made);
    return made;
  }

 private:
  const Node& node(int id) const { return to_.nodes[static_cast<std::size_t>(id)]; }
  std::optional<std::int64_t> number(int id) const {
    const Node& one = node(id);
    return one.op == Op::constant && is_whole(one.dtype) ? std::optional(one.bits) : std::nullopt;
  }

  std::vector<IndexExpr> places_of(int element) const {
    std::vector<IndexExpr> out;
    for (std::size_t v = 0; v < from_.space.extents.size(); ++v)
      out.push_back(IndexExpr::variable(static_cast<int>(v)));
    IndexExpr linear =
        ir::add(ir::scale(IndexExpr::variable(variable_), count_), IndexExpr::constant(element), to_.space);
    std::int64_t later = 1;
    for (std::size_t i = k_.size(); i-- > 0;) {
      const std::int64_t extent = from_.space.extent(k_[i]);
      IndexExpr place = ir::floor_div(linear, later, to_.space);
      if (i > 0) place = ir::mod(place, extent, to_.space);
      out[static_cast<std::size_t>(k_[i])] = std::move(place);
      later *= extent;
    }
    for (const auto& [v, place] : fixed_) out[static_cast<std::size_t>(v)] = IndexExpr::constant(place);
    return out;
  }

  int put(Node node) {
    const auto [it, fresh] = known_.try_emplace(node_text(node), static_cast<int>(to_.nodes.size()));
    if (fresh) to_.nodes.push_back(std::move(node));
    return it->second;
  }
  int integer(DType dtype, std::int64_t value) {
    Node out;
    out.dtype = dtype;
    out.bits = value;
    return put(std::move(out));
  }

  /// Of whole numbers that fit their type; nothing where the operation is not known here.
  static std::optional<std::int64_t> result(Op op, std::int64_t a, std::int64_t b) {
    constexpr std::int64_t small = std::int64_t{1} << 31;
    if (a < -small || a >= small || b < -small || b >= small) return std::nullopt;
    switch (op) {
      case Op::add:
        return a + b;
      case Op::sub:
        return a - b;
      case Op::mul:
        return a * b;
      case Op::minimum:
        return std::min(a, b);
      case Op::maximum:
        return std::max(a, b);
      case Op::eq:
        return a == b;
      case Op::ne:
        return a != b;
      case Op::lt:
        return a < b;
      case Op::le:
        return a <= b;
      case Op::gt:
        return a > b;
      case Op::ge:
        return a >= b;
      case Op::logical_and:
        return a != 0 && b != 0;
      case Op::logical_or:
        return a != 0 || b != 0;
      case Op::remainder:
        return b > 0 ? std::optional(((a % b) + b) % b) : std::nullopt;
      case Op::floor_div:
        return b > 0 ? std::optional((a - ((a % b) + b) % b) / b) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

  static bool fits(DType dtype, std::int64_t value) {
    if (dtype == DType::boolean) return value == 0 || value == 1;
    const int bits = 8 * size_of(dtype);
    if (bits >= 64) return true;
    const std::int64_t low = dtype == DType::u8 ? 0 : -(std::int64_t{1} << (bits - 1));
    return value >= low && value < low + (std::int64_t{1} << bits);
  }

  int folded(Node one) {
    if (one.op == Op::index && one.index.is_constant()) return integer(one.dtype, one.index.constant_term());
    if (one.op == Op::select) {
      if (const auto which = number(one.args[0])) return *which != 0 ? one.args[1] : one.args[2];
    }
    if (one.op == Op::logical_not) {
      if (const auto a = number(one.args[0])) return integer(DType::boolean, *a == 0);
    }
    if (one.op == Op::cast) {
      if (const auto a = number(one.args[0])) {
        if (is_whole(one.dtype) && fits(one.dtype, *a) && one.dtype != DType::boolean) return integer(one.dtype, *a);
      }
    }
    if (one.args.size() == 2) {
      const auto a = number(one.args[0]), b = number(one.args[1]);
      if (a && b) {
        const auto value = result(one.op, *a, *b);
        if (value && is_whole(one.dtype) && fits(one.dtype, *value)) return integer(one.dtype, *value);
      }
    }
    return put(std::move(one));
  }

  const Kernel& from_;
  Kernel& to_;
  const std::vector<int>& k_;
  const int variable_, count_;
  std::vector<std::pair<int, std::int64_t>> fixed_;
  std::unordered_map<std::string, int> known_;
  std::map<std::pair<int, int>, int> done_;
};

/// One weight as scale · (code - zero).
struct CodeElement {
  int scale = -1, zero = -1;
  std::int64_t constant = 0;  ///< taken off the code
  int rest = -1;              ///< what stands for the code
};

/// A code as it lies in a piece.
struct CodePlace {
  Codes::Form form = Codes::Form::computed;
  int bit = 0;
  bool flipped = false;
  bool operator==(const CodePlace&) const = default;
};

class CodeFinder {
 public:
  CodeFinder(const Kernel& kernel, int factor, const std::vector<int>& n, const std::vector<int>& k, DType half)
      : kernel_(kernel), factor_(factor), n_(n), k_(k), half_(half) {}

  Result<Codes> find() {
    PLANISH_CHECK(stored());
    std::int64_t depth = 1;
    for (const int v : k_) depth *= kernel_.space.extent(v);
    Result<Codes> found = no_codes("rows of no whole pieces of 16 bytes");
    for (const int bits : {8, 4}) {
      if (depth % (8 * piece_bytes / bits) != 0) continue;
      found = in(bits, depth / (8 * piece_bytes / bits));
      if (found) break;
    }
    return found;
  }

 private:
  const Node& old(int id) const { return kernel_.nodes[static_cast<std::size_t>(id)]; }
  const Node& node(int id) const { return out_.piece.nodes[static_cast<std::size_t>(id)]; }
  double bytes_of(int input) const {
    const Input& one = kernel_.inputs[static_cast<std::size_t>(input)];
    return static_cast<double>(one.storage_elements) * size_of(one.dtype);
  }
  DType stored_as(int input) const { return kernel_.inputs[static_cast<std::size_t>(input)].dtype; }

  /// The input that moves with k fastest and is stored in whole numbers or in 8 bits.
  Status stored() {
    const std::vector<int> roots{factor_};
    double most = 0, tables = 0;
    for (const int id : printing::closure(kernel_, roots, [](int) { return false; })) {
      const Node& one = old(id);
      if (one.op == Op::reduced || one.op == Op::scanned) return no_codes("sums");
      if (one.op != Op::load || looks_up(kernel_, one)) continue;
      if (gathers(one)) {
        if (!is_of_groups(one)) return no_codes("gathered elements");
        tables = std::max(tables, bytes_of(one.input));
        continue;
      }
      const double bytes = bytes_of(one.input);
      if (bytes > most) most = bytes, out_.input = one.input;
    }
    if (out_.input < 0) return no_codes("nothing stored");
    if (tables * least_codes > most) return no_codes("elements of tables as large as the codes");
    const DType dtype = stored_as(out_.input);
    if (!is_float8(dtype) && !is_integer(dtype)) return no_codes("a tensor that is not quantised");
    if (size_of(dtype) > 4) return no_codes("codes in words of 64 bits");
    return {};
  }

  /// Whether a load asks a table, with a line for each group of k, for the group that another tensor gives a place of k
  /// (GPTQ's `g_idx`): where it looks does not move with the rows.
  bool is_of_groups(const Node& load) const {
    if (!load.where.empty()) return false;
    return std::ranges::all_of(printing::closure(kernel_, load.args, [](int) { return false; }), [&](int id) {
      const Node& one = old(id);
      const bool moves = std::ranges::any_of(n_, [&](int v) {
        return one.index.depends_on(v) ||
               std::ranges::any_of(one.where, [&](const ir::Bound& bound) { return bound.e.depends_on(v); });
      });
      return !moves && !gathers(one) && one.op != Op::reduced;
    });
  }

  bool is_code(int id) const { return node(id).op == Op::load && node(id).input == out_.input; }
  bool has_code(int id) const {
    const std::vector<int> roots{id};
    return std::ranges::any_of(printing::closure(out_.piece, roots, [](int) { return false; }),
                               [&](int one) { return is_code(one); });
  }

  Result<Codes> in(int bits, std::int64_t pieces) {
    const int input = out_.input;
    out_ = {};
    out_.bits = bits;
    out_.input = input;
    Kernel& to = out_.piece;
    to.anchor = kernel_.anchor;
    to.space = kernel_.space;
    to.inputs = kernel_.inputs;
    out_.variable = static_cast<int>(to.space.extents.size());
    to.space.extents.push_back(pieces);
    PieceUnroller unroller(kernel_, to, k_, out_.variable, out_.count());
    std::vector<int> weights;
    for (int j = 0; j < out_.count(); ++j) weights.push_back(unroller.at(factor_, j));
    if (const Status along = one_run(weights); !along && !across(weights) && !turned()) {
      return std::unexpected(along.error());
    }
    std::vector<CodeElement> elements;
    for (const int weight : weights) elements.push_back(taken_apart(weight));
    if (!one_scale(elements)) {
      for (std::size_t j = 0; j < elements.size(); ++j) elements[j] = {.rest = weights[j]};
    }
    place_scale(elements[0].scale);
    // What is multiplied in 16 bits must have been rounded to them.
    if (out_.scaled == Codes::Scale::piece && !is_narrow_number(out_.scale)) {
      for (std::size_t j = 0; j < elements.size(); ++j) elements[j] = {.rest = weights[j]};
      place_scale(-1);
    }
    if (out_.turned) {
      if (!one_zero(elements)) return no_codes("words of eight rows whose codes are not a scale's and a zero point's");
      return std::move(out_);
    }
    if (!simple(elements)) {
      out_.form = Codes::Form::computed;
      out_.elements.clear();
      for (std::size_t j = 0; j < elements.size(); ++j)
        out_.elements.push_back(out_.scale >= 0 ? without_scale(weights[j], elements[j]) : weights[j]);
      out_.zeroed = false;
      out_.zero_along = Codes::Scale::none;
      out_.zero_point = -1;
      out_.zero = 0;
    }
    return std::move(out_);
  }

  /// All codes of a piece lie in its 16 bytes, which follow those of the piece before.
  Status one_run(const std::vector<int>& weights) {
    const std::int64_t size = size_of(stored_as(out_.input)), step = piece_bytes / size;
    std::optional<IndexExpr> begin;
    for (const int id : printing::closure(out_.piece, weights, [](int) { return false; })) {
      const Node& one = node(id);
      if (!is_code(id)) continue;
      if (!one.where.empty() || !one.index.is_affine()) return no_codes("codes at places that are no plain ones");
      const IndexExpr row = IndexExpr::build(one.index.constant_term() / step * step, one.index.terms());
      if (one.index.constant_term() < 0 || one.index.coefficient_of(out_.variable) != step)
        return no_codes("codes that do not lie one after the other along the sum");
      for (const auto& term : one.index.terms()) {
        const int v = term.atom.variable;
        if (v != out_.variable && std::ranges::find(n_, v) == n_.end()) return no_codes("codes for each row of x");
        if (term.coefficient < 0 || term.coefficient % step != 0) return no_codes("rows of codes that are not aligned");
      }
      if (!begin) begin = row;
      if (!(*begin == row)) return no_codes("codes of a piece in several places");
    }
    if (!begin) return no_codes("no codes");
    begin_at(begin->constant_term(), *begin);
    return {};
  }

  void begin_at(std::int64_t constant, const IndexExpr& place) {
    std::vector<IndexExpr::Term> terms;
    for (const auto& term : place.terms())
      if (term.atom.variable != out_.variable) terms.push_back(term);
    out_.begin = IndexExpr::build(constant, std::move(terms));
  }

  /// Whether a piece is four words of a row, each beside those of the next rows: as GPTQ packs weights along k, and
  /// stores them with rows of k.
  bool across(const std::vector<int>& weights) {
    constexpr std::int64_t words = piece_bytes / 4;
    if (size_of(stored_as(out_.input)) != 4 || n_.empty() || kernel_.space.extent(n_.back()) % words != 0) return false;
    std::optional<IndexExpr> begin;
    std::int64_t pitch = 0;
    std::array<bool, words> there{};
    for (const int id : printing::closure(out_.piece, weights, [](int) { return false; })) {
      const Node& one = node(id);
      if (!is_code(id)) continue;
      if (!one.where.empty() || !one.index.is_affine()) return false;
      const std::int64_t step = one.index.coefficient_of(out_.variable), constant = one.index.constant_term();
      if (step <= 0 || step % (words * words) != 0 || constant < 0) return false;
      pitch = step / words;
      if (constant / pitch >= words || constant % pitch % words != 0) return false;
      for (const auto& term : one.index.terms()) {
        const int v = term.atom.variable;
        if (v == out_.variable) continue;
        if (std::ranges::find(n_, v) == n_.end()) return false;
        if (v == n_.back() ? term.coefficient != 1 : term.coefficient < 0 || term.coefficient % words != 0)
          return false;
      }
      if (one.index.coefficient_of(n_.back()) != 1) return false;
      there[static_cast<std::size_t>(constant / pitch)] = true;
      const IndexExpr row = IndexExpr::build(constant % pitch, one.index.terms());
      if (!begin) begin = row;
      if (!(*begin == row)) return false;
    }
    if (!begin || std::ranges::count(there, true) != words) return false;
    out_.pitch = pitch;
    begin_at(begin->constant_term(), *begin);
    return true;
  }

  /// Casts that move no value that a code can have, and those whose rounding comes after the product anyway.
  int through_casts(int id) const {
    while (node(id).op == Op::cast && (node(id).dtype == DType::f32 || is_half(node(id).dtype)) && has_code(id))
      id = node(id).args[0];
    return id;
  }

  CodeElement taken_apart(int weight) {
    CodeElement out;
    int id = through_casts(weight);
    while (node(id).op == Op::mul) {
      const Node& one = node(id);
      const bool first = has_code(one.args[0]), second = has_code(one.args[1]);
      if (first == second || one.dtype != DType::f32) break;
      const int other = one.args[first ? 1 : 0];
      out.scale = out.scale < 0 ? other : times(out.scale, other);
      id = through_casts(one.args[first ? 0 : 1]);
    }
    out.rest = id;
    if (node(id).op == Op::sub || node(id).op == Op::add) {
      const Node& one = node(id);
      const bool first = has_code(one.args[0]), second = has_code(one.args[1]);
      const bool plus = one.op == Op::add;
      if (first != second && (first || plus)) {
        const int other = one.args[first ? 1 : 0];
        const auto known = constant(other);
        if (known) out.constant = plus ? -*known : *known;
        if (!known && !plus) out.zero = other;
        if (known || !plus) out.rest = one.args[first ? 0 : 1];
      }
    }
    return out;
  }

  std::optional<std::int64_t> constant(int id) const {
    while (node(id).op == Op::cast) id = node(id).args[0];
    const Node& one = node(id);
    if (one.op != Op::constant) return std::nullopt;
    if (is_whole(one.dtype)) return one.bits;
    const auto rounded = static_cast<std::int64_t>(one.value);
    return static_cast<double>(rounded) == one.value ? std::optional(rounded) : std::nullopt;
  }

  int times(int a, int b) {
    Node both;
    both.op = Op::mul;
    both.args = {a, b};
    out_.piece.nodes.push_back(std::move(both));
    return static_cast<int>(out_.piece.nodes.size()) - 1;
  }

  static bool one_scale(const std::vector<CodeElement>& elements) {
    return std::ranges::all_of(elements, [&](const CodeElement& one) { return one.scale == elements[0].scale; });
  }

  /// Along which run of k the scale is one.
  void place_scale(int scale) {
    out_.scale = scale;
    out_.scaled = along_of(scale);
  }

  Codes::Scale along_of(int root) const {
    if (root < 0) return Codes::Scale::none;
    const std::vector<int> roots{root};
    bool row = true, step = true;
    for (const int id : printing::closure(out_.piece, roots, [](int) { return false; })) {
      const auto look = [&](const IndexExpr& e) {
        if (!e.depends_on(out_.variable)) return;
        row = false;
        step = step && one_a_step(e);
      };
      look(node(id).index);
      for (const auto& bound : node(id).where) look(bound.e);
    }
    return row ? Codes::Scale::row : step ? Codes::Scale::step : Codes::Scale::piece;
  }

  bool one_a_step(const IndexExpr& e) const {
    ir::Space space = out_.piece.space;
    const std::int64_t pieces = space.extent(out_.variable);
    const std::int64_t steps = (pieces + step_pieces - 1) / step_pieces;
    space.extents.push_back(steps);
    std::optional<IndexExpr> first;
    for (int i = 0; i < step_pieces; ++i) {
      std::vector<IndexExpr> places;
      for (std::size_t v = 0; v + 1 < space.extents.size(); ++v)
        places.push_back(IndexExpr::variable(static_cast<int>(v)));
      places[static_cast<std::size_t>(out_.variable)] =
          ir::add(ir::scale(IndexExpr::variable(static_cast<int>(space.extents.size()) - 1), step_pieces),
                  IndexExpr::constant(i), space);
      IndexExpr here = ir::substitute(e, places, space);
      if (!first) first = here;
      if (!(*first == here)) return false;
    }
    return true;
  }

  /// Whether 16 bits hold what a node gives.
  bool is_narrow_number(int id) const {
    if (half_type(out_.piece, id) == half_ || has_eight_bits(out_.piece, id)) return true;
    while (node(id).op == Op::cast && is_whole_or_float(node(id).dtype)) id = node(id).args[0];
    // Whole numbers up to 256 are exact in bf16.
    const Node& one = node(id);
    if (one.op == Op::shift_right) return one.dtype == DType::u8;
    const auto mask = largest(id);
    return mask && *mask <= 256;
  }

  /// The largest number of a node that is masked, and maybe one more (as GPTQ's zero points), or nothing.
  std::optional<std::int64_t> largest(int id) const {
    while (node(id).op == Op::cast && is_whole(node(id).dtype)) id = node(id).args[0];
    const Node& one = node(id);
    if (one.op != Op::bitwise_and && one.op != Op::add) return std::nullopt;
    for (const int a : {0, 1}) {
      const auto number = constant(one.args[static_cast<std::size_t>(a)]);
      if (!number || *number < 0 || *number > 256) continue;
      if (one.op == Op::bitwise_and) return number;
      const auto other = largest(one.args[static_cast<std::size_t>(1 - a)]);
      return other ? std::optional(*other + *number) : std::nullopt;
    }
    return std::nullopt;
  }

  /// The number of a node that is a code as it lies, or nothing.
  std::optional<CodePlace> place_of(int id) const {
    const DType stored = stored_as(out_.input);
    const auto bytes = [&](int load) {
      return static_cast<int>(out_.place(node(load), size_of(stored))) * size_of(stored) * 8;
    };
    while (node(id).op == Op::cast && !is_code(id) && is_whole_or_float(node(id).dtype)) id = node(id).args[0];
    if (is_code(id)) {
      switch (stored) {
        case DType::i8:
          return CodePlace{Codes::Form::i8, bytes(id), false};
        case DType::u8:
          return CodePlace{Codes::Form::u8, bytes(id), false};
        case DType::f8_e4m3:
          return CodePlace{Codes::Form::e4m3, bytes(id), false};
        case DType::f8_e5m2:
          return CodePlace{Codes::Form::e5m2, bytes(id), false};
        default:
          return std::nullopt;
      }
    }
    if (!is_integer(stored)) return std::nullopt;
    // Of a word moved to the right: `shift`, then masked; or nothing but sign or zeros above four bits.
    const int word = 8 * size_of(stored);
    const auto load_of = [&](int at) {
      while (node(at).op == Op::cast && is_integer(node(at).dtype)) at = node(at).args[0];
      return is_code(at) ? at : -1;
    };
    const Node& one = node(id);
    if (one.op == Op::bitwise_and) {
      for (const int a : {0, 1}) {
        const auto mask = constant(one.args[static_cast<std::size_t>(a)]);
        if (!mask || *mask != 15) continue;
        int inner = one.args[static_cast<std::size_t>(1 - a)];
        std::int64_t shift = 0;
        while (node(inner).op == Op::cast && is_integer(node(inner).dtype)) inner = node(inner).args[0];
        if (node(inner).op == Op::shift_right) {
          const auto by = constant(node(inner).args[1]);
          if (!by) return std::nullopt;
          shift = *by;
          inner = node(inner).args[0];
        }
        const int load = load_of(inner);
        if (load < 0 || shift < 0 || shift + 4 > word || shift % 4 != 0) return std::nullopt;
        return CodePlace{Codes::Form::nibbles, bytes(load) + static_cast<int>(shift), false};
      }
      return std::nullopt;
    }
    if (one.op == Op::shift_right) {
      const auto by = constant(one.args[1]);
      if (!by || *by != word - 4) return std::nullopt;
      const bool is_signed = stored != DType::u8;
      if (size_of(one.dtype) != size_of(stored) && is_signed) return std::nullopt;
      const Node& inner = node(one.args[0]);
      if (inner.op == Op::shift_left && is_signed && size_of(inner.dtype) == size_of(stored)) {
        const auto up = constant(inner.args[1]);
        const int load = load_of(inner.args[0]);
        if (!up || load < 0 || *up < 0 || *up > word - 4 || *up % 4 != 0) return std::nullopt;
        return CodePlace{Codes::Form::nibbles, bytes(load) + word - 4 - static_cast<int>(*up), true};
      }
      const int load = load_of(one.args[0]);
      if (load < 0) return std::nullopt;
      return CodePlace{Codes::Form::nibbles, bytes(load) + word - 4, is_signed};
    }
    return std::nullopt;
  }

  static bool is_whole_or_float(DType dtype) { return is_integer(dtype) || dtype == DType::f32 || is_half(dtype); }

  /// Whether every element is a code at a place of its own, with one zero point; sets form, order and zero.
  bool simple(const std::vector<CodeElement>& elements) {
    std::array<int, 8> inverse{};  // by place within a group of eight codes: which element lies there
    for (std::size_t j = 0; j < elements.size(); ++j) {
      const CodeElement& one = elements[j];
      const auto place = place_of(one.rest);
      if (!place) return false;
      if (j == 0) {
        out_.form = place->form;
        out_.flipped = place->flipped;
      }
      if (place->form != out_.form || place->flipped != out_.flipped) return false;
      if ((place->form == Codes::Form::nibbles) != (out_.bits == 4)) return false;
      const int lies = place->bit / out_.bits;
      if (lies / 8 != static_cast<int>(j) / 8) return false;
      if (j < 8) inverse[static_cast<std::size_t>(lies % 8)] = static_cast<int>(j);
      if (inverse[static_cast<std::size_t>(lies % 8)] != static_cast<int>(j % 8)) return false;
    }
    auto sorted = inverse;
    std::ranges::sort(sorted);
    for (int i = 0; i < 8; ++i)
      if (sorted[static_cast<std::size_t>(i)] != i) return false;
    if (!one_zero(elements)) return false;
    // As device/sm90/codes.cuh takes eight codes apart.
    const bool floats = out_.form == Codes::Form::e4m3 || out_.form == Codes::Form::e5m2;
    constexpr std::array<int, 8> nibbles{0, 4, 1, 5, 2, 6, 3, 7}, bytes{0, 2, 1, 3, 4, 6, 5, 7};
    for (std::size_t i = 0; i < 8; ++i) {
      const auto lies = out_.bits == 4 ? nibbles[i] : floats ? static_cast<int>(i) : bytes[i];
      out_.order[i] = inverse[static_cast<std::size_t>(lies)];
    }
    return true;
  }

  /// Whether one zero point is taken off all elements, in a form that the device has; sets it.
  bool one_zero(const std::vector<CodeElement>& elements) {
    const CodeElement& first = elements[0];
    if (!std::ranges::all_of(elements, [&](const CodeElement& one) {
          return one.zero == first.zero && one.constant == first.constant && one.rest >= 0;
        }))
      return false;
    const std::int64_t zero = first.constant + (out_.flipped ? 8 : 0);
    if (zero < -128 || zero > 128) return false;
    const bool floats = out_.form == Codes::Form::e4m3 || out_.form == Codes::Form::e5m2;
    if (floats && (zero != 0 || first.zero >= 0)) return false;
    if (out_.bits == 8 && zero != 0 && first.zero >= 0) return false;
    if (first.zero >= 0 && !is_narrow_number(first.zero)) return false;
    out_.zero = static_cast<int>(zero);
    out_.zero_point = first.zero;
    out_.zeroed = out_.zero_point >= 0;
    out_.zero_along = along_of(out_.zero_point);
    return true;
  }

  /// Whether each word has the codes of eight neighbouring rows at one place of k, as AWQ packs weights: then the
  /// nibble of a row is the same at all places. Sets how they lie.
  bool turned() {
    constexpr std::int64_t aligned = 4;
    constexpr int rows_of_word = 8;
    if (out_.bits != 4 || size_of(stored_as(out_.input)) != 4) return false;
    const std::vector<int> inside(n_.end() - inside_of_words(kernel_, out_.input, n_), n_.end());
    if (inside.size() == n_.size() || kernel_.extent_of(inside) != rows_of_word) return false;
    const int last = n_[n_.size() - inside.size() - 1];
    if (kernel_.space.extent(last) % aligned != 0) return false;
    std::optional<IndexExpr> begin;
    std::array<bool, rows_of_word> there{};
    Kernel whole = std::move(out_.piece);
    for (int row = 0; row < rows_of_word; ++row) {
      const auto nibble = nibble_of(whole, inside, row, begin);
      if (!nibble || there[static_cast<std::size_t>(*nibble)]) break;
      there[static_cast<std::size_t>(*nibble)] = true;
      out_.rows[static_cast<std::size_t>(*nibble)] = row;
    }
    out_.piece = std::move(whole);
    if (std::ranges::count(there, true) != rows_of_word) return false;
    for (const auto& term : begin->terms()) {
      const int v = term.atom.variable;
      if (v == out_.variable) continue;
      if (std::ranges::find(n_, v) == n_.end()) return false;
      if (v == last ? term.coefficient != 1 : term.coefficient < 0 || term.coefficient % aligned != 0) return false;
    }
    out_.pitch = begin->coefficient_of(out_.variable) / out_.count();
    if (begin->coefficient_of(last) != 1 || out_.pitch % aligned != 0 || begin->constant_term() % aligned != 0)
      return false;
    begin_at(begin->constant_term(), *begin);
    out_.form = Codes::Form::nibbles;
    out_.turned = true;
    return true;
  }

  /// In which nibble of their words the codes of the rows at place `row` inside a word are, and where the words begin:
  /// the same for all places of k and all such rows, or nothing. Works in out_.piece.
  std::optional<int> nibble_of(const Kernel& whole, std::span<const int> inside, int row,
                               std::optional<IndexExpr>& begin) {
    out_.piece = {};
    out_.piece.anchor = whole.anchor;
    out_.piece.space = whole.space;
    out_.piece.inputs = whole.inputs;
    PieceUnroller unroller(kernel_, out_.piece, k_, out_.variable, out_.count());
    unroller.only_at(inside, row);
    std::vector<int> weights;
    for (int j = 0; j < out_.count(); ++j) weights.push_back(unroller.at(factor_, j));
    std::optional<int> found;
    for (std::size_t j = 0; j < weights.size(); ++j) {
      const int rest = taken_apart(weights[j]).rest;
      const auto place = place_of(rest);
      if (!place || place->form != Codes::Form::nibbles) return std::nullopt;
      const int nibble = place->bit % 32 / 4;
      if (found && (*found != nibble || out_.flipped != place->flipped)) return std::nullopt;
      found = nibble;
      out_.flipped = place->flipped;
      const std::vector<int> roots{rest};
      for (const int id : printing::closure(out_.piece, roots, [](int) { return false; })) {
        if (!is_code(id)) continue;
        const Node& load = node(id);
        const std::int64_t step = load.index.coefficient_of(out_.variable);
        if (!load.where.empty() || !load.index.is_affine() || step <= 0 || step % out_.count() != 0)
          return std::nullopt;
        const IndexExpr first = IndexExpr::build(
            load.index.constant_term() - static_cast<std::int64_t>(j) * (step / out_.count()), load.index.terms());
        if (first.constant_term() < 0) return std::nullopt;
        if (!begin) begin = first;
        if (!(*begin == first)) return std::nullopt;
      }
    }
    return found;
  }

  /// The same weight with 1 in place of its scale.
  int without_scale(int, const CodeElement& element) {
    if (element.zero < 0 && element.constant == 0) return as_f32(element.rest);
    Node difference;
    difference.op = Op::sub;
    int other = element.zero;
    if (other < 0) {
      Node number;
      number.value = static_cast<double>(element.constant);
      out_.piece.nodes.push_back(std::move(number));
      other = static_cast<int>(out_.piece.nodes.size()) - 1;
    }
    difference.args = {as_f32(element.rest), as_f32(other)};
    out_.piece.nodes.push_back(std::move(difference));
    return static_cast<int>(out_.piece.nodes.size()) - 1;
  }
  int as_f32(int id) {
    if (node(id).dtype == DType::f32) return id;
    Node cast;
    cast.op = Op::cast;
    cast.args = {id};
    out_.piece.nodes.push_back(std::move(cast));
    return static_cast<int>(out_.piece.nodes.size()) - 1;
  }

  const Kernel& kernel_;
  const int factor_;
  const std::vector<int>&n_, &k_;
  const DType half_;
  Codes out_;
};

}  // namespace

std::string Codes::note() const {
  constexpr std::array<std::string_view, 6> forms{"int8", "uint8", "e4m3", "e5m2", "nibbles", "computed"};
  constexpr std::array<std::string_view, 4> scales{"no scale", "a scale a row", "a scale a step", "a scale a piece"};
  return fmt::format("{} bits, {}, {}{}", bits, forms[static_cast<std::size_t>(form)],
                     scales[static_cast<std::size_t>(scaled)],
                     turned      ? ", words of eight rows"
                     : pitch > 0 ? ", words beside those of other rows"
                                 : "");
}

std::ptrdiff_t inside_of_words(const Kernel& kernel, int input, std::span<const int> n) {
  const auto moved = std::find_if(n.rbegin(), n.rend(), [&](int v) {
    return std::ranges::any_of(kernel.nodes, [&](const Node& one) {
      return one.op == Op::load && one.input == input && one.index.depends_on(v);
    });
  });
  return moved - n.rbegin();
}

bool looks_up(const Kernel& kernel, const Node& load) {
  constexpr std::int64_t most = 256;
  return gathers(load) && load.where.empty() && load.index.is_constant() &&
         kernel.inputs[static_cast<std::size_t>(load.input)].storage_elements <= most;
}

std::optional<int> Codes::table_pieces() const {
  if (!scaled_inside() && !zeroed) return std::nullopt;
  if (scaled == Scale::piece || zero_along == Scale::piece) return 1;
  return scaled == Scale::step || zero_along == Scale::step ? 4 : 0;
}

bool alike(const Codes& a, const Codes& b) {
  return a.form == b.form && a.scaled == b.scaled && a.bits == b.bits && a.zeroed == b.zeroed &&
         a.zero_along == b.zero_along && a.zero == b.zero && a.flipped == b.flipped && a.order == b.order &&
         a.pitch == b.pitch && a.turned == b.turned && a.rows == b.rows;
}

Result<Codes> codes_of(const Kernel& kernel, int factor, const std::vector<int>& n, const std::vector<int>& k,
                       DType half) {
  return CodeFinder(kernel, factor, n, k, half).find();
}

}  // namespace planish::codegen::skinny
