#include "report/line_diff.h"

#include <algorithm>
#include <cstdint>

namespace planish::report {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

std::vector<DiffLine> line_diff(std::string_view before, std::string_view after, std::size_t context,
                                std::size_t most_lines) {
  const auto a = lines_of(before), b = lines_of(after);
  if (a.size() + b.size() > most_lines) return {{'@', "too long to compare"}};
  // Equal beginnings and ends are most of it.
  std::size_t head = 0, tail = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
  while (tail < a.size() - head && tail < b.size() - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  const std::size_t n = a.size() - head - tail, m = b.size() - head - tail;
  // longest[i][j]: lines in common of what follows a's line i and b's line j.
  std::vector<std::uint16_t> longest((n + 1) * (m + 1), 0);
  const auto at = [&](std::size_t i, std::size_t j) -> std::uint16_t& { return longest[i * (m + 1) + j]; };
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = m; j-- > 0;) {
      at(i, j) = a[head + i] == b[head + j] ? static_cast<std::uint16_t>(at(i + 1, j + 1) + 1)
                                            : std::max(at(i + 1, j), at(i, j + 1));
    }
  }
  std::vector<DiffLine> all;
  for (std::size_t i = 0; i < head; ++i) all.push_back({' ', a[i]});
  for (std::size_t i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && a[head + i] == b[head + j]) {
      all.push_back({' ', a[head + i]});
      ++i;
      ++j;
    } else if (i < n && (j == m || at(i + 1, j) >= at(i, j + 1))) {
      all.push_back({'-', a[head + i++]});
    } else {
      all.push_back({'+', b[head + j++]});
    }
  }
  for (std::size_t i = 0; i < tail; ++i) all.push_back({' ', a[a.size() - tail + i]});

  std::vector<bool> kept(all.size(), false);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].mark == ' ') continue;
    const std::size_t from = i > context ? i - context : 0, to = std::min(all.size(), i + context + 1);
    std::fill(kept.begin() + static_cast<std::ptrdiff_t>(from), kept.begin() + static_cast<std::ptrdiff_t>(to), true);
  }
  std::vector<DiffLine> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (kept[i]) {
      out.push_back(all[i]);
    } else if (out.empty() || out.back().mark != '@') {
      out.push_back({'@', ""});
    }
  }
  if (out.size() == 1 && out.front().mark == '@') out.clear();
  return out;
}

}  // namespace planish::report
