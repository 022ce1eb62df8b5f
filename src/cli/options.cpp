#include "cli/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>
#include <system_error>

#include "backend/backend.h"
#include "base/suggest.h"
#include "session/time_plan.h"
#include "store/store.h"

namespace planish::cli {
using namespace session;

namespace {

/// A whole text as a finite number.
bool number(std::string_view text, double& out) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failed == std::errc{} && end == text.data() + text.size() && std::isfinite(out);
}

}  // namespace

Result<double> parse_duration(const std::string& text) {
  std::string_view digits = text;
  double unit = 1;
  if (digits.ends_with("ms")) {
    unit = 1e-3;
    digits.remove_suffix(2);
  } else if (digits.ends_with('s')) {
    digits.remove_suffix(1);
  } else if (digits.ends_with('m')) {
    unit = 60;
    digits.remove_suffix(1);
  } else if (digits.ends_with('h')) {
    unit = 3600;
    digits.remove_suffix(1);
  }
  double value = 0;
  if (!number(digits, value) || value < 0) {
    return fail("usage", fmt::format("'{}' is not a duration", text),
                "write seconds, or a number with s, m or h: 60s, 5m");
  }
  return value * unit;
}

Result<double> parse_limit(const std::string& text) {
  PLANISH_TRY(const double seconds, parse_duration(text));
  if (seconds > 0) return seconds;
  return fail("usage", fmt::format("'{}' allows no time at all", text), "name a limit such as 60s or 10m");
}

Result<double> parse_max_time(const std::string& text, double budget_seconds) {
  if (text == "auto") return TimePlan::usual(budget_seconds);
  auto seconds = parse_limit(text);
  if (!seconds) seconds.error().hint = "name a limit such as 60s or 10m, or auto";
  return seconds;
}

Result<std::vector<std::string>> parse_baselines(const std::string& text) {
  const std::vector<std::string> known = {"eager", "compile", "max_autotune_no_cudagraphs", "max_autotune"};
  if (text == "all") return known;
  std::vector<std::string> asked = {"eager"};
  if (text != "none") {
    std::size_t at = 0;
    while (at <= text.size()) {
      const std::size_t comma = std::min(text.find(',', at), text.size());
      std::string mode = text.substr(at, comma - at);
      std::ranges::replace(mode, '-', '_');
      if (std::ranges::find(known, mode) == known.end()) {
        return fail("usage", fmt::format("there is no baseline '{}'", mode),
                    fmt::format("{}choose from all, none, {}", did_you_mean(mode, known), fmt::join(known, ", ")));
      }
      asked.push_back(mode);
      at = comma + 1;
    }
  }
  std::vector<std::string> out;
  for (const std::string& mode : known) {
    if (std::ranges::find(asked, mode) != asked.end()) out.push_back(mode);
  }
  return out;
}

Status check_accuracy(const std::string& text) {
  double tolerance = 0;
  if (text == "eager" || text == "permitted" || text == "tf32") return {};
  if (number(text, tolerance) && tolerance > 0 && tolerance < 1) return {};
  return fail("usage", fmt::format("'{}' is no accuracy", text),
              "choose eager, permitted, tf32, or a tolerance such as 1e-4");
}

std::vector<std::string> target_choices() {
  std::vector<std::string> out{"auto"};
  for (const backend::Backend* one : backend::all()) out.push_back(one->name);
  std::ranges::sort(out);
  return out;
}

Status check_target(const std::string& text) {
  if (text == "auto" || backend::find(text) != nullptr) return {};
  return fail(
      "usage", fmt::format("there is no target '{}'", text),
      did_you_mean(text == "gpu" ? backend::cuda().name : text, target_choices()) + "choose " + backend::choices());
}

Status check_out(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored) || std::filesystem::is_directory(path, ignored))
    return {};
  return fail("usage", fmt::format("{} is not a folder", path.string()), "name another with --out DIR");
}

std::filesystem::path store_file(const std::string& option) {
  return option.empty() ? store::Store::default_file() : std::filesystem::absolute(option);
}

Result<std::filesystem::path> existing_file(const std::string& path, const char* what) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return fail("no_such_file", fmt::format("{}: no such {}", path, what), "check the path");
  }
  if (::access(path.c_str(), R_OK) != 0) {
    return fail("unreadable", fmt::format("{}: {}", path, std::strerror(errno)), "check its owner and permissions");
  }
  if (std::filesystem::is_regular_file(path, ignored)) {
    constexpr std::uintmax_t most = std::uintmax_t{64} << 20U;
    if (std::filesystem::file_size(path, ignored) > most)
      return fail("too_large", fmt::format("{}: has more than {} MiB", path, most >> 20U), "check the path");
  } else if (!std::filesystem::is_directory(path, ignored)) {
    return fail("not_a_file", fmt::format("{}: is a pipe, a socket or a device, and no {}", path, what),
                "write it to a file first");
  }
  return std::filesystem::absolute(path, ignored);
}

}  // namespace planish::cli
