#include "session/run_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <random>

namespace planish::session {

std::string new_run_id(Clock& clock) {
  const auto now = static_cast<std::time_t>(clock.wall_seconds());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  std::random_device entropy;
  return fmt::format("{}-{:04x}", text, entropy() & 0xffffU);
}

Status check_run_id(const std::string& id) {
  constexpr std::size_t longest = 64;
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  if (!id.empty() && id != "latest" && id.size() <= longest && std::ranges::all_of(id, plain)) return {};
  return fail("usage", fmt::format("'{}' cannot be the id of a run", id),
              "use letters, digits, - and _, at most 64 of them; latest stands for the last run");
}

}  // namespace planish::session
