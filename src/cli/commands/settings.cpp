#include "cli/commands/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <istream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

#include "base/file.h"
#include "base/settings_table.h"
#include "base/suggest.h"

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
    auto settings = settings_table(text, app_["--config"]->as<std::string>());
    if (!settings) return {};  // check_settings() says so: help and mistakes of the command line go before
    if (settings->of_tool) {
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

/// Files that the library would wait for, or read without an end.
bool is_no_file(const std::string& path) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  using Type = std::filesystem::file_type;
  return path != no_file && kind != Type::regular && kind != Type::directory && kind != Type::not_found;
}

/// The file behind --config; empty where none is named.
std::string named_file(const std::vector<std::string>& words) {
  constexpr std::string_view option = "--config";
  for (auto word = words.rbegin(); word != words.rend(); ++word) {
    if (word->starts_with(option) && word->size() > option.size() && (*word)[option.size()] == '=')
      return word->substr(option.size() + 1);
    if (*word == option && word != words.rbegin()) return *std::prev(word);
  }
  return {};
}

/// The library counts a file that it found as given.
bool names_file(const std::vector<std::string>& words) {
  return std::ranges::any_of(
      words, [](const std::string& word) { return word == "--config" || word.starts_with("--config="); });
}

/// The verb or action of that name.
const CLI::App* below(const CLI::App& app, const std::string& name) {
  const auto all = app.get_subcommands({});
  const auto found = std::ranges::find_if(all, [&](const CLI::App* each) { return each->get_name() == name; });
  return found == all.end() ? nullptr : *found;
}

/// Where `table` has what `app`, a verb or one of its actions, does not take. `path`: the verb's name, with its
/// action's.
void misspelt(const CLI::App& app, const toml::table& table, const std::string& path, std::vector<std::string>& found) {
  std::vector<std::string> options;
  for (const CLI::Option* option : app.get_options())
    std::ranges::copy(option->get_lnames(), std::back_inserter(options));
  for (auto&& [key, node] : table) {
    const std::string name(key.str());
    if (const toml::table* inner = node.as_table()) {
      if (const CLI::App* action = below(app, name)) misspelt(*action, *inner, path + "." + name, found);
      continue;
    }
    const bool letter = name.size() == 1 && app.get_option_no_throw("-" + name) != nullptr;
    if (letter || app.get_option_no_throw(name) != nullptr || std::ranges::find(options, name) != options.end())
      continue;
    found.push_back(fmt::format("[{}] has no setting '{}': {}{} --help lists its options", path, name,
                                did_you_mean(name, options), "planish " + path));
  }
}

/// Tables and keys that no verb reads: of a table by itself, where it is none of the tables that models have.
std::vector<std::string> unread(const CLI::App& app, const toml::table& root) {
  constexpr std::array<std::string_view, 4> others = {"model", "embedding", "spending", "tool"};
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
  std::vector<std::string> found;
  for (auto&& [key, node] : root) {
    const std::string name(key.str());
    if (std::ranges::find(others, key.str()) != others.end()) continue;
    const CLI::App* verb = below(app, name);
    if (verb != nullptr && node.is_table()) {
      misspelt(*verb, *node.as_table(), name, found);
    } else if (node.is_table()) {
      found.push_back(
          fmt::format("there is no verb '{}': {}planish --help lists them", name, did_you_mean(name, verbs)));
    } else {
      found.push_back(fmt::format("'{}' stands in no verb's table: write it below one such as [optimize]", name));
    }
  }
  return found;
}

}  // namespace

Result<std::string> add_settings(CLI::App& app, const std::vector<std::string>& words) {
  constexpr const char* what = "is a pipe, a socket or a device, and no file of settings";
  if (const std::string named = named_file(words); is_no_file(named))
    return fail("not_a_file", fmt::format("{} {}", named, what), "write it to a file first");
  const bool none = std::ranges::find(words, no_config) != words.end();
  std::string problem, file = none ? no_file : settings_file(problem);
  if (is_no_file(file)) {
    problem = fmt::format("{} {}; none are read", file, what);
    file = no_file;
  }
  app.config_formatter(std::make_shared<Settings>(app));
  app.set_config("--config", file, "Settings, by verb")->type_name("FILE");
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

Result<std::vector<std::string>> check_settings(const CLI::App& app, const llm::ConfigFile& file) {
  std::error_code ignored;
  if (file.path.empty() || !std::filesystem::is_regular_file(file.path, ignored)) return std::vector<std::string>{};
  PLANISH_TRY(const std::string text, read_file(file.path));
  auto settings = settings_table(text, file.path);
  if (!settings) {
    settings.error().hint += "; --no-config reads no file of settings";
    return std::unexpected(std::move(settings.error()));
  }
  auto found = unread(app, settings->table);
  for (std::string& each : found) each = fmt::format("{}: {}", file.path, each);
  return found;
}

std::vector<std::string> words_of_settings(const CLI::App& app, const std::vector<std::string>& words) {
  std::error_code ignored;
  if (names_file(words))
    return {"--config=" + std::filesystem::absolute(app["--config"]->as<std::string>(), ignored).string()};
  return app[no_config]->count() > 0 ? std::vector<std::string>{no_config} : std::vector<std::string>{};
}

}  // namespace planish::cli
