#include "base/json.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace planish {

Result<Json> parse_json(std::string_view text, ErrorKind kind, std::string_view what) {
  // The library recurses a level a bracket: a hostile message of brackets alone would overflow the stack.
  constexpr int max_depth = 200;
  int depth = 0;
  bool in_string = false, escaped = false;
  for (char c : text) {
    if (in_string) {
      if (escaped) {
        escaped = false;
      } else if (c == '\\') {
        escaped = true;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_depth) return fail(kind, fmt::format("{}: nested deeper than {} levels", what, max_depth));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    return fail(kind, fmt::format("{}: not JSON at byte {}: {}", what, error.byte, error.what()));
  } catch (const std::exception& error) {
    return fail(kind, fmt::format("{}: not JSON: {}", what, error.what()));
  }
}

Json json_or_discarded(std::string_view text) {
  return Json::parse(text, nullptr, false);
}

std::string dump_json(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ObjectReader::ObjectReader(const Json& object, ErrorKind kind, std::string where)
    : object_(object), kind_(kind), where_(std::move(where)) {
  if (!object_.is_object()) problem("must be an object");
}

void ObjectReader::problem(std::string message) {
  if (problem_.empty()) problem_ = where_ + ": " + std::move(message);
}

const Json* ObjectReader::find(const char* field, Need need) {
  known_.emplace_back(field);
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(field);
  if (found == object_.end()) {
    if (need == Need::required) problem(fmt::format("field `{}` is missing", field));
    return nullptr;
  }
  return &*found;
}

void ObjectReader::text(const char* field, std::string& out, Need need) {
  const Json* json = find(field, need);
  if (json == nullptr) return;
  if (!json->is_string()) return problem(fmt::format("field `{}` must be a string", field));
  out = json->get_ref<const std::string&>();
}

void ObjectReader::integer(const char* field, std::int64_t& out, Need need) {
  const Json* json = find(field, need);
  if (json == nullptr) return;
  const bool too_large =
      json->is_number_unsigned() &&
      json->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!json->is_number_integer() || too_large) return problem(fmt::format("field `{}` must be an integer", field));
  out = json->get<std::int64_t>();
}

void ObjectReader::integer(const char* field, int& out, Need need) {
  std::int64_t wide = out;
  integer(field, wide, need);
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
    return problem(fmt::format("field `{}` is out of range", field));
  }
  out = static_cast<int>(wide);
}

namespace {

bool number_of(const Json& json, double& out) {
  if (json.is_number()) {
    out = json.get<double>();
    return true;
  }
  if (json.is_null()) {
    out = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (!json.is_string()) return false;
  std::string word = json.get<std::string>();
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (word == "nan") {
    out = std::numeric_limits<double>::quiet_NaN();
  } else if (word == "inf" || word == "infinity") {
    out = std::numeric_limits<double>::infinity();
  } else if (word == "-inf" || word == "-infinity") {
    out = -std::numeric_limits<double>::infinity();
  } else {
    return false;
  }
  return true;
}

}  // namespace

void ObjectReader::number(const char* field, double& out, Need need) {
  const Json* json = find(field, need);
  if (json != nullptr && !number_of(*json, out)) problem(fmt::format("field `{}` must be a number", field));
}

void ObjectReader::boolean(const char* field, bool& out, Need need) {
  const Json* json = find(field, need);
  if (json == nullptr) return;
  if (!json->is_boolean()) return problem(fmt::format("field `{}` must be true or false", field));
  out = json->get<bool>();
}

void ObjectReader::integers(const char* field, std::vector<std::int64_t>& out, Need need) {
  const Json* json = array(field, need);
  if (json == nullptr) return;
  std::vector<std::int64_t> values;
  for (const Json& item : *json) {
    if (!item.is_number_integer()) return problem(fmt::format("field `{}` must hold integers", field));
    values.push_back(item.get<std::int64_t>());
  }
  out = std::move(values);
}

void ObjectReader::numbers(const char* field, std::vector<double>& out, Need need) {
  const Json* json = array(field, need);
  if (json == nullptr) return;
  std::vector<double> values;
  for (const Json& item : *json) {
    double value = 0;
    if (!number_of(item, value)) return problem(fmt::format("field `{}` must hold numbers", field));
    values.push_back(value);
  }
  out = std::move(values);
}

void ObjectReader::texts(const char* field, std::vector<std::string>& out, Need need) {
  const Json* json = array(field, need);
  if (json == nullptr) return;
  std::vector<std::string> values;
  for (const Json& item : *json) {
    if (!item.is_string()) return problem(fmt::format("field `{}` must hold strings", field));
    values.push_back(item.get<std::string>());
  }
  out = std::move(values);
}

const Json* ObjectReader::get(const char* field, Need need) {
  return find(field, need);
}

const Json* ObjectReader::object(const char* field, Need need) {
  const Json* json = find(field, need);
  if (json == nullptr || json->is_object()) return json;
  problem(fmt::format("field `{}` must be an object", field));
  return nullptr;
}

const Json* ObjectReader::array(const char* field, Need need) {
  const Json* json = find(field, need);
  if (json == nullptr || json->is_array()) return json;
  problem(fmt::format("field `{}` must be a list", field));
  return nullptr;
}

Status ObjectReader::finish() const {
  if (!problem_.empty()) return fail(kind_, problem_);
  if (!lenient_) {
    for (const auto& [field, value] : object_.items()) {
      if (std::ranges::find(known_, field) == known_.end()) {
        return fail(kind_, fmt::format("{}: unknown field `{}`", where_, field));
      }
    }
  }
  return {};
}

void to_json(Json& json, const ErrorKind& kind) {
  json = std::string(kind.name());
}

Error error_in(const Json& json) {
  const auto text = [&json](const char* field) {
    const auto found = json.is_object() ? json.find(field) : json.end();
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  Error out;
  out.message = text("message");
  out.hint = text("hint");
  out.about = text("about");
  const std::string name = text("kind");
  if (const auto kind = ErrorKind::named(name)) {
    out.kind = *kind;
  } else if (!name.empty()) {
    out.message = fmt::format("{}: {}", name, out.message);
  }
  if (const auto causes = json.is_object() ? json.find("causes") : json.end();
      causes != json.end() && causes->is_array()) {
    for (const Json& cause : *causes) {
      if (cause.is_string()) out.causes.push_back(cause.get<std::string>());
    }
  }
  return out;
}

Json number_to_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

}  // namespace planish
