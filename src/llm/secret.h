#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace planish::llm {

/// A key. Nothing prints it; reveal() is called where a header is made, and nowhere else.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}
  bool empty() const { return value_.empty(); }
  const std::string& reveal() const { return value_; }

 private:
  std::string value_;
};

/// Replaces a secret by "[key]" wherever eight or more of its characters stand together (all of them, where it is
/// shorter): servers echo keys whole, cut short, and with stars in the middle. Thread-safe.
std::string redact(std::string_view text, const Secret& secret);

}  // namespace planish::llm
