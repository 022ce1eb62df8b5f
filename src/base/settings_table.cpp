#include "base/settings_table.h"

#include <fmt/format.h>

#include <utility>

namespace planish {

Result<SettingsTable> settings_table(std::string_view text, const std::string& file) {
  toml::parse_result parsed = toml::parse(text, std::string_view(file));
  // The description alone: it quotes no value, which may be a key.
  if (!parsed)
    return fail("usage",
                fmt::format("{}: not TOML at line {}: {}", file, parsed.error().source().begin.line,
                            parsed.error().description()),
                "values are numbers, true, false, or text in quotes");
  if (toml::table* ours = parsed.table().at_path("tool.planish").as_table())
    return SettingsTable{std::move(*ours), true};
  return SettingsTable{std::move(parsed).table(), false};
}

}  // namespace planish
