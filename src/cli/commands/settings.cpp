#include "cli/commands/settings.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <istream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

#include "base/file.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace planish::cli {
namespace {

constexpr const char* no_config = "--no-config";
/// What the library reads where no file is wanted: with an empty default, --config would take no value.
constexpr const char* no_file = "/dev/null";

/// Whether the text has settings of ours; a file with a mistake elsewhere has none, and is somebody else's to mend.
bool has_settings(const std::filesystem::path& pyproject) {
  const auto text = read_file(pyproject);
  return text && text->find("tool.planish") != std::string::npos;
}

std::string settings_file() {
  std::error_code ignored;
  if (std::filesystem::exists("planish.toml", ignored)) return "planish.toml";
  if (std::filesystem::is_regular_file("pyproject.toml", ignored) && has_settings("pyproject.toml"))
    return "pyproject.toml";
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder = config != nullptr && *config != '\0' ? std::filesystem::path(config)
                                 : home != nullptr                    ? std::filesystem::path(home) / ".config"
                                                                      : std::filesystem::path();
  return (folder / "planish" / "planish.toml").string();
}

/// Reads what stands below [tool.planish] of a pyproject.toml as if it stood alone.
class Settings : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::string text{std::istreambuf_iterator<char>(input), {}};
    std::istringstream alone(text);
    if (text.find("tool.planish") == std::string::npos) return CLI::ConfigTOML::from_config(alone);
    const toml::parse_result parsed = toml::parse(text);
    if (!parsed) {
      const auto& error = parsed.error();
      throw CLI::ConfigError("pyproject.toml is not TOML at line " + std::to_string(error.source().begin.line) + ": " +
                             std::string(error.description()));
    }
    const toml::table* ours = parsed.table().at_path("tool.planish").as_table();
    std::ostringstream below;
    if (ours != nullptr) below << *ours << "\n";
    std::istringstream settings(below.str());
    return CLI::ConfigTOML::from_config(settings);
  }
};

}  // namespace

void add_settings(CLI::App& app, const std::vector<std::string>& words) {
  const bool none = std::ranges::find(words, no_config) != words.end();
  app.config_formatter(std::make_shared<Settings>());
  app.set_config("--config", none ? no_file : settings_file(), "Settings, by verb")->type_name("FILE");
  app.add_flag(no_config)->description("Look for no file of settings");
}

std::string settings_read(const CLI::App& app) {
  std::string file = app["--config"]->as<std::string>();
  return file == no_file ? std::string() : file;
}

}  // namespace planish::cli
