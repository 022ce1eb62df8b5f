#include "search/stock.h"

#include <algorithm>
#include <cmath>

namespace planish::search {
namespace {

/// One of so many draws that look impossible is asked about all the same: the guess may be wrong.
constexpr std::size_t doubt_one_in = 24;
constexpr double alike_within = 0.02;

}  // namespace

void Stock::consider(const Code& code, bool certainly) {
  ++drawn_;
  if (!certainly && !space_.plausible(code)) return;
  if (!known_.insert(space_.key(code))) return;
  if (space_.legal(code)) codes_.push_back(code);
}

void Stock::draw(std::int64_t draws, std::mt19937_64& rng) {
  const bool walk = space_.size() <= static_cast<double>(walk_up_to_);
  for (std::int64_t i = 0; i < draws && !complete_; ++i) {
    if (!walk) {
      consider(space_.draw(rng), pick(rng, doubt_one_in) == 0);
      continue;
    }
    if (static_cast<double>(walked_) >= space_.size()) {
      complete_ = true;
      return;
    }
    consider(space_.numbered(walked_++), true);
  }
}

std::vector<Ranked> cluster(std::vector<Ranked> ranked, std::span<const int> telling, std::size_t most) {
  std::ranges::stable_sort(ranked, {}, &Ranked::log_ms);
  std::vector<Ranked> out;
  KeySet groups;
  for (const Ranked& one : ranked) {
    if (out.size() >= most) break;
    auto group = static_cast<std::uint64_t>(static_cast<std::int64_t>(std::floor(one.log_ms / alike_within)));
    for (const int position : telling) group = group * 257 + one.code.at[static_cast<std::size_t>(position)] + 1;
    if (groups.insert(group)) out.push_back(one);
  }
  return out;
}

}  // namespace planish::search
