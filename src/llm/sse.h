#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace planish::llm {

struct ServerEvent {
  std::string event;  ///< empty where the server names none
  std::string data;   ///< its lines joined by newlines
};

/// Takes server-sent events apart as their bytes arrive, whatever they are cut into. Comments and fields that nobody
/// needs are dropped.
class EventReader {
 public:
  /// The events that these bytes complete.
  std::vector<ServerEvent> feed(std::string_view bytes);

 private:
  void line(std::string_view text, std::vector<ServerEvent>& out);
  std::string rest_;  // the line that is not complete yet
  bool after_cr_ = false;
  ServerEvent event_;
  bool has_data_ = false;
};

}  // namespace planish::llm
