#include "base/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace planish {
namespace {

/// Letters inserted, dropped, replaced, or swapped with their neighbour.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string lower(std::string_view text) {
  std::string out(text.substr(0, 64));
  for (char& c : out) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::string closest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = 0;
  const std::string asked = lower(word);
  for (const std::string& name : known) {
    const std::size_t apart = distance(asked, lower(name));
    if (apart > std::max<std::size_t>(1, std::min(name.size(), asked.size()) / 3)) continue;
    if (!best.empty() && apart >= least) continue;
    best = name;
    least = apart;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string found = closest(word, known);
  return found.empty() ? found : fmt::format("did you mean '{}'? ", found);
}

}  // namespace planish
