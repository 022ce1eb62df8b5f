#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace planish {

struct SettingsTable {
  toml::table table;
  bool of_tool = false;  ///< it stood at `tool.planish`, as in a pyproject.toml
};

/// Where a file's settings stand, for whoever reads any of them: at `tool.planish` where that is a table, else at the
/// root. Kind `usage`, where it is not TOML; `file` is named there.
Result<SettingsTable> settings_table(std::string_view text, const std::string& file);

}  // namespace planish
