#include "llm/wire.h"

#include <fmt/format.h>

namespace planish::llm {

const Wire& wire_of(WireKind kind) {
  return kind == WireKind::openai ? openai_wire() : anthropic_wire();
}

std::string schema_instruction(const OutputSchema& schema) {
  return fmt::format("Answer with one JSON document and nothing else. It must satisfy this JSON schema ({}):\n{}",
                     schema.name, schema.schema);
}

}  // namespace planish::llm
