#include "codegen/compose/parameters.h"

#include <algorithm>
#include <utility>

namespace planish::codegen {

std::vector<Parameter> parameters_of(std::string_view list) {
  std::vector<Parameter> out;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(", "), list.size());
    const std::string_view one = list.substr(0, end);
    const std::size_t space = one.rfind(' ');
    if (space == std::string_view::npos) return {};
    std::string type(one.substr(0, space));
    if (const std::size_t at = type.find(" __restrict__"); at != std::string::npos) type.erase(at);
    out.push_back({std::move(type), std::string(one.substr(space + 1))});
    list.remove_prefix(std::min(end + 2, list.size()));
  }
  return out;
}

}  // namespace planish::codegen
