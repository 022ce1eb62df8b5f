#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "llm/config.h"

namespace planish::llm {

/// What a server takes. Begins with what the configuration says or the wire promises, and learns from refusals.
struct Capabilities {
  Structured structured = Structured::schema;  ///< never `automatic`
  bool tools = true;
  bool stream = true;
  bool stream_usage = true;  ///< stream_options.include_usage
  bool temperature = true;
  bool effort = true;
  bool cache_marks = true;         ///< cache_control on blocks
  bool completion_tokens = false;  ///< max_completion_tokens in place of max_tokens
  friend bool operator==(const Capabilities&, const Capabilities&) = default;
};
Capabilities expected_capabilities(const ModelConfig& config);

/// What to change after a 400 or 422 with this body, where it names a parameter that can be left out or be replaced;
/// nothing where it is about something else.
std::optional<Capabilities> learned(const Capabilities& now, const ModelConfig& config, std::string_view body);

}  // namespace planish::llm
