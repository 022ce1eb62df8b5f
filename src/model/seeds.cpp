#include "model/seeds.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

namespace planish::model {
namespace {

std::set<std::string_view> words(std::string_view text) {
  std::set<std::string_view> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    if (end > 0) out.insert(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// Shared part of two sets of words; two empty sets share everything.
double shared(std::string_view a, std::string_view b) {
  const auto x = words(a), y = words(b);
  if (x.empty() && y.empty()) return 1;
  const auto both = std::ranges::count_if(x, [&](std::string_view w) { return y.contains(w); });
  return static_cast<double>(both) / static_cast<double>(x.size() + y.size() - static_cast<std::size_t>(both));
}

/// The number behind a letter of "f32 o10 i12".
double size_in(std::string_view bucket, char letter) {
  for (const std::string_view word : words(bucket)) {
    if (word.size() < 2 || word.front() != letter || word == bucket.substr(0, word.size())) continue;
    int value = 0;
    std::from_chars(word.data() + 1, word.data() + word.size(), value);
    return value;
  }
  return 0;
}

std::string_view dtype_in(std::string_view bucket) {
  return bucket.substr(0, bucket.find(' '));
}

}  // namespace

double likeness(const KernelClass& a, const std::string& key_a, const KernelClass& b, const std::string& key_b) {
  if (a.pattern != b.pattern) return 0;
  if (key_a == key_b) return 1;
  const double distance = std::fabs(size_in(a.bucket, 'i') - size_in(b.bucket, 'i')) +
                          0.5 * std::fabs(size_in(a.bucket, 'o') - size_in(b.bucket, 'o'));
  const double sizes = std::exp(-distance / 3);
  const double dtype = dtype_in(a.bucket) == dtype_in(b.bucket) ? 1 : 0.6;
  return 0.99 * (0.4 + 0.6 * shared(a.kinds, b.kinds)) * sizes * dtype;
}

std::vector<codegen::Genome> seeds_from(const std::vector<Known>& known, const KernelClass& kernel,
                                        const std::string& key, std::size_t count) {
  // Within a kernel only the time counts; between kernels likeness does.
  std::map<std::string_view, std::vector<const Known*>> by_kernel;
  for (const Known& one : known) {
    if (one.ms > 0 && likeness(one.kernel, one.key, kernel, key) > 0) by_kernel[one.key].push_back(&one);
  }
  struct Ranked {
    double worth;
    const Known* known;
  };
  std::vector<Ranked> ranked;
  for (auto& [name, group] : by_kernel) {
    std::ranges::stable_sort(group, {}, &Known::ms);
    const double alike = likeness(group.front()->kernel, group.front()->key, kernel, key);
    const double best = group.front()->ms;
    for (const Known* one : group) {
      // A genome a tenth slower than its kernel's best is not worth a try here.
      if (one->ms > 1.1 * best) break;
      ranked.push_back({alike * best / one->ms, one});
    }
  }
  std::ranges::stable_sort(ranked, std::ranges::greater{}, &Ranked::worth);
  std::vector<codegen::Genome> out;
  for (const Ranked& one : ranked) {
    if (out.size() == count) break;
    if (std::ranges::find(out, one.known->genome) == out.end()) out.push_back(one.known->genome);
  }
  return out;
}

}  // namespace planish::model
