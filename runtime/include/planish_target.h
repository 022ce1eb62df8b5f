#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>

/// The targets that the runtime can load programs for: the one place here that knows their names.
namespace planish::rt {

struct Language {
  std::string_view name;
  std::size_t own_arguments = 0;  ///< that its compiler adds behind those of a launch: pointers, null when unused
};

struct Target {
  std::string_view name;              ///< as programs say it
  bool on_host;                       ///< kernels are host code; otherwise a driver loads and launches them
  std::array<Language, 2> languages;  ///< of kernels; without names where there are fewer
  /// Null where its kernels cannot be in it.
  const Language* language(std::string_view called) const {
    const auto found = std::find_if(languages.begin(), languages.end(),
                                    [called](const Language& one) { return !called.empty() && one.name == called; });
    return found == languages.end() ? nullptr : &*found;
  }
};

inline constexpr std::array<Target, 2> targets{
    {{"cpu", true, {{{"cpp"}, {}}}}, {"cuda", false, {{{"cuda"}, {"triton", 2}}}}}};

/// Null where there is none of this name.
inline const Target* find_target(std::string_view name) {
  const auto found =
      std::find_if(targets.begin(), targets.end(), [name](const Target& one) { return one.name == name; });
  return found == targets.end() ? nullptr : &*found;
}
/// The one that a device number of the C interface is of: negative is the host.
inline const Target& target_of(int device) {
  return *std::find_if(targets.begin(), targets.end(),
                       [device](const Target& one) { return one.on_host == (device < 0); });
}

/// `cpu`, `cuda`, `cuda:3`: nothing where it is none of these. A device's number has one or two digits.
struct Place {
  const Target* target = nullptr;
  int device = -1;  ///< as the C interface takes it
};
inline std::optional<Place> find_place(std::string_view text) {
  const std::size_t colon = text.find(':');
  const Target* target = find_target(text.substr(0, colon));
  if (target == nullptr) return std::nullopt;
  if (colon == std::string_view::npos) return Place{target, target->on_host ? -1 : 0};
  const std::string_view digits = text.substr(colon + 1);
  int number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc() && end == digits.data() + digits.size() && number >= 0 && digits.size() <= 2;
  if (target->on_host || !whole) return std::nullopt;
  return Place{target, number};
}

}  // namespace planish::rt
