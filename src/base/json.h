#pragma once

// Include from .cpp files only: the library behind it costs seconds a translation unit.
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace planish {

using Json = nlohmann::json;

/// Parses without exceptions. Error `kind`, with the byte offset in the message.
Result<Json> parse_json(std::string_view text, ErrorKind kind, std::string_view what);

/// Text as JSON; a discarded value (is_discarded()) where it is none.
Json json_or_discarded(std::string_view text);

/// Compact text. Invalid UTF-8 (a compiler's log, a child's message) is replaced, never thrown about.
std::string dump_json(const Json& json);

/// Reads a JSON object field by field and remembers the first thing that was wrong, so that a reader is a list of
/// statements with one check at the end. A missing optional field leaves the target as it was. Unknown fields are
/// errors unless `lenient()` was called.
class ObjectReader {
 public:
  /// `where` names the object in messages ("buffers[3]"). The object must outlive the reader.
  ObjectReader(const Json& object, ErrorKind kind, std::string where);

  enum class Need : std::uint8_t { required, optional };
  void text(const char* field, std::string& out, Need need = Need::required);
  void integer(const char* field, std::int64_t& out, Need need = Need::required);
  void integer(const char* field, int& out, Need need = Need::required);
  /// Accepts integers; null and "nan"/"inf"/"-inf" give the value they name (JSON has no word for them).
  void number(const char* field, double& out, Need need = Need::required);
  void boolean(const char* field, bool& out, Need need = Need::required);
  void integers(const char* field, std::vector<std::int64_t>& out, Need need = Need::required);
  void numbers(const char* field, std::vector<double>& out, Need need = Need::required);
  void texts(const char* field, std::vector<std::string>& out, Need need = Need::required);
  /// The raw value, or null; marks the field as known.
  const Json* get(const char* field, Need need = Need::required);
  /// As get(), and it must be an object or array.
  const Json* object(const char* field, Need need = Need::required);
  const Json* array(const char* field, Need need = Need::required);
  /// Allows fields that nobody read.
  void lenient() { lenient_ = true; }
  /// Adds an error of the caller's own.
  void problem(std::string message);
  /// The first error, if any, including unknown fields.
  Status finish() const;
  const std::string& where() const { return where_; }

 private:
  const Json* find(const char* field, Need need);
  const Json& object_;
  ErrorKind kind_;
  std::string where_;
  std::string problem_;
  std::vector<std::string> known_;
  bool lenient_ = false;
};

/// An error's kind as JSON: its name.
void to_json(Json& json, const ErrorKind& kind);
/// The error that a document tells of (kind, message, hint, causes, about; all may be missing). A kind that is none of
/// ours is `unknown`, with its name in front of the message.
Error error_in(const Json& json);

/// A number as JSON: "nan", "inf" and "-inf" as text, because JSON has no such numbers.
Json number_to_json(double value);

}  // namespace planish
