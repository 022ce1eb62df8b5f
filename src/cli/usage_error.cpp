#include "cli/usage_error.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/suggest.h"

namespace planish::cli {
namespace {

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* verb : app.get_subcommands({})) out.push_back(verb->get_name());
  return out;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
  }
  return out;
}

Error of(std::string message, std::string hint) {
  return Error{"usage", std::move(message), {}, std::move(hint)};
}

}  // namespace

Error usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string path = "planish";
  for (const std::string& word : words) {
    const bool option = word.starts_with('-') && word.size() > 1;
    const auto verbs = verbs_of(*at);
    if (!option && !verbs.empty()) {
      if (std::ranges::find(verbs, word) == verbs.end()) {
        const std::string what = at == &app ? "verb" : "action";
        return of(fmt::format("there is no {} '{}'", what, word),
                  fmt::format("{}{} --help lists what there is: {}", did_you_mean(word, verbs), path,
                              fmt::join(verbs, ", ")));
      }
      at = at->get_subcommand(word);
      path += " " + word;
      continue;
    }
    if (!option || word.find_first_of("0123456789.") == 1) continue;  // a negative number is a value
    const std::string name = word.substr(0, word.find('='));
    if (name == "--help" || name == "-h") continue;
    if (at->get_option_no_throw(name) == nullptr) {
      const auto options = options_of(*at);
      return of(fmt::format("{} has no option '{}'", path, name),
                fmt::format("{}{} --help lists its options", did_you_mean(name, options), path));
    }
  }
  if (const auto verbs = verbs_of(*at); !verbs.empty()) {
    return of(at == &app ? "no verb was named" : path + " needs to be told what to do",
              fmt::format("{} --help lists what there is: {}", path, fmt::join(verbs, ", ")));
  }
  return of(error.what(), fmt::format("{} --help says what it takes", path));
}

}  // namespace planish::cli
