#include "ship/embed.h"

#include <fmt/core.h>
#include <zlib.h>

#include <array>

namespace planish::ship {
namespace {

constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t line_bytes = 90;  ///< 120 characters

/// Whether the bytes are UTF-8, by the table of well-formed sequences.
bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0U; };
    const unsigned first = byte(0);
    std::size_t more = 0;
    unsigned low = 0x80, high = 0xBF;
    if (first >= 0x80) {
      if (first >= 0xC2 && first <= 0xDF) {
        more = 1;
      } else if (first >= 0xE0 && first <= 0xEF) {
        more = 2;
        if (first == 0xE0) low = 0xA0;
        if (first == 0xED) high = 0x9F;
      } else if (first >= 0xF0 && first <= 0xF4) {
        more = 3;
        if (first == 0xF0) low = 0x90;
        if (first == 0xF4) high = 0x8F;
      } else {
        return false;
      }
    }
    for (std::size_t k = 1; k <= more; ++k) {
      if (byte(k) < (k == 1 ? low : 0x80U) || byte(k) > (k == 1 ? high : 0xBFU)) return false;
    }
    i += more + 1;
  }
  return true;
}

/// Backslashes, quotes and control characters escaped; line ends kept where `lines`.
std::string escaped(std::string_view text, bool lines) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') {
      out += '\\';
      out += c;
    } else if (c == '\n' && lines) {
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() / 3 * 4 + bytes.size() / line_bytes + 8);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](std::size_t k) { return i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U; };
    const unsigned word = at(0) << 16U | at(1) << 8U | at(2);
    if (i != 0 && i % line_bytes == 0) out += '\n';
    for (unsigned k = 0; k < 4; ++k) {
      const bool padding = i + k > bytes.size();
      out += padding ? '=' : digits[word >> (18U - 6U * k) & 63U];
    }
  }
  return out;
}

Result<std::string> packed(std::string_view bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  const int code = compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                             bytes.size(), Z_BEST_COMPRESSION);
  if (code != Z_OK)
    return fail("out_of_memory", fmt::format("zlib cannot pack {} bytes (code {})", bytes.size(), code));
  out.resize(size);
  return base64(out);
}

Result<std::string> python_text(std::string_view text) {
  if (!is_utf8(text)) return fail("bad_text", "a source is not UTF-8", "save it as UTF-8");
  // Python turns \r\n into \n inside a literal, too.
  const bool controls = text.find_first_of(std::string_view("\r\0\f\v", 4)) != std::string_view::npos;
  for (const std::string_view quote : {R"(""")", "'''"}) {
    const bool ends_badly = !text.empty() && (text.back() == quote.front() || text.back() == '\\');
    if (controls || ends_badly || text.find(quote) != std::string_view::npos) continue;
    return fmt::format("r{0}{1}{0}", quote, text);
  }
  return fmt::format("\"\"\"{}\"\"\"", escaped(text, true));
}

std::string python_string(std::string_view text) {
  return '"' + escaped(text, false) + '"';
}

}  // namespace planish::ship
