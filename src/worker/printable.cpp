#include "worker/printable.h"

#include <fmt/core.h>

namespace planish::worker {
namespace {

/// Bytes of the UTF-8 character at the start of `text`; 0 where there is none, which halves of surrogate pairs and
/// forms longer than needed are not.
std::size_t character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t size = first < 0x80 ? 1 : first >= 0xF0 && first < 0xF5 ? 4 : first >= 0xE0 ? 3 : 2;
  if ((first >= 0x80 && first < 0xC2) || first >= 0xF5 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80) return 0;
  }
  if (size < 3) return size;
  const auto second = static_cast<unsigned char>(text[1]);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0)) return 0;
  if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90)) return 0;
  return size;
}

bool controls(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F;
  // U+0080 to U+009F, and the marks that reverse the direction of text (U+202A to U+202E, U+2066 to U+2069).
  if (character.size() == 2) return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
  if (character.size() != 3 || first != 0xE2) return false;
  const auto second = static_cast<unsigned char>(character[1]), third = static_cast<unsigned char>(character[2]);
  return (second == 0x80 && third >= 0xAA && third <= 0xAE) || (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = text.starts_with("\r\n") ? 2 : character(text);
    if (size == 2 && text[0] == '\r') {  // how some systems end lines
      out += "\r\n";
      text.remove_prefix(size);
      continue;
    }
    if (size > 0 && !controls(text.substr(0, size))) {
      out.append(text.substr(0, size));
      text.remove_prefix(size);
      continue;
    }
    for (std::size_t i = 0; i < (size > 0 ? size : 1); ++i)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    text.remove_prefix(size > 0 ? size : 1);
  }
  return out;
}

}  // namespace planish::worker
