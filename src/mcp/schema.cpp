#include "mcp/schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/suggest.h"

namespace planish::mcp {
namespace {

using Type = Argument::Type;

const char* words(Type type) {
  switch (type) {
    case Type::text:
      return "a text";
    case Type::integer:
      return "an integer";
    case Type::number:
      return "a number";
    case Type::boolean:
      return "true or false";
    case Type::texts:
      return "a list of texts";
  }
  return "";
}

bool fits(Type type, const Json& value) {
  switch (type) {
    case Type::text:
      return value.is_string();
    case Type::integer:
      return value.is_number_integer();
    case Type::number:
      return value.is_number();
    case Type::boolean:
      return value.is_boolean();
    case Type::texts:
      return value.is_array() && std::ranges::all_of(value, [](const Json& one) { return one.is_string(); });
  }
  return false;
}

Json property(const Argument& argument) {
  Json out = {{"description", argument.description}};
  switch (argument.type) {
    case Type::text:
      out["type"] = "string";
      break;
    case Type::integer:
      out["type"] = "integer";
      break;
    case Type::number:
      out["type"] = "number";
      break;
    case Type::boolean:
      out["type"] = "boolean";
      break;
    case Type::texts:
      out["type"] = "array";
      out["items"] = {{"type", "string"}};
      break;
  }
  if (!argument.choices.empty()) out["enum"] = argument.choices;
  if (argument.least < argument.most) {
    out["minimum"] = argument.least;
    out["maximum"] = argument.most;
  }
  return out;
}

}  // namespace

Json schema_of(const std::vector<Argument>& arguments) {
  Json properties = Json::object(), required = Json::array();
  for (const Argument& argument : arguments) {
    properties[argument.name] = property(argument);
    if (argument.required) required.push_back(argument.name);
  }
  Json out = {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!required.empty()) out["required"] = std::move(required);
  return out;
}

std::string check_arguments(const std::vector<Argument>& arguments, const Json& given) {
  std::vector<std::string> names;
  for (const Argument& argument : arguments) names.push_back(argument.name);
  for (const auto& [name, value] : given.items()) {
    if (std::ranges::find(names, name) == names.end())
      return fmt::format("there is no argument {}; {}it takes {}", name, did_you_mean(name, names),
                         fmt::join(names, ", "));
  }
  for (const Argument& argument : arguments) {
    const auto found = given.find(argument.name);
    if (found == given.end()) {
      if (argument.required) return fmt::format("the argument {} is missing: {}", argument.name, argument.description);
      continue;
    }
    if (!fits(argument.type, *found)) return fmt::format("{} must be {}", argument.name, words(argument.type));
    if (argument.type == Type::text && !argument.choices.empty() &&
        std::ranges::find(argument.choices, found->get<std::string>()) == argument.choices.end())
      return fmt::format("{} must be one of {}", argument.name, fmt::join(argument.choices, ", "));
    if (argument.least < argument.most) {
      const auto value = found->get<double>();
      if (!(value >= argument.least && value <= argument.most))
        return fmt::format("{} must be from {:g} to {:g}", argument.name, argument.least, argument.most);
    }
  }
  return {};
}

}  // namespace planish::mcp
