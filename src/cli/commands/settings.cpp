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
#include "base/settings_table.h"

namespace planish::cli {
namespace {

constexpr const char* no_config = "--no-config";
/// In the current folder.
constexpr const char* of_folder = "planish.toml";
constexpr const char* of_project = "pyproject.toml";
/// The file that the library reads where none is wanted: with an empty default, --config would take no value.
constexpr const char* no_file = "/dev/null";

/// The user's own.
std::filesystem::path user_file() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder = config != nullptr && *config != '\0' ? std::filesystem::path(config)
                                 : home != nullptr                    ? std::filesystem::path(home) / ".config"
                                                                      : std::filesystem::path();
  return folder / "planish" / "planish.toml";
}

/// `problem`: why a pyproject.toml was passed over.
std::string settings_file(std::string& problem) {
  std::error_code ignored;
  if (std::filesystem::exists(of_folder, ignored)) return of_folder;
  if (std::filesystem::is_regular_file(of_project, ignored)) {
    const auto text = read_file(of_project);
    const auto settings = text ? settings_table(*text, of_project) : std::unexpected(text.error());
    if (!settings)
      problem = settings.error().message + "; settings in it are not read";
    else if (settings->of_tool)
      return of_project;
  }
  return user_file().string();
}

/// As sections, which is the one form that the library reads.
void write_sections(toml::table& table) {
  for (auto&& [name, node] : table) {
    if (toml::table* inner = node.as_table()) {
      inner->is_inline(false);
      write_sections(*inner);
    }
  }
}

/// Reads what stands below [tool.planish] as if it stood alone.
class Settings : public CLI::ConfigTOML {
 public:
  explicit Settings(const CLI::App& app) : app_(app) {}
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::string text{std::istreambuf_iterator<char>(input), {}};
    const std::string file = app_["--config"]->as<std::string>();
    auto settings = settings_table(text, file);
    // In a file of ours the library takes more than TOML (`target = cpu`).
    if (!settings && std::filesystem::path(file).filename() == of_project)
      throw CLI::ConfigError(settings.error().message);
    if (settings && settings->of_tool) {
      std::ostringstream below;
      write_sections(settings->table);
      below << settings->table << "\n";
      text = below.str();
    }
    std::istringstream alone(text);
    return CLI::ConfigTOML::from_config(alone);
  }

 private:
  const CLI::App& app_;
};

/// The library counts a file that it found as given.
bool names_file(const std::vector<std::string>& words) {
  return std::ranges::any_of(
      words, [](const std::string& word) { return word == "--config" || word.starts_with("--config="); });
}

}  // namespace

std::string add_settings(CLI::App& app, const std::vector<std::string>& words) {
  const bool none = std::ranges::find(words, no_config) != words.end();
  std::string problem;
  app.config_formatter(std::make_shared<Settings>(app));
  app.set_config("--config", none ? no_file : settings_file(problem), "Settings, by verb")->type_name("FILE");
  app.add_flag(no_config)->description("Look for no file of settings");
  return problem;
}

llm::ConfigFile settings_read(const CLI::App& app, const std::vector<std::string>& words) {
  const std::string file = app["--config"]->as<std::string>();
  if (file == no_file) return {};
  std::error_code ignored;
  const bool own = std::filesystem::equivalent(file, user_file(), ignored);
  return {file, !names_file(words) && !own && (file == of_folder || file == of_project)};
}

std::vector<std::string> settings_words(const CLI::App& app, const std::vector<std::string>& words) {
  std::error_code ignored;
  if (names_file(words))
    return {"--config=" + std::filesystem::absolute(app["--config"]->as<std::string>(), ignored).string()};
  return app[no_config]->count() > 0 ? std::vector<std::string>{no_config} : std::vector<std::string>{};
}

}  // namespace planish::cli
