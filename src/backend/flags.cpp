#include "backend/flags.h"

#include <algorithm>
#include <cctype>

namespace planish::backend {

bool is_definition(std::string_view flag) {
  return flag.size() > 2 && flag.starts_with("-D") && std::ranges::all_of(flag.substr(2), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '=' || c == '.' || c == '-' || c == '+';
         });
}

bool is_number_after(std::string_view prefix, std::string_view flag) {
  if (!flag.starts_with(prefix)) return false;
  const std::string_view text = flag.substr(prefix.size());
  return !text.empty() && text.size() <= 4 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace planish::backend
