#include "codegen/attention/half.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/rounding.h"
#include "codegen/emit/expression.h"
#include "codegen/variables.h"

namespace planish::codegen::attention {
namespace {

constexpr std::int64_t chunk = 8;  ///< elements of the 16 bytes that tensor maps count strides in
constexpr std::size_t most_units = 3, most_units_of_pages = 2;
constexpr std::int64_t least_page = 8;  ///< keys: a box begins where the swizzle of 128 bytes does
constexpr std::int64_t most_stride = std::int64_t{1} << 38, most_extent = (std::int64_t{1} << 31) - 1;

class HalfFinder {
 public:
  HalfFinder(const Kernel& kernel, const Attention& a) : k_(kernel), a_(a), moves_(variables_of(kernel)) {}

  Result<HalfAttention> find() {
    const Contraction &s = a_.scores, &o = a_.values;
    out_.packing = packing_of(k_, a_);
    const bool packed_pages = out_.packing && out_.packing->in_pages;
    if (s.n.size() > (packed_pages ? 3 : 2) || s.k.size() != 1 || o.n.size() != 1)
      return no("keys, features or columns of several dims");
    if (s.m.empty()) return no("one row of queries");
    out_.key = s.n.back();
    if (s.n.size() > 1) out_.page = s.n[s.n.size() - 2];
    if (packed_pages) out_.sequence = s.n.front();
    if (!out_.packing && out_.page < 0 && std::ranges::any_of(k_.nodes, gathers))
      return no("places known at run time alone");
    out_.feature = s.k[0];
    out_.column = o.n[0];
    // Heads that share keys are rows of one product; the longest dim makes tiles.
    out_.row = out_.packing ? out_.packing->row
                            : *std::ranges::max_element(s.m, {}, [&](int v) { return k_.space.extent(v); });
    out_.units = s.batch;
    for (const int v : s.m) {
      if (v == out_.row) continue;
      out_.units.push_back(v);
      out_.grouped *= k_.space.extent(v);
    }
    for (const int v : out_.units) out_.unit_count *= k_.space.extent(v);
    out_.rows = k_.space.extent(out_.row);
    out_.key_count = s.columns;
    out_.features = s.depth;
    out_.columns = o.columns;
    PLANISH_TRY(out_.queries, operand(s.first, out_.feature, out_.row, true));
    PLANISH_TRY(out_.keys, operand(s.second, out_.feature, out_.key, true));
    PLANISH_TRY(out_.values, operand(o.second, out_.column, out_.key, false));
    if (of(out_.keys) != of(out_.queries) || of(out_.values) != of(out_.queries)) return no("factors of several types");
    out_.element = of(out_.queries);
    if (out_.packing) out_.tests = out_.packing->tests;
    find_score();
    if (out_.packing && !out_.plain) return no("packed sequences with scores that are more than products");
    if (!out_.plain) order_units();
    return std::move(out_);
  }

 private:
  static std::unexpected<Error> no(const char* why) { return fail("unsupported", why); }
  const Node& node(int id) const { return k_.nodes[static_cast<std::size_t>(id)]; }
  DType of(const MappedOperand& operand) const { return k_.inputs[static_cast<std::size_t>(operand.input)].dtype; }
  std::optional<double> constant(int id) const {
    const Node& each = node(exact(id));
    return each.op == Op::constant && is_floating(each.dtype) ? std::optional(each.value) : std::nullopt;
  }

  /// The number that one of a product's two factors, or a divisor, is: then `id` is the other.
  std::optional<double> peel(int& id) const {
    const Node& each = node(id);
    if (each.op != Op::mul && each.op != Op::div) return std::nullopt;
    for (const int side : {1, 0}) {
      const auto number = constant(each.args[static_cast<std::size_t>(side)]);
      if (!number || !std::isfinite(*number) || *number <= 0 || (each.op == Op::div && side == 0)) continue;
      id = each.args[static_cast<std::size_t>(1 - side)];
      return each.op == Op::mul ? *number : 1 / *number;
    }
    return std::nullopt;
  }

