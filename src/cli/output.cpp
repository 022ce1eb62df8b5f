#include "cli/output.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/json.h"
#include "base/terminal.h"
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
  print_file(stderr, text);
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
    print_file(stdout, worker::printable(text + suite::github_annotations(rows)));
  else
    result(document, text);
}

void Output::say(const std::string& line) const {
  if (said == nullptr && !json && !quiet) print_file(stderr, worker::printable(line));
}

void Output::next(std::vector<std::string> words) const {
  words.insert(words.begin(), "planish");
  if (said != nullptr || json || quiet) return;
  print_file(stderr, styled(Style::hint, "next:") + " " + worker::printable(command_line(words)));
}

}  // namespace planish::cli
