#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "patterns/snapshot.h"
#include "patterns/words.h"

namespace planish::patterns {
namespace {

/// What the best text counts, in the unit of the facts' weights.
constexpr float text_weight = 9.0F;
/// A pattern for hardware that nobody asked for.
constexpr float foreign_device = 1.5F;
/// A variant (grouped, sparse, …) that nobody asked for: the plain one is what a plain query means.
constexpr float unasked_variant = 0.5F;
/// Texts that vectors bring in, as many as words do.
constexpr std::size_t most_near = 400;
/// Hits of one family at most.
constexpr std::size_t of_a_family = 1;

/// What a value counts, all of it in eight bytes: every fact of every pattern is looked at.
struct ValueWeight {
  float gain = 0;         ///< for having it
  std::uint8_t kind = 0;  ///< number of its name
  bool required = false;  ///< the filter lets it through
};
static_assert(sizeof(ValueWeight) == 8);

struct Weights {
  std::vector<ValueWeight> values;
  /// By name: what having only other values costs; and the names for which that is something, as bits.
  std::array<float, 64> other{};
  std::uint64_t costs = 0, required = 0;
  bool possible = true;
};

Weights weights_of(const Snapshot& all, const Asked& asked, const Filter& filter) {
  Weights out;
  out.values.resize(all.values.size());
  for (std::size_t i = 0; i < all.values.size(); ++i)
    out.values[i].kind = static_cast<std::uint8_t>(all.values[i].kind & 63U);
  for (const auto& [name, values] : asked.facts) {
    const FactWeight* weight = weight_of(name);
    if (weight == nullptr) continue;
    for (const std::string& value : values) {
      const auto found = all.numbers.find(Snapshot::key(name, value));
      if (found == all.numbers.end()) continue;
      ValueWeight& one = out.values[found->second];
      one.gain = weight->match;
      out.other[one.kind] = weight->other;
      if (weight->other > 0) out.costs |= std::uint64_t{1} << one.kind;
    }
  }
  for (const auto& [name, values] : filter.facts) {
    bool any = false;
    for (const std::string& value : values) {
      const auto found = all.numbers.find(Snapshot::key(name, value));
      if (found == all.numbers.end()) continue;
      any = true;
      out.values[found->second].required = true;
      out.required |= std::uint64_t{1} << out.values[found->second].kind;
    }
    if (!any) out.possible = false;  // nothing has it
  }
  return out;
}

float product(const std::int8_t* a, const std::int8_t* b, std::size_t n) {
  std::int32_t sum = 0;
  for (std::size_t at = 0; at < n; at += vector_block) {
    std::array<std::int16_t, vector_block> x{}, y{};
    for (std::size_t i = 0; i < vector_block; ++i) x[i] = a[at + i];
    for (std::size_t i = 0; i < vector_block; ++i) y[i] = b[at + i];
    for (std::size_t i = 0; i < vector_block; ++i) sum += std::int32_t{x[i]} * y[i];
  }
  return static_cast<float>(sum);
}

}  // namespace

// The largest that cost nothing on the labelled queries (docs/results/patterns.md).
const double default_meaning_weight = 1.0;

std::unordered_map<std::int64_t, double> nearest(const Snapshot& all, std::string_view vector) {
  std::unordered_map<std::int64_t, double> out;
  const Snapshot::Directions& in = all.directions;
  if (vector.empty() || in.families.empty() || vector.size() != in.length) return out;
  std::vector<std::int8_t> query(in.stride);
  std::ranges::copy(vector, query.begin());
  const std::size_t n = in.families.size();
  std::vector<float> near(n);
  for (std::size_t i = 0; i < n; ++i)
    near[i] = product(query.data(), in.numbers.data() + i * in.stride, in.stride) * in.scale[i];
  // The first that is left out counts nothing; where all are in, the last.
  std::vector<float> sorted = near;
  const std::size_t last = std::min(most_near, n - 1);
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(last), std::greater<>());
  const float least = sorted[last], most = std::ranges::max(near);
  if (most <= least) return out;
  for (std::size_t i = 0; i < n; ++i) {
    if (near[i] > least) out.emplace(in.families[i], (near[i] - least) / (most - least));
  }
  return out;
}

std::string Snapshot::key(std::string_view name, std::string_view value) {
  std::string out(name);
  out += '=';
  out += value;
  return out;
}

Asked ask(std::string_view query) {
  Asked out;
  const std::vector<std::string> all = words(query.substr(0, 4000), 256);
  out.facts = recognise(all);
  std::unordered_set<std::string_view> seen;
  for (const std::string& word : all) {
    if (seen.insert(word).second && out.words.size() < 48) out.words.push_back(word);
  }
  return out;
}

