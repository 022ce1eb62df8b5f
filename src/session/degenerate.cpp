#include "session/degenerate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace planish::session {

std::string degenerate_words(const std::vector<std::string>& would_pass) {
  const bool input =
      std::ranges::any_of(would_pass, [](const std::string& name) { return name.starts_with("input "); });
  const bool trivial =
      std::ranges::any_of(would_pass, [](const std::string& name) { return name == "zeros" || name == "constant"; });
  const char* advice = input ? "it gives back what it is given, so there is no work to save; is a part of it switched "
                               "off (a dropout in eval mode)?"
                       : trivial
                           ? "its results hardly depend on its data; give inputs and parameters with which they do"
                           : "on these data less precise results are as good; give inputs as they are in use, or name "
                             "the tolerance that "
                             "you need with --accuracy";
  return fmt::format("the task is degenerate: {} would pass as its output; {}", fmt::join(would_pass, ", "), advice);
}

}  // namespace planish::session
