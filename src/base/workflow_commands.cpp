#include "base/workflow_commands.h"

namespace planish {

std::string without_workflow_commands(std::string_view text) {
  std::string out;
  bool begun = false;  // The runner passes over white space, of which Unicode has a lot.
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    out += c;
    const std::string_view rest = text.substr(i);
    if (!begun && rest.starts_with("::"))
      out += ' ';
    else if (rest.starts_with("##["))
      out += "# ", ++i;
    if (c == '\n' || c == '\r')
      begun = false;
    else if (c > ' ' && c < 0x7f)
      begun = true;
  }
  return out;
}

}  // namespace planish
