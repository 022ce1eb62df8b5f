#pragma once

#include <string>
#include <string_view>

namespace planish::llm {

struct SchemaAnswer {
  std::string json;     ///< compact, or empty
  std::string problem;  ///< what is wrong, for the model's next turn
};

/// The JSON of an answer, checked against a schema: `type`, `enum`, `const`, `properties`, `required`,
/// `additionalProperties`, `items`, `minItems`, `maxItems`, `minLength`, `maxLength`, `minimum`, `maximum`, `anyOf`.
/// Other words of the schema are not checked. A fence of Markdown around it and words before and after are forgiven:
/// servers promise schemas, and do not keep to them.
SchemaAnswer read_schema_answer(std::string_view text, std::string_view schema);

}  // namespace planish::llm
