#include "llm/secret.h"

#include <algorithm>
#include <set>

namespace planish::llm {

std::string redact(std::string_view text, const Secret& secret) {
  const std::string_view key = secret.reveal();
  if (key.empty()) return std::string(text);
  const std::size_t window = std::min<std::size_t>(8, key.size());
  std::set<std::string_view> pieces;
  for (std::size_t i = 0; i + window <= key.size(); ++i) pieces.insert(key.substr(i, window));
  // Where a piece begins, its characters are the key's; pieces that overlap or touch are one.
  std::string out;
  std::size_t hidden_until = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + window <= text.size() && pieces.contains(text.substr(i, window))) {
      if (i >= hidden_until && (hidden_until == 0 || i > hidden_until || !out.ends_with("[key]"))) out += "[key]";
      hidden_until = i + window;
    }
    if (i >= hidden_until) out += text[i];
  }
  return out;
}

}  // namespace planish::llm
