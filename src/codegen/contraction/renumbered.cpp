#include "codegen/contraction/renumbered.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

namespace planish::codegen::contraction {
namespace {

/// What stands before the number of such a name; nothing where it is another one.
std::string_view kind_of(std::string_view name) {
  constexpr std::array<std::string_view, 3> kinds{"in", "d", "v"};
  for (const std::string_view kind : kinds) {
    const std::string_view number = name.substr(std::min(kind.size(), name.size()));
    if (name.starts_with(kind) && !number.empty() &&
        std::ranges::all_of(number, [](unsigned char c) { return std::isdigit(c) != 0; }))
      return kind;
  }
  return {};
}

}  // namespace

std::string renumbered(std::string_view whole) {
  // What comes before is the same of all kernels, and has instructions whose parts look like such names.
  constexpr std::string_view marker = "// ---- kernel ----";
  const std::size_t begin = std::min(whole.find(marker), whole.size());
  const std::string_view text = whole.substr(begin);
  std::map<std::string_view, std::string> names;
  std::map<std::string_view, int> counts;
  std::string out(whole.substr(0, begin));
  const auto in_name = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_');
  };
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (in_name(end)) ++end;
    if (end == i) {
      out += text[i++];
      continue;
    }
    const std::string_view name = text.substr(i, end - i);
    const std::string_view kind = kind_of(name);
    if (kind.empty()) {
      out += name;
    } else {
      const auto [known, fresh] = names.try_emplace(name);
      if (fresh) known->second = fmt::format("{}{}", kind, counts[kind]++);
      out += known->second;
    }
    i = end;
  }
  return out;
}

}  // namespace planish::codegen::contraction
