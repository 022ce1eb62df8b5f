#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace planish::session {

/// What is to be said of several things, often for the same reason: once each reason, with how many they are.
class SaidOnce {
 public:
  /// The reason may name what it is said of ("region r3: no kernel fits"): that is no other reason.
  void add(std::string_view reason, const std::string& name) {
    std::string text(reason);
    if (const auto at = text.find(name + ": "); at != std::string::npos) text.erase(0, at + name.size() + 2);
    const auto known = std::ranges::find(said_, text, &Said::reason);
    (known == said_.end() ? said_.emplace_back(std::move(text)) : *known).names.push_back(name);
  }

  /// "region r3 is left as it is: no kernel fits", "3 regions (r3, r4, r7) are left as they are: no kernel fits".
  std::vector<std::string> lines(std::string_view what, std::string_view one, std::string_view many) const {
    constexpr std::size_t most = 4;
    std::vector<std::string> out;
    for (const auto& [reason, names] : said_) {
      if (names.size() == 1) {
        out.push_back(fmt::format("{} {} {}: {}", what, names.front(), one, reason));
        continue;
      }
      const auto shown = names | std::views::take(most);
      out.push_back(fmt::format("{} {}s ({}{}) {}: {}", names.size(), what, fmt::join(shown, ", "),
                                names.size() > most ? ", …" : "", many, reason));
    }
    return out;
  }

 private:
  struct Said {
    std::string reason;
    std::vector<std::string> names{};
  };
  std::vector<Said> said_;  ///< in the order in which they were said first
};

}  // namespace planish::session
