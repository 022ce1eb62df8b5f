#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/settings.h"
#include "cli/main_evaluator.h"
#include "cli/usage_error.h"
#include "llm/config.h"
#include "session/version.h"
#include "worker/printable.h"

namespace {

using namespace planish;
using namespace planish::cli;
using planish::session::version;

/// The launcher stands in front of this binary; the name people type is its.
std::string typed(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  words.front() = "planish";
  return command_line(words);
}

/// --json must hold for usage errors too, which come before the options are known.
bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

/// Habits from other tools: `help`, `help VERB` and `version` in place of the options.
std::vector<std::string> with_options(std::vector<std::string> words) {
  if (words.empty()) return words;
  if (words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  } else if (words.size() == 1 && words.front() == "version") {
    words.front() = "--version";
  }
  return words;
}

bool is_verb(const CLI::App& app, const std::string& word) {
  return std::ranges::any_of(app.get_subcommands({}), [&](const CLI::App* verb) { return verb->get_name() == word; });
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of that write (EFBIG), and no reason to die
  if (auto code = run_evaluator_verb(argc, argv)) return *code;

  CLI::App app("Planish takes a PyTorch program and gives back a faster one, with proof.", "planish");
  app.set_version_flag("-V,--version", std::string("planish ") + version);
  Output output;
  const auto passed_over = add_settings(app, {argv + 1, argv + argc});
  if (!passed_over) {
    output.json = wants_json(argc, argv);
    return output.error(passed_over.error());
  }
  app.require_subcommand(1);
  set_formatter(app);
  app.footer(
      "planish VERB --help has options and examples. First steps: planish doctor, then planish optimize TASK.py");

  std::vector<std::unique_ptr<Command>> commands;
  for (const MakeCommand make : all_commands()) commands.push_back(make(app, output));

  std::vector<std::string> words = with_options({argv + 1, argv + argc});
  if (words.empty()) (void)std::fputs((app.help() + "\n").c_str(), stderr);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // as CLI11 takes them
  } catch (const CLI::Success& success) {
    if (words.front().starts_with('-') || is_verb(app, words.front())) return app.exit(success);  // --help, --version
    output.json = wants_json(argc, argv);  // --help behind a word that is no verb is not help for all
    return output.error(usage_error(app, CLI::ExtrasError({words.front()}), words));
  } catch (const CLI::ParseError& error) {
    output.json = wants_json(argc, argv);
    return output.error(usage_error(app, error, words));
  }

  // Before the first child is started: none gets the keys of models.
  const CommandLine line{typed(argc, argv), settings_read(app, words), words_of_settings(app, words)};
  if (line.settings.empty() && !passed_over->empty())
    fmt::print(stderr, "warning: {}\n", worker::printable(*passed_over));
  const auto unread = check_settings(app, line.config);
  if (!unread) {
    output.json = wants_json(argc, argv);
    return output.error(unread.error());
  }
  for (const std::string& setting : *unread) fmt::print(stderr, "warning: {}\n", worker::printable(setting));
  if (const auto models = llm::read_models(line.config.path); models) {
    llm::hide_keys(*models);
  } else {
    output.json = wants_json(argc, argv);
    return output.error(models.error());
  }

  for (const auto& command : commands) {
    if (const auto code = command->run(line, output)) return *code;
  }
  return output.error(Error{"internal", "no verb took the command line", {}, {}});
}
