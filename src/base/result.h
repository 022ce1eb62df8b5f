#pragma once

#include <expected>
#include <string>
#include <utility>
#include <vector>

#include "base/error_kind.h"

namespace planish {

/// What went wrong, why, and what to do next. A value type; safe to move between threads.
struct Error {
  /// What tests and programs match on, never the text.
  ErrorKind kind = "unknown";
  /// One sentence naming the thing (file, op, buffer) and what is wrong with it.
  std::string message;
  /// Outer-to-inner reasons, printed as `caused by:` lines.
  std::vector<std::string> causes;
  /// The next command or change to try; may be empty.
  std::string hint;
  /// The file that `message` begins with; empty where it names none, or is not known to.
  std::string about = {};
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

/// Builds the unexpected side of a Result.
inline std::unexpected<Error> fail(ErrorKind kind, std::string message, std::string hint = {}) {
  return std::unexpected(Error{kind, std::move(message), {}, std::move(hint)});
}

/// Passes an error on, with one more sentence of context in front: the old message becomes the first cause.
inline std::unexpected<Error> wrap(Error error, std::string message) {
  error.causes.insert(error.causes.begin(), std::move(error.message));
  error.message = std::move(message);
  return std::unexpected(std::move(error));
}

}  // namespace planish

#define PLANISH_CONCAT_INNER(a, b) a##b
#define PLANISH_CONCAT(a, b) PLANISH_CONCAT_INNER(a, b)

/// `PLANISH_TRY(auto x, f());` declares x from a Result, or returns its error.
#define PLANISH_TRY(decl, expr) PLANISH_TRY_INNER(PLANISH_CONCAT(try_result_, __LINE__), decl, expr)
#define PLANISH_TRY_INNER(tmp, decl, expr)                              \
  auto tmp = (expr);                                                    \
  if (!tmp.has_value()) return std::unexpected(std::move(tmp).error()); \
  decl = std::move(tmp).value()

/// `PLANISH_CHECK(f());` returns the error of a Status, if there is one.
#define PLANISH_CHECK(expr)                                      \
  do {                                                           \
    if (auto check_status = (expr); !check_status.has_value()) { \
      return std::unexpected(std::move(check_status).error());   \
    }                                                            \
  } while (false)
