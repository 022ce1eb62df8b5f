#include "llm/json_schema.h"

#include <fmt/format.h>

#include "base/json.h"

namespace planish::llm {
namespace {

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type == "integer")
    return value.is_number_integer() ||
           (value.is_number_float() &&
            value.get<double>() == static_cast<double>(static_cast<std::int64_t>(value.get<double>())));
  return true;
}

/// Empty, or where and what is wrong.
std::string schema_problem(const Json& value, const Json& schema, const std::string& where) {
  if (!schema.is_object()) return {};
  const auto word = [&](const char* name) {
    const auto found = schema.find(name);
    return found == schema.end() ? nullptr : &*found;
  };
  if (const Json* type = word("type")) {
    bool fits = false;
    if (type->is_string()) fits = is_of_type(value, *type);
    if (type->is_array()) {
      for (const Json& one : *type) fits = fits || (one.is_string() && is_of_type(value, one));
    }
    if (!fits) return fmt::format("{} must be of type {}", where, dump_json(*type));
  }
  if (const Json* values = word("enum"); values != nullptr && values->is_array()) {
    bool found = false;
    for (const Json& one : *values) found = found || one == value;
    if (!found) return fmt::format("{} must be one of {}", where, dump_json(*values));
  }
  if (const Json* one = word("const"); one != nullptr && *one != value)
    return fmt::format("{} must be {}", where, dump_json(*one));
  if (const Json* any = word("anyOf"); any != nullptr && any->is_array()) {
    bool fits = any->empty();
    for (const Json& one : *any) fits = fits || schema_problem(value, one, where).empty();
    if (!fits) return where + " fits none of the forms that are allowed";
  }
  const auto bound = [&](const char* name, double actual, bool least) -> std::string {
    const Json* limit = word(name);
    if (limit == nullptr || !limit->is_number()) return {};
    const double number = limit->get<double>();
    if (least ? actual >= number : actual <= number) return {};
    return fmt::format("{} breaks {} {}", where, name, dump_json(*limit));
  };
  std::string problem;
  const auto check_bound = [&](const char* name, double actual, bool least) {
    if (problem.empty()) problem = bound(name, actual, least);
  };
  if (value.is_number()) {
    check_bound("minimum", value.get<double>(), true);
    check_bound("maximum", value.get<double>(), false);
  }
  if (value.is_string()) {
    const auto length = static_cast<double>(value.get_ref<const std::string&>().size());
    check_bound("minLength", length, true);
    check_bound("maxLength", length, false);
  }
  if (value.is_array()) {
    check_bound("minItems", static_cast<double>(value.size()), true);
    check_bound("maxItems", static_cast<double>(value.size()), false);
    if (const Json* items = word("items")) {
      for (std::size_t i = 0; i < value.size() && problem.empty(); ++i)
        problem = schema_problem(value[i], *items, fmt::format("{}[{}]", where, i));
    }
  }
  if (value.is_object()) {
    if (const Json* required = word("required"); required != nullptr && required->is_array()) {
      for (const Json& field : *required) {
        if (field.is_string() && !value.contains(field.get<std::string>()))
          return fmt::format("{} has no field {}", where, dump_json(field));
      }
    }
    const Json* properties = word("properties");
    const Json* others = word("additionalProperties");
    for (const auto& [field, item] : value.items()) {
      if (!problem.empty()) break;
      const std::string place = where + "." + field;
      if (properties != nullptr && properties->is_object() && properties->contains(field)) {
        problem = schema_problem(item, (*properties)[field], place);
      } else if (others != nullptr && others->is_boolean() && !others->get<bool>()) {
        problem = place + " is not a field of the schema";
      } else if (others != nullptr) {
        problem = schema_problem(item, *others, place);
      }
    }
  }
  return problem;
}

/// The part from the first bracket to the last of the same kind.
std::string_view bracketed(std::string_view text) {
  const auto open = text.find_first_of("{[");
  if (open == std::string_view::npos) return text;
  const auto close = text.rfind(text[open] == '{' ? '}' : ']');
  if (close == std::string_view::npos || close < open) return text;
  return text.substr(open, close - open + 1);
}

}  // namespace

SchemaAnswer read_schema_answer(std::string_view text, std::string_view schema_text) {
  const auto schema = parse_json(schema_text, "bad_text", "the schema");
  auto value = parse_json(text, "bad_text", "the answer");
  if (!value) value = parse_json(bracketed(text), "bad_text", "the answer");
  if (!value) return {{}, value.error().message};
  if (schema) {
    if (std::string problem = schema_problem(*value, *schema, "the answer"); !problem.empty()) return {{}, problem};
  }
  return {dump_json(*value), {}};
}

}  // namespace planish::llm