  /// A load of 16 bits whose elements lie in rows, times a number where `scaled`. A rounding between the two is left
  /// out: fp32 holds more.
  Result<MappedOperand> operand(int factor, int line, int row, bool scaled) {
    for (;;) {
      if (node(factor).op == Op::cast && is_floating(node(node(factor).args[0]).dtype)) {
        factor = node(factor).args[0];
      } else if (const auto number = scaled ? peel(factor) : std::nullopt) {
        out_.factor *= *number;
      } else {
        break;
      }
    }
    const Node& load = node(factor);
    const bool looked_up = row == out_.key && out_.page >= 0;
    if (load.op != Op::load || gathers(load) != looked_up || !load.where.empty() || !load.index.is_affine())
      return no("a factor that is computed");
    MappedOperand out;
    if (looked_up) {
      PLANISH_TRY(out.pages, pages(factor, line));
    }
    out.input = load.input;
    const DType stored = of(out);
    if (stored != DType::f16 && stored != DType::bf16) return no("a factor of another type than 16 bits");
    out.begin = load.index.constant_term();
    out.line = line;
    out.row = row;
    out.row_stride = load.index.coefficient_of(row);
    bool fits = load.index.coefficient_of(line) == 1 && out.begin >= 0 && out.begin % chunk == 0 && out.row_stride > 0;
    for (const auto& term : load.index.terms()) {
      const int v = term.atom.variable;
      if (v == line) continue;
      fits = fits && term.coefficient > 0 && term.coefficient % chunk == 0 && term.coefficient < most_stride &&
             k_.space.extent(v) <= most_extent;
      if (v == row) continue;
      fits = fits && std::ranges::find(out_.units, v) != out_.units.end();
      out.units.push_back({v, term.coefficient});
    }
    if (!fits || out.units.size() > (looked_up ? most_units_of_pages : most_units))
      return no("a factor whose rows tensor maps do not reach");
    return out;
  }

  /// A page that there is not is filled with what is no number, and so would be features behind the last.
  Result<Pages> pages(int factor, int line) const {
    const Node& load = node(factor);
    if (load.args.size() != 1) return no("pages that several numbers say");
    Pages out{factor, k_.space.extent(out_.key), load.limits[0], load.strides[0]};
    if (moves(load.args[0], line) || moves(load.args[0], out_.key) || load.index.depends_on(out_.page) ||
        (out_.sequence >= 0 && load.index.depends_on(out_.sequence)))
      return no("keys that do not lie in pages");
    if (out.size % least_page != 0 || out_.features % 16 != 0 || out_.columns % 8 != 0)
      return no("pages, or heads in pages, of an odd size");
    if (out.stride <= 0 || out.stride % chunk != 0 || out.stride >= most_stride || out.count > most_extent)
      return no("pages that tensor maps do not reach");
    return out;
  }

  bool moves(int id, int variable) const {
    return moves_[static_cast<std::size_t>(id)][static_cast<std::size_t>(variable)];
  }

  /// What a node is but for conversions that round nothing.
  int exact(int id) const {
    while (node(id).op == Op::cast && !node(id).rounds && is_floating(node(id).dtype) &&
           is_floating(node(node(id).args[0]).dtype))
      id = node(id).args[0];
    return id;
  }

  bool is_none(int id) const {
    const auto number = constant(id);
    return number && *number == -std::numeric_limits<double>::infinity();
  }
  bool is_zero(int id) const { return constant(id) == 0.0; }

  /// An integer node as places and, so many times each, what is known on the device.
  struct Linear {
    ir::IndexExpr places;
    std::vector<std::pair<int, std::int64_t>> known;
  };

  /// Nothing where it is more.
  std::optional<Linear> linear(int id) const {
    const Node& each = node(id);
    if (each.op == Op::index) return Linear{each.index, {}};
    if (each.op == Op::constant && !is_floating(each.dtype)) return Linear{ir::IndexExpr::constant(each.bits), {}};
    if (each.op == Op::cast && !is_floating(each.dtype) && each.dtype != DType::boolean) return linear(each.args[0]);
    if (each.op == Op::add || each.op == Op::sub) {
      const auto left = linear(each.args[0]), right = linear(each.args[1]);
      if (left && right) return sum(*left, *right, each.op == Op::add ? 1 : -1);
    }
    return is_known(id) ? std::optional(Linear{{}, {{id, 1}}}) : std::nullopt;
  }

