#include "cli/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "base/json.h"
#include "base/terminal.h"
#include "base/workflow_commands.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "session/result_document.h"
#include "suite/checks.h"
#include "worker/printable.h"

namespace planish::cli {
using namespace session;

namespace {

/// A traceback is for whoever debugs the task, with --verbose; it always spans lines, a reason never does.
bool is_trace(const std::string& cause) {
  return cause.find('\n') != std::string::npos;
}

void print_file(FILE* file, const std::string& text) {
  end_live_lines();
  std::fwrite(text.data(), 1, text.size(), file);
  if (text.empty() || text.back() != '\n') std::fputc('\n', file);
  std::fflush(file);
}

/// The text as the runner of a workflow shows it and carries nothing of it out: names and messages may be anybody's.
/// The word that ends it is drawn when all of the text is known.
std::string only_shown(const std::string& text) {
  if (text.empty()) return {};
  std::random_device entropy;
  const std::string word = fmt::format("planish-{:08x}{:08x}{:08x}{:08x}", entropy(), entropy(), entropy(), entropy());
  return fmt::format("::stop-commands::{}\n{}{}::{}::\n", word, text, text.back() == '\n' ? "" : "\n", word);
}

/// On stderr. Between the two streams no order holds, so that words around the text would not do.
void print_said(const Output& output, const std::string& text) {
  print_file(stderr, output.format == "github" ? without_workflow_commands(text) : text);
}

}  // namespace

std::string error_json(const Error& error, bool with_traces) {
  Json causes = Json::array();
  for (const std::string& cause : error.causes) {
    if (with_traces || !is_trace(cause)) causes.push_back(cause);
  }
  Json out = {{"schema_version", ResultDocument::schema_version},
              {"error", {{"kind", error.kind}, {"message", error.message}, {"hint", error.hint}, {"causes", causes}}}};
  return dump_json(out);
}

int Output::error(const Error& error) const {
  if (said != nullptr) {
    said->error = error;
    return exit_code_for(error.kind);
  }
  if (json) print_file(stdout, error_json(error, verbose));
  if (format != "text") {
    const auto row = suite::failed_row("planish", std::string(error.kind.name()), error.message, error.hint);
    result({row}, "planish", {}, {});
  }
  const auto paragraph = [](Style style, const char* head, const std::string& body) {
    return fmt::format("{} {}\n", styled(style, head), worker::printable(body));
  };
  std::string text = paragraph(Style::error, "error:", error.message);
  for (const std::string& cause : error.causes) {
    if (verbose || !is_trace(cause)) text += paragraph(Style::plain, "caused by:", cause);
  }
  std::string hint = error.hint;
  const int code = exit_code_for(error.kind);
  if (hint.empty() && code == exit_code::environment) hint = "planish doctor says what was found and what is missing";
  if (!hint.empty()) text += paragraph(Style::hint, "hint:", hint);
  print_said(*this, text);
  return code;
}

void Output::result(const std::string& document, const std::string& text) const {
  if (said != nullptr) {
    said->document = document;
    said->text = text;
    return;
  }
  // Stores, folders and their names may be anybody's.
  print_file(stdout, json ? document : worker::printable(text));
}

void Output::result(const std::vector<suite::Row>& rows, const char* verb, const std::string& document,
                    const std::string& text) const {
  const std::string suite = std::string("planish.") + verb;
  if (format == "junit")
    print_file(stdout, suite::junit_xml(rows, suite));
  else if (format == "github")
    print_file(stdout, only_shown(worker::printable(text)) + worker::printable(suite::github_annotations(rows)));
  else
    result(document, text);
}

void Output::say(const std::string& line) const {
  if (said == nullptr && !json && !quiet) print_said(*this, worker::printable(line));
}

void Output::next(std::vector<std::string> words) const {
  const bool of_stdin = std::ranges::find(words, "-") != words.end();  // what came there cannot be given again
  words.insert(words.begin(), "planish");
  if (said != nullptr || json || quiet || of_stdin) return;
  print_said(*this, styled(Style::hint, "next:") + " " + worker::printable(command_line(words)));
}

}  // namespace planish::cli