Result<std::vector<Scored>> rank(const Snapshot& all, const Asked& asked, const Filter& filter,
                                 const std::unordered_map<std::int64_t, double>& texts,
                                 const std::unordered_map<std::int64_t, double>& meanings, double meaning_weight,
                                 const std::unordered_map<std::int64_t, double>& bonus, std::size_t k) {
  std::vector<Scored> scored;
  scored.reserve(all.rows.size());
  const Weights weights = weights_of(all, asked, filter);
  if (!weights.possible) return scored;
  std::vector<bool> corpora(all.corpora.size());
  for (std::size_t i = 0; i < corpora.size(); ++i) {
    corpora[i] = (filter.kind.empty() || all.corpora[i].kind == filter.kind) &&
                 (filter.corpus.empty() || all.corpora[i].name == filter.corpus);
  }
  const auto kind_number = [&](std::string_view name) {
    const auto found = std::ranges::find(all.kinds, name);
    return static_cast<std::size_t>(found - all.kinds.begin());
  };
  const std::size_t variant = kind_number("variant"), device = kind_number("device");
  const bool device_asked = asked.facts.contains("device") || filter.facts.contains("device");
  double best_text = 0;
  for (const auto& [family, value] : texts) best_text = std::max(best_text, value);
  const bool wordless = asked.words.empty();
  std::int64_t family = -1;
  float family_text = 0, family_meaning = 0;
  for (std::uint32_t i = 0; i < all.rows.size(); ++i) {
    const Snapshot::Row& row = all.rows[i];
    if (!corpora[row.corpus] || (!filter.form.empty() && all.forms[row.form] != filter.form)) continue;
    if (row.family != family) {
      family = row.family;
      const auto found = texts.find(family);
      family_text =
          found == texts.end() || best_text <= 0 ? 0.0F : static_cast<float>(found->second / best_text) * text_weight;
      if (!meanings.empty()) {
        const auto near = meanings.find(family);
        family_meaning = near == meanings.end() ? 0.0F : static_cast<float>(near->second * meaning_weight);
      }
    }
    Scored one{i, 0, family_text, 0, 0, family_meaning};
    std::uint64_t has = 0, matched = 0, met = 0;
    float gained = 0, lost = 0;
    for (std::uint32_t f = row.first; f < row.first + row.count; ++f) {
      const ValueWeight& value = weights.values[all.facts[f]];
      const std::uint64_t bit = std::uint64_t{1} << value.kind;
      has |= bit;
      if (value.required) met |= bit;
      if (value.gain > 0) {
        gained += value.gain;
        matched |= bit;
      } else if (value.kind == variant) {
        lost += unasked_variant;
      } else if (value.kind == device && !device_asked) {
        lost += foreign_device;
      }
    }
    if ((met & weights.required) != weights.required) continue;
    for (std::uint64_t bits = has & ~matched & weights.costs; bits != 0; bits &= bits - 1)
      lost += weights.other[static_cast<std::size_t>(std::countr_zero(bits))];
    if (!wordless && family_text <= 0 && gained <= 0 && family_meaning <= 0) continue;
    one.facts = gained - lost + row.prior;
    if (!bonus.empty()) {
      if (const auto found = bonus.find(row.id); found != bonus.end()) one.measured = static_cast<float>(found->second);
    }
    one.score = one.text + one.facts + one.measured + one.meaning;
    scored.push_back(one);
  }
  // Few are wanted of many: what is sorted grows until enough of them may stay.
  const auto before = [](const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score > b.score : a.row < b.row;
  };
  std::vector<Scored> out;
  std::unordered_map<std::int64_t, std::size_t> families;
  std::unordered_set<std::uint64_t> contents;
  std::size_t sorted = 0;
  while (out.size() < k && sorted < scored.size()) {
    const std::size_t upto = std::min(scored.size(), std::max<std::size_t>(sorted * 4, k * 8));
    std::ranges::nth_element(scored.begin() + static_cast<std::ptrdiff_t>(sorted),
                             scored.begin() + static_cast<std::ptrdiff_t>(upto == scored.size() ? upto - 1 : upto),
                             scored.end(), before);
    std::ranges::sort(scored.begin() + static_cast<std::ptrdiff_t>(sorted),
                      scored.begin() + static_cast<std::ptrdiff_t>(upto), before);
    for (; sorted < upto && out.size() < k; ++sorted) {
      const Snapshot::Row& row = all.rows[scored[sorted].row];
      if (!wordless && families[row.family] >= of_a_family) continue;
      if (!contents.insert(row.content).second) continue;
      ++families[row.family];
      out.push_back(scored[sorted]);
    }
  }
  return out;
}

}  // namespace planish::patterns
