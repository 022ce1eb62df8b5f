#include "cli/usage_error.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

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

/// The first command that the verb's --help shows; empty where it shows none.
std::string example_of(const CLI::App& verb) {
  const std::string footer = verb.get_footer();
  const std::size_t at = footer.find("  planish ");
  if (at == std::string::npos) return {};
  const std::size_t end = footer.find_first_of("#\n", at);
  std::string line = footer.substr(at + 2, end == std::string::npos ? end : end - at - 2);
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

/// The operand that the verb needs and nobody named, in the words of its --help.
std::optional<Error> missing_operand(const CLI::App& verb, const std::string& path) {
  const auto operands = verb.get_options([](const CLI::Option* one) { return one->get_positional(); });
  const auto missing =
      std::ranges::find_if(operands, [](const CLI::Option* one) { return one->get_required() && one->count() == 0; });
  if (missing == operands.end()) return std::nullopt;
  std::string what = (*missing)->get_description();
  if (!what.empty()) what = fmt::format(": {}{}", static_cast<char>(std::tolower(what.front())), what.substr(1));
  const std::string example = example_of(verb);
  return of(fmt::format("no {} was named{}", (*missing)->get_name(), what),
            fmt::format("{}{} --help says what it takes",
                        example.empty() ? "" : fmt::format("for example {}; ", example), path));
}

/// The option that stands last, without the value that it takes.
Error missing_value(const CLI::Option& option, const std::string& name, const std::string& path) {
  std::string what = option.get_description();
  if (!what.empty()) what = fmt::format(": {}{}", static_cast<char>(std::tolower(what.front())), what.substr(1));
  return of(fmt::format("{} needs a value{}", name, what), fmt::format("{} --help says what it takes", path));
}

}  // namespace

Error usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string path = "planish";
  bool value = false;  // of the option before it
  const CLI::Option* last = nullptr;
  for (const std::string& word : words) {
    if (std::exchange(value, false)) continue;
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
    const CLI::Option* known = last = at->get_option_no_throw(name);
    // One of several values, or of none, may as well be an operand.
    value = known != nullptr && known->get_items_expected_min() == 1 && known->get_items_expected_max() == 1 &&
            name.size() == word.size();
    if (known == nullptr) {
      const auto options = options_of(*at);
      return of(fmt::format("{} has no option '{}'", path, name),
                fmt::format("{}{} --help lists its options", did_you_mean(name, options), path));
    }
  }
  if (value) return missing_value(*last, words.back(), path);
  if (const auto verbs = verbs_of(*at); !verbs.empty() && dynamic_cast<const CLI::FileError*>(&error) == nullptr) {
    return of(at == &app ? "no verb was named" : path + " needs to be told what to do",
              fmt::format("{} --help lists what there is: {}", path, fmt::join(verbs, ", ")));
  }
  const std::string file = app["--config"]->as<std::string>();
  if (dynamic_cast<const CLI::FileError*>(&error) != nullptr)
    return of(fmt::format("{}: no such file of settings", file), "check the path");
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    if (auto missing = missing_operand(*at, path)) return std::move(*missing);
  }
  const std::string what = error.what();
  std::string hint = fmt::format("{} --help says what it takes", path);
  // "--limit: 'many' is no whole number", where nobody typed --limit.
  const std::string about = what.starts_with("--") ? what.substr(0, what.find(':')) : std::string();
  const auto typed = [&](const std::string& word) { return word == about || word.starts_with(about + "="); };
  if (!about.empty() && about.size() < what.size() && std::ranges::none_of(words, typed))
    hint = fmt::format("it stands in {}, or in a variable of the environment (PLANISH_…)", file);
  return of(what, std::move(hint));
}

}  // namespace planish::cli
