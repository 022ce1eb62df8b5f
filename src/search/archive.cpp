#include "search/archive.h"

#include <algorithm>
#include <cmath>

namespace planish::search {
namespace {

constexpr std::array<std::string_view, 6> added_names{"new_cell",   "improved",  "contested",
                                                      "not_better", "duplicate", "rejected"};

double low(const Elite& e) {
  return e.lo_ms > 0 ? e.lo_ms : e.ms;
}
double high(const Elite& e) {
  return e.hi_ms > 0 ? e.hi_ms : e.ms;
}

}  // namespace

std::string_view name(Added added) {
  return added_names[static_cast<std::size_t>(added)];
}

std::string_view reject_reason(const Elite& e) {
  if (!std::isfinite(e.ms) || e.ms <= 0) return "its time is no positive number";
  if (!std::isfinite(e.lo_ms) || !std::isfinite(e.hi_ms) || low(e) > e.ms || high(e) < e.ms)
    return "its interval does not hold its time";
  if (e.cell.strategy > 3 || e.cell.footprint > 2 || e.cell.structure > 2) return "there is no such cell";
  return {};
}

Added Archive::place(const Elite& one) {
  std::optional<Elite>& held = cells_[static_cast<std::size_t>(one.cell.index())];
  if (!held) {
    held = one;
    return Added::new_cell;
  }
  if (one.ms >= held->ms) return Added::not_better;
  if (high(one) >= low(*held)) return Added::contested;
  held = one;
  return Added::improved;
}

Added Archive::add(const Elite& one) {
  if (!reject_reason(one).empty()) return Added::rejected;
  if (!known_.insert(one.id)) return Added::duplicate;
  return place(one);
}

std::vector<Added> Archive::add(std::span<const Elite> batch) {
  std::vector<Added> out(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) out[i] = add(batch[i]);
  return out;
}

Added Archive::add_single(const Elite& one) {
  const bool positive = one.ms > 0 && one.ms < INFINITY;
  const double from = one.lo_ms > 0 ? one.lo_ms : one.ms;
  const double to = one.hi_ms > 0 ? one.hi_ms : one.ms;
  if (!positive || !(from <= one.ms) || !(one.ms <= to) || !std::isfinite(one.lo_ms) || !std::isfinite(one.hi_ms))
    return Added::rejected;
  if (one.cell.strategy >= 4 || one.cell.footprint >= 3 || one.cell.structure >= 3) return Added::rejected;
  for (const std::uint64_t id : slow_known_) {
    if (id == one.id) return Added::duplicate;
  }
  slow_known_.push_back(one.id);
  for (std::optional<Elite>& held : cells_) {
    if (!held || held->cell != one.cell) continue;
    const double held_from = held->lo_ms > 0 ? held->lo_ms : held->ms;
    if (one.ms >= held->ms) return Added::not_better;
    if (to >= held_from) return Added::contested;
    held = one;
    return Added::improved;
  }
  for (int i = 0; i < Cell::count; ++i) {
    if (Cell::at(i) == one.cell) cells_[static_cast<std::size_t>(i)] = one;
  }
  return Added::new_cell;
}

Added Archive::settle(const Elite& again) {
  if (!reject_reason(again).empty()) return Added::rejected;
  std::optional<Elite>& held = cells_[static_cast<std::size_t>(again.cell.index())];
  if (!held) {
    held = again;
    return Added::new_cell;
  }
  if (held->id != again.id && again.ms >= held->ms) return Added::not_better;
  held = again;
  return Added::improved;
}

void Archive::drop(std::uint64_t id) {
  for (std::optional<Elite>& held : cells_) {
    if (held && held->id == id) held.reset();
  }
}

std::vector<Elite> Archive::elites() const {
  std::vector<Elite> out;
  for (const auto& held : cells_) {
    if (held) out.push_back(*held);
  }
  return out;
}

int Archive::filled() const {
  return static_cast<int>(std::ranges::count_if(cells_, [](const auto& held) { return held.has_value(); }));
}

std::optional<Elite> Archive::best() const {
  std::optional<Elite> out;
  for (const auto& held : cells_) {
    if (held && (!out || held->ms < out->ms)) out = held;
  }
  return out;
}

}  // namespace planish::search
