#include "llm/sse.h"

namespace planish::llm {

void EventReader::line(std::string_view text, std::vector<ServerEvent>& out) {
  if (text.empty()) {
    if (has_data_) out.push_back(std::move(event_));
    event_ = {};
    has_data_ = false;
    return;
  }
  const auto colon = text.find(':');
  const std::string_view field = text.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (field == "event") {
    event_.event = value;
  }
}

std::vector<ServerEvent> EventReader::feed(std::string_view bytes) {
  std::vector<ServerEvent> out;
  for (const char c : bytes) {
    // A line ends with \n, \r or both.
    if (c == '\n' && after_cr_) {
      after_cr_ = false;
      continue;
    }
    after_cr_ = c == '\r';
    if (c == '\n' || c == '\r') {
      line(rest_, out);
      rest_.clear();
    } else {
      rest_ += c;
    }
  }
  return out;
}

}  // namespace planish::llm
