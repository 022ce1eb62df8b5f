#include "cli/document_in.h"

#include <algorithm>

namespace planish::cli {

std::string document_in(const std::string& output) {
  std::string found;
  std::size_t at = 0;
  while (at < output.size()) {
    const std::size_t end = std::min(output.find('\n', at), output.size());
    if (output[at] == '{') found = output.substr(at, end - at);
    at = end + 1;
  }
  return found;
}

}  // namespace planish::cli
