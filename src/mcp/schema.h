#pragma once

// Include from .cpp files only (base/json.h).
#include <string>
#include <vector>

#include "base/json.h"

namespace planish::mcp {

/// One argument of a tool: its part of the JSON schema, and what is checked of a value before the tool sees it.
struct Argument {
  enum class Type : std::uint8_t { text, integer, number, boolean, texts };
  std::string name;
  Type type = Type::text;
  std::string description;
  bool required = false;
  std::vector<std::string> choices{};  ///< of a text; empty: any
  double least = 0, most = 0;          ///< of a number; equal: any
};

/// `{"type": "object", "properties": …, "required": …, "additionalProperties": false}`
Json schema_of(const std::vector<Argument>& arguments);
/// What is wrong with the arguments of a call, in a sentence that names the argument; empty where nothing is.
std::string check_arguments(const std::vector<Argument>& arguments, const Json& given);

}  // namespace planish::mcp