  Linear sum(Linear left, const Linear& right, std::int64_t times) const {
    left.places = ir::add(left.places, ir::scale(right.places, times), k_.space);
    for (const auto& [id, n] : right.known) left.known.emplace_back(id, times * n);
    return left;
  }

  /// Numbers that move with units and queries alone, where keys lie in pages: the producer knows the last of them then.
  bool is_known(int id) const {
    const DType dtype = node(id).dtype;
    if (out_.page < 0 || (dtype != DType::i64 && dtype != DType::i32)) return false;
    for (int v = 0; v < static_cast<int>(k_.space.extents.size()); ++v) {
      if (moves(id, v) && v != out_.row && std::ranges::find(out_.units, v) == out_.units.end()) return false;
    }
    const std::vector<int> root{id};
    return std::ranges::none_of(printing::closure(k_, root, [](int) { return false; }), [&](int below) {
      return node(below).op == Op::reduced || node(below).op == Op::scanned;
    });
  }

  /// Adds what a condition, or its negation, says of places alone; false where it says more.
  bool take_tests(int id, bool negated, std::vector<PlaceTest>& tests) const {
    const Node& test = node(id);
    if (test.op == Op::logical_not || (test.op == Op::bitwise_not && test.dtype == DType::boolean))
      return take_tests(test.args[0], !negated, tests);
    const bool boolean = test.dtype == DType::boolean;
    const bool both = test.op == Op::logical_and || (test.op == Op::bitwise_and && boolean);
    const bool either = test.op == Op::logical_or || (test.op == Op::bitwise_or && boolean);
    if (negated ? either : both)
      return take_tests(test.args[0], negated, tests) && take_tests(test.args[1], negated, tests);
    const bool grows = test.op == Op::ge || test.op == Op::gt, falls = test.op == Op::le || test.op == Op::lt;
    if (!grows && !falls) return false;
    const auto left = linear(test.args[grows ? 0 : 1]), right = linear(test.args[grows ? 1 : 0]);
    if (!left || !right) return false;
    // At least 0, or 1; negated: less than that.
    Linear e = sum(*left, *right, -1);
    const std::int64_t least = test.op == Op::gt || test.op == Op::lt ? 1 : 0;
    if (negated) e = sum({}, e, -1);
    PlaceTest out{e.places.coefficient_of(out_.row), e.places.coefficient_of(out_.key),
                  e.places.constant_term() + (negated ? least - 1 : -least), std::move(e.known)};
    out.by_row = std::ranges::any_of(out.known, [&](const auto& each) { return moves(each.first, out_.row); });
    for (const auto& term : e.places.terms()) {
      const auto& atom = term.atom;
      if (atom.kind != ir::Atom::Kind::variable ||
          (atom.variable != out_.row && atom.variable != out_.key && atom.variable != out_.page))
        return false;
    }
    if (out_.page >= 0 && e.places.coefficient_of(out_.page) != out.key * k_.space.extent(out_.key)) return false;
    constexpr std::int64_t most = std::int64_t{1} << 29;
    const auto extreme = std::abs(out.row) * out_.rows + std::abs(out.key) * out_.key_count + std::abs(out.constant);
    if (out.key == 0 || extreme > most) return false;
    tests.push_back(out);
    return true;
  }

  /// Whether a node chooses by place between one of its args, which becomes `id`, and `other`.
  bool take_choice(const Node& choice, bool (HalfFinder::*other)(int) const, bool (HalfFinder::*same)(int) const,
                   int& id) {
    if (choice.op != Op::select) return false;
    for (const int masked : {2, 1}) {
      const int rest = choice.args[static_cast<std::size_t>(3 - masked)];
      if (!(this->*other)(choice.args[static_cast<std::size_t>(masked)]) || (same && !(this->*same)(rest))) continue;
      std::vector<PlaceTest> tests;
      if (!take_tests(choice.args[0], masked == 1, tests)) continue;
      out_.tests.insert(out_.tests.end(), tests.begin(), tests.end());
      id = rest;
      return true;
    }
    return false;
  }

