#include "codegen/compose/parameters.h"

#include <algorithm>
#include <utility>
#include <variant>

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

std::set<int> buffers_of(const program::Launch& launch, const program::KernelSource& kernel, bool written) {
  const std::string head = kernel.entry + "(";
  const std::size_t from = kernel.source.rfind(head), to = kernel.source.find(") {", from);
  std::vector<Parameter> parameters;
  if (from != std::string::npos && to != std::string::npos)
    parameters = parameters_of(std::string_view(kernel.source).substr(from + head.size(), to - from - head.size()));
  const bool known = parameters.size() == launch.args.size();
  std::set<int> out;
  for (std::size_t i = 0; i < launch.args.size(); ++i) {
    const auto* const arg = std::get_if<program::BufferArg>(&launch.args[i]);
    if (arg != nullptr && !(written && known && parameters[i].type.starts_with("const "))) out.insert(arg->buffer);
  }
  return out;
}

}  // namespace planish::codegen
