#pragma once

#include <string>
#include <vector>

#include "llm/cassette.h"

namespace planish::llm {

/// A request as canonical JSON text.
std::string request_text(const ChatRequest& request);
/// Events and answer of an entry as a JSON object's text, and back. Numbers keep every bit. Kind `cassette_corrupt`.
std::string outcome_text(const std::vector<CallEvent>& events, const Answer& answer);
Result<CassetteReader::Entry> outcome_from_text(std::string_view text);

}  // namespace planish::llm