  void find_score() {
    int id = out_.packing ? out_.packing->score : a_.score;
    for (bool found = !out_.packing; found;) {
      id = exact(id);
      found = take_choice(node(id), &HalfFinder::is_none, nullptr, id);
      if (found || node(id).op != Op::add) continue;
      for (const int side : {0, 1}) {
        int zero = -1;
        if (!take_choice(node(node(id).args[static_cast<std::size_t>(side)]), &HalfFinder::is_none,
                         &HalfFinder::is_zero, zero))
          continue;
        id = node(id).args[static_cast<std::size_t>(1 - side)];
        found = true;
        break;
      }
    }
    out_.score = id;
    double factor = 1;
    while (const auto number = peel(id)) {
      factor *= *number;
      id = exact(id);
    }
    out_.plain = node(id).op == Op::reduced && node(id).reduction == a_.product;
    if (out_.plain)
      out_.factor *= factor;
    else
      find_pairs();
  }

  /// Those that read the same masks and biases become neighbours.
  void order_units() {
    std::vector<bool> read(k_.space.extents.size(), false);
    const std::vector<int> root{out_.score};
    for (const int id : printing::closure(k_, root, [](int) { return false; })) {
      for (std::size_t v = 0; node(id).op == Op::load && v < read.size(); ++v)
        read[v] = read[v] || node(id).index.depends_on(static_cast<int>(v));
    }
    const auto reads = [&](int v) { return static_cast<bool>(read[static_cast<std::size_t>(v)]); };
    const auto batches = out_.units.begin() + static_cast<std::ptrdiff_t>(a_.scores.batch.size());
    std::stable_partition(out_.units.begin(), batches, reads);
    for (std::size_t i = out_.units.size(); i-- > 0 && !reads(out_.units[i]);)
      out_.sharing *= k_.space.extent(out_.units[i]);
  }

  void find_pairs() {
    const std::vector<int> root{out_.score};
    for (const int id : printing::closure(k_, root, [](int) { return false; })) {
      const Node& load = node(id);
      if (load.op != Op::load || gathers(load) || !load.where.empty() || !load.index.is_affine() ||
          out_.key_count % 2 != 0)
        continue;
      bool paired = load.index.coefficient_of(out_.key) == 1 && load.index.constant_term() % 2 == 0;
      for (const auto& term : load.index.terms())
        paired = paired && (term.atom.variable == out_.key || term.coefficient % 2 == 0);
      const int size = size_of(k_.inputs[static_cast<std::size_t>(load.input)].dtype);
      if (paired && (size == 1 || size == 2 || size == 4)) out_.ahead.push_back(id);
    }
  }

