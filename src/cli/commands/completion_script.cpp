#include "cli/commands/completion_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "cli/commands/values.h"

namespace planish::cli {
namespace {

/// A verb with the verbs above it ("cache size"; empty: the program), and what can stand behind it.
struct Place {
  std::string path;
  const CLI::App* app = nullptr;
};

std::vector<Place> places_of(const CLI::App& app) {
  std::vector<Place> out{{"", &app}};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Place above = out[i];  // not a reference: the vector grows
    for (const CLI::App* verb : above.app->get_subcommands({}))
      out.push_back({above.path.empty() ? verb->get_name() : above.path + " " + verb->get_name(), verb});
  }
  return out;
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> out;
  for (const std::string& name : option.get_lnames()) out.push_back("--" + name);
  for (const std::string& name : option.get_snames()) out.push_back("-" + name);
  return out;
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* verb : app.get_subcommands({})) out.push_back(verb->get_name());
  return out;
}

/// Words that the option takes, where they are known; a run's id is completed with the newest.
std::vector<std::string> words_of(const CLI::Option& option) {
  if (type_of(option).starts_with("RUN")) return {"latest"};  // or RUN_OR_FOLDER
  return choices_of(option);
}

/// zsh reads the same through its bashcompinit.
std::string bash(const CLI::App& app) {
  std::string verbs, words, options;
  for (const Place& place : places_of(app)) {
    std::vector<std::string> all;
    std::string positional;
    if (!place.path.empty()) verbs += fmt::format("      \"{}\") path=\"$try\" ;;\n", place.path);
    for (const CLI::Option* option : place.app->get_options()) {
      const auto names = names_of(*option);
      all.insert(all.end(), names.begin(), names.end());
      const auto known = words_of(*option);
      if (known.empty()) continue;
      if (option->get_positional()) positional += fmt::format(" {}", fmt::join(known, " "));
      for (const std::string& name : names)
        words += fmt::format("    \"{}:{}\") words=\"{}\" ;;\n", place.path, name, fmt::join(known, " "));
    }
    options += fmt::format("    \"{}\") options=\"{}\"; plain=\"{}{}\" ;;\n", place.path, fmt::join(all, " "),
                           fmt::join(names_of(*place.app), " "), positional);
  }
  return fmt::format(R"(_planish() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" path="" try words="" options="" plain="" i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    try="${{path:+$path }}${{COMP_WORDS[i]}}"
    case "$try" in
{}    esac
  done
  case "$path:$before" in
{}  esac
  case "$path" in
{}  esac
  if [ -n "$words" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  elif [[ "$cur" == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  else
    COMPREPLY=($(compgen -W "$plain" -- "$cur"))
    [ -n "$path" ] && COMPREPLY+=($(compgen -f -- "$cur"))
  fi
}}
complete -o filenames -F _planish planish
)",
                     verbs, words, options);
}

std::string fish_text(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string fish(const CLI::App& app) {
  std::string out = "complete -c planish -f -n __fish_use_subcommand\n";
  for (const Place& place : places_of(app)) {
    // The last word of the path stands for it: fish asks which verbs were seen.
    std::string when = place.path.empty() ? "__fish_use_subcommand" : "";
    for (std::size_t at = 0; at < place.path.size();) {
      const std::size_t end = std::min(place.path.find(' ', at), place.path.size());
      when += fmt::format("{}__fish_seen_subcommand_from {}", at == 0 ? "" : "; and ", place.path.substr(at, end - at));
      at = end + 1;
    }
    const std::string line = fmt::format("complete -c planish -n {}", fish_text(when));
    for (const CLI::App* verb : place.app->get_subcommands({}))
      out += fmt::format("{} -f -a {} -d {}\n", line, verb->get_name(), fish_text(verb->get_description()));
    for (const CLI::Option* option : place.app->get_options()) {
      std::string names;
      for (const std::string& name : option->get_lnames()) names += " -l " + name;
      for (const std::string& name : option->get_snames()) names += " -s " + name;
      const auto words = words_of(*option);
      if (names.empty()) {  // an argument by its place
        if (!words.empty())
          out += fmt::format("{} -a {} -d {}\n", line, fish_text(fmt::format("{}", fmt::join(words, " "))),
                             fish_text(option->get_description()));
        continue;
      }
      const std::string takes = option->get_type_size() == 0 ? ""
                                : words.empty()
                                    ? " -r"
                                    : fmt::format(" -x -a {}", fish_text(fmt::format("{}", fmt::join(words, " "))));
      out += fmt::format("{}{}{} -d {}\n", line, names, takes, fish_text(option->get_description()));
    }
  }
  return out;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  if (shell == "fish") return fish(app);
  return (shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" : "") + bash(app);
}

}  // namespace planish::cli
