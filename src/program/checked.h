#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/json.h"
#include "base/result.h"
#include "program/program.h"

namespace planish::program {

/// A program that keeps the rules, with its canonical text and its names: each is found once, and handed on with it.
/// Immutable, thread-safe, cheap to copy.
class Checked {
 public:
  /// Of a program that passed validate(): what composes programs gives no others.
  explicit Checked(Program program);
  /// As parse().
  static Result<Checked> read(std::string_view json);

  const Program& program() const;
  /// Canonical JSON.
  const std::string& text() const;
  /// SHA-256 of the text.
  const std::string& hash() const;
  /// normalised_hash() of it; found when first asked for.
  const std::string& variant() const;

 private:
  struct Held;
  std::shared_ptr<const Held> held_;
};

/// A program as somebody gave it: text that may be anything, or one that was checked already, which nobody reads again.
class Given {
 public:
  Given() = default;
  Given(std::string text) : held_(std::move(text)) {}
  Given(const char* text) : held_(std::string(text)) {}
  Given(Checked checked) : held_(std::move(checked)) {}

  const std::string& text() const;
  /// Error kind `bad_program`.
  Result<Checked> checked() const;
  bool empty() const { return text().empty(); }

 private:
  std::variant<std::string, Checked> held_;
};

/// The document that to_json() is the text of.
Json document(const Program& program);

}  // namespace planish::program
