#include "search/tree_search.h"

#include <algorithm>
#include <cmath>

namespace planish::search {
namespace {

/// How much a child that was hardly tried is worth trying, against how good the known ones are (0 … 1).
constexpr double curiosity = 0.5;
constexpr int most_walks = 2000;
/// One of so many walks ends in a draw from anywhere.
constexpr std::size_t strangers_one_in = 6;
/// Of the genes that a walk leaves open, so many on average are not as in the best genome known there.
constexpr std::size_t changed_genes = 2;

}  // namespace

TreeSearch::TreeSearch(const StrategyContext& context) : space_(context.region.domain), rng_(context.seed), nodes_(1) {
  for (const auto& genome : context.region.domain->seeds()) {
    if (const auto code = space_.encode(genome)) first_.push_back(*code);
  }
}

int TreeSearch::child(int node, int depth, std::uint8_t choice) {
  auto& children = nodes_[static_cast<std::size_t>(node)].children;
  if (children.empty()) children.assign(static_cast<std::size_t>(space_.choices(depth)), -1);
  int next = children[choice];
  if (next < 0) {
    next = static_cast<int>(nodes_.size());
    children[choice] = next;
    nodes_.emplace_back();
  }
  return next;
}

double TreeSearch::bound(const Node& parent, int child) const {
  const double visits = parent.visits + parent.under_way + 1;
  double tried = 0, value = 0.5;
  if (child >= 0) {
    const Node& node = nodes_[static_cast<std::size_t>(child)];
    tried = node.visits + node.under_way;
    const double range = std::max(most_ - least_, 1e-9);
    // What a subtree is worth is what the best under it are, not the average of all that was drawn there.
    if (node.visits > 0) value = 0.7 * (most_ - node.best) / range + 0.3 * (most_ - node.sum / node.visits) / range;
  }
  return value + curiosity * std::sqrt(std::log(visits + 1) / (tried + 1));
}

Code TreeSearch::walk() {
  Code code = space_.draw(rng_);
  int node = 0, depth = 0, known = 0;
  const int deepest = static_cast<int>(pick(rng_, static_cast<std::size_t>(space_.genes()) + 1));
  for (; depth < deepest && node >= 0; ++depth) {
    const Node& here = nodes_[static_cast<std::size_t>(node)];
    if (here.visits + here.under_way < 2) break;  // too little is known from here on
    known = node;
    int best = -1;
    double most = 0;
    const int choices = space_.choices(depth);
    const int begin = static_cast<int>(pick(rng_, static_cast<std::size_t>(choices)));  // ties go anywhere
    for (int i = 0; i < choices; ++i) {
      const int choice = (begin + i) % choices;
      const double one = bound(here, here.children.empty() ? -1 : here.children[static_cast<std::size_t>(choice)]);
      if (best >= 0 && one <= most) continue;
      best = choice;
      most = one;
    }
    code.at[static_cast<std::size_t>(depth)] = static_cast<std::uint8_t>(best);
    node = here.children.empty() ? -1 : here.children[static_cast<std::size_t>(best)];
  }
  if (node >= 0) known = node;
  const int champion = nodes_[static_cast<std::size_t>(known)].champion;
  if (champion < 0 || pick(rng_, strangers_one_in) == 0) return code;
  // What the bounds left open is as in the best genome under the deepest known node, but for a gene or two.
  const Code drawn = code;
  const Code& like = champions_[static_cast<std::size_t>(champion)];
  for (int i = depth; i < space_.genes(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool change = pick(rng_, static_cast<std::size_t>(space_.genes() - depth)) < changed_genes;
    code.at[at] = change ? drawn.at[at] : like.at[at];
  }
  return code;
}

std::optional<codegen::Genome> TreeSearch::propose() {
  std::optional<Code> found;
  if (!first_.empty()) {
    found = first_.front();
    origin_.by = "seed";
    first_.pop_front();
    ++funnel_.drawn;
  }
  for (int i = 0; i < most_walks && !found; ++i) {
    // A path to nothing legal or new must not be walked for ever: after a while the draw decides more.
    origin_.by = i % 16 == 15 ? "draw" : "walk";
    auto code = i % 16 == 15 ? space_.draw(rng_) : walk();
    ++funnel_.drawn;
    if (proposed_.contains(space_.key(code)) || !space_.plausible(code) || !space_.legal(code)) continue;
    found = code;
  }
  if (!found) return std::nullopt;
  ++funnel_.legal;
  proposed_.insert(space_.key(*found));
  int node = 0;
  ++nodes_[0].under_way;
  for (int depth = 0; depth < space_.genes(); ++depth) {
    node = child(node, depth, found->at[static_cast<std::size_t>(depth)]);
    ++nodes_[static_cast<std::size_t>(node)].under_way;
  }
  return space_.decode(*found);
}

void TreeSearch::note(const Code& code, double log_ms, bool passed) {
  int node = 0;
  if (passed) champions_.push_back(code);
  for (int depth = 0; depth <= space_.genes(); ++depth) {
    Node& here = nodes_[static_cast<std::size_t>(node)];
    here.under_way = std::max(here.under_way - 1, 0);
    if (passed && (here.champion < 0 || log_ms < here.champion_log_ms)) {
      here.champion = static_cast<int>(champions_.size()) - 1;
      here.champion_log_ms = log_ms;
    }
    here.best = here.visits == 0 ? log_ms : std::min(here.best, log_ms);
    here.sum += log_ms;
    ++here.visits;
    if (depth < space_.genes()) node = child(node, depth, code.at[static_cast<std::size_t>(depth)]);
  }
}

void TreeSearch::tell(const codegen::Genome& genome, const Told& told) {
  const auto code = space_.encode(genome);
  if (!code) return;
  double value = any_ ? most_ : 0;  // a failure counts as the slowest known
  if (told.median_ms > 0 && (told.ok || told.slow)) {
    value = std::log(told.median_ms);
    least_ = any_ ? std::min(least_, value) : value;
    most_ = any_ ? std::max(most_, value) : value;
    any_ = true;
  }
  note(*code, value, told.ok);
}

}  // namespace planish::search