  const Kernel& k_;
  const Attention& a_;
  const std::vector<std::vector<bool>> moves_;
  HalfAttention out_;
};

}  // namespace

Result<HalfAttention> half_attention_of(const Kernel& kernel, const Attention& attention) {
  return HalfFinder(kernel, attention).find();
}

std::int64_t blocks_of_unit(const HalfAttention& a, const HalfTiling& plan) {
  const std::int64_t blocks = ceil_div(a.rows, 64 * std::int64_t{plan.consumers});
  return a.packing ? blocks + a.packing->count : blocks;  // each sequence's last one may be a part of one
}

std::int64_t shared_bytes(const HalfAttention& a, const HalfTiling& plan, int exchange) {
  constexpr std::int64_t line = 128, alignment = 1024, barriers = 128;
  const std::int64_t features = ceil_div(a.features, 64), columns = ceil_div(a.columns, 64);
  // Blocks before each packed sequence, and before what is behind them; and what deals blocks out.
  const std::int64_t table = a.packing ? round_up(4 * (a.packing->count + 2), 16) + 48 : 0;
  return alignment + barriers + table +
         line * (features * 64 * plan.consumers + plan.stages * plan.keys * (features + columns)) +
         4 * std::int64_t{plan.consumers} * 8 * (exchange + 8) * 4;
}

int exchange_of(const HalfAttention& a, const HalfTiling& plan, std::int64_t shared_limit) {
  return a.columns > 32 && shared_bytes(a, plan, 64) <= shared_limit ? 64 : 32;
}

std::int64_t box_of(const HalfAttention& a, const HalfTiling& plan) {
  return std::gcd(a.keys.pages->size, std::int64_t{plan.keys});
}

PlaceTest as_guessed(const HalfAttention& a, const PlaceTest& test) {
  PlaceTest out{test.by_row ? -test.key : test.row, test.key, test.constant};
  if (!test.known.empty()) out.constant += out.row != 0 ? out.row * (a.key_count - a.rows) : -test.key * a.key_count;
  return out;
}

KeyTiles key_tiles(const HalfAttention& a, const HalfTiling& plan, std::int64_t row) {
  const std::int64_t step = 64 * std::int64_t{plan.consumers};
  std::int64_t last = std::min(row + step, a.rows) - 1, keys = a.key_count;
  if (a.packing) {
    const std::int64_t rows = std::max<std::int64_t>(a.rows / a.packing->count, 1);
    keys = std::max<std::int64_t>(keys / a.packing->count, 1);
    row = row / step % ceil_div(rows, step) * step;
    last = std::min(row + step, rows) - 1 + keys - rows;
    row += keys - rows;
  }
  KeyTiles out{0, ceil_div(keys, plan.keys)};
  for (const PlaceTest& each : a.tests) {
    const PlaceTest test = as_guessed(a, each);
    const std::int64_t most = test.constant + test.row * (test.row > 0 ? last : row);
    if (test.key < 0)
      out.end = std::min(out.end, most < 0 ? 0 : most / -test.key / plan.keys + 1);
    else
      out.begin = std::max(out.begin, -floor_div(most, test.key) < 0 ? 0 : -floor_div(most, test.key) / plan.keys);
  }
  out.end = std::max(out.end, out.begin);
  return out;
}

Status check(const HalfAttention& a, const HalfTiling& plan, std::int64_t shared_limit) {
  const auto bad = [](const std::string& what) { return fail("illegal_plan", what); };
  if (plan.consumers < 1 || plan.consumers > 3) return bad("consumers is 1, 2 or 3");
  if (plan.keys < 16 || plan.keys > 256 || plan.keys % 16 != 0) return bad("a tile has 16 to 256 keys, whole sixteens");
  if (plan.stages < 1 || plan.stages > 3) return bad("stages is 1, 2 or 3");
  if (plan.ping_pong && plan.consumers == 1) return bad("one consumer takes no turns");
  if (plan.section < 1 || plan.section > a.unit_count) return bad("more units side by side than there are");
  if (a.features > most_features || a.columns > most_features) return bad("heads are wider than an instruction");
  // Scores, weights and sums; without overlap weights take the place of scores. Measured as what spills nothing.
  const std::int64_t columns = round_up(a.columns, 8),
                     held = plan.keys / 2 + (plan.overlap ? plan.keys / 4 : 0) + columns / 2;
  const bool asks = !a.plain || std::ranges::any_of(a.tests, &PlaceTest::by_row);
  const std::int64_t room =
      (plan.consumers == 3 ? 132 : 204) - (asks ? 24 : 0) - static_cast<std::int64_t>(a.ahead.size()) * plan.keys / 4;
  if (held > room)
    return bad("scores, weights and sums need " + std::to_string(held) + " registers a thread of " +
               std::to_string(room));
  const std::int64_t bytes = shared_bytes(a, plan, 32);
  if (bytes > shared_limit) return bad("stages need " + std::to_string(bytes) + " bytes of shared memory");
  if (a.unit_count * blocks_of_unit(a, plan) > most_extent) return bad("an extent exceeds 2^31");
  return {};
}

}  // namespace planish::codegen::attention
