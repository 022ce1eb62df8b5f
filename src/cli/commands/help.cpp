#include "cli/commands/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "cli/commands/values.h"

namespace planish::cli {
namespace {

constexpr std::size_t width = 100;
constexpr std::size_t indent = 26;

/// `text` behind the name of an option or verb, in a column of its own.
std::string entry(const std::string& name, const std::string& text) {
  std::string out = "  " + name, line;
  if (out.size() + 1 > indent) out += "\n" + std::string(indent, ' ');
  if (out.size() < indent) out.resize(indent, ' ');
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) {
      out += line + "\n" + std::string(indent, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

class Formatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool positional) const override {
    std::string name = make_option_name(option, positional);
    const std::string type = type_of(*option);
    if (!positional && !type.empty()) name += " " + type;
    std::string text = option->get_description();
    if (!option->get_default_str().empty()) text += fmt::format(" [{}]", option->get_default_str());
    if (!option->get_envname().empty()) text += fmt::format(" ({})", option->get_envname());
    return entry(name, text);
  }
  std::string make_subcommand(const CLI::App* verb) const override {
    return entry(verb->get_name(), verb->get_description());
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string out = "\nusage: " + name;
    for (const CLI::Option* option : app->get_options([](const CLI::Option* one) { return one->get_positional(); }))
      out += " " + make_option_usage(option);
    out += app->get_subcommands({}).empty() ? " [options]" : " VERB";
    return out + "\n";
  }
  std::string make_group(std::string heading, bool positional, std::vector<const CLI::Option*> options) const override {
    std::string out = "\n" + heading + ":\n";
    for (const CLI::Option* option : options) out += make_option(option, positional);
    return out;
  }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string out = CLI::Formatter::make_help(app, std::move(name), mode);
    for (std::size_t at = 0; (at = out.find("\n\n\n", at)) != std::string::npos;) out.erase(at, 1);
    return out;
  }
};

}  // namespace

void begin_group(CLI::App* verb, const char* heading) {
  verb->option_defaults()->group(heading);
}

void add_examples(CLI::App* verb, const std::vector<std::pair<std::string, std::string>>& examples) {
  std::size_t longest = 0;
  for (const auto& [line, what] : examples) longest = std::max(longest, line.size());
  std::string out = "Examples:\n";
  for (const auto& [line, what] : examples) out += fmt::format("  {:<{}}  # {}\n", line, longest, what);
  out.pop_back();
  verb->footer(out);
}

CLI::App* add_action(CLI::App* verb, const std::string& name, const std::string& description) {
  return verb->add_subcommand(name, description)->group("Actions")->footer("");
}

void set_formatter(CLI::App& app) {
  auto formatter = std::make_shared<Formatter>();
  formatter->label("Positionals", "Arguments");
  app.formatter(formatter);
}

}  // namespace planish::cli
