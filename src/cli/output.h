#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "suite/row.h"

namespace planish::cli {

/// What a verb had to say, where it is not run for a terminal.
struct Said {
  std::string document, text;
  std::optional<Error> error;
};

/// How a command speaks: results on stdout, everything else on stderr.
struct Output {
  bool json = false;            ///< one document on stdout, errors included
  std::string format = "text";  ///< of verbs that judge: text, or what continuous integration reads: junit | github
  bool quiet = false;           ///< no progress
  bool verbose = false;         ///< tracebacks of the Python side
  Said* said = nullptr;         ///< where all of it goes instead; borrowed

  /// Prints `error:`, `caused by:`, `hint:` (or the error document) and gives the exit code of the kind.
  int error(const Error& error) const;
  /// The document with --json, else the text.
  void result(const std::string& document, const std::string& text) const;
  /// Results of a verb that judges, whose rows other forms are made of. `verb` names the test suite.
  void result(const std::vector<suite::Row>& rows, const char* verb, const std::string& document,
              const std::string& text) const;
  /// A line for people, on stderr. Not with --json or --quiet.
  void say(const std::string& line) const;
  /// After a result: the command that people type next, by its words, the first of which is the verb.
  void next(std::vector<std::string> words) const;
};

/// The error as `{"schema_version", "error": {"kind", "message", "causes", "hint"}}`.
std::string error_json(const Error& error, bool with_traces);

}  // namespace planish::cli
