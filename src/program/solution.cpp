#include "program/solution.h"

#include "base/json.h"

namespace planish::program {
namespace {

constexpr const char* schema = "planish.solution/1";

}  // namespace

std::string solution_document(std::string_view python) {
  return dump_json({{"schema", schema}, {"python", python}});
}

std::optional<std::string> solution_of(std::string_view document) {
  // Programs are large and parsed by whoever needs one: most are told apart without that.
  if (document.find(schema) == std::string_view::npos) return std::nullopt;
  const Json json = json_or_discarded(document);
  if (!json.is_object() || json.size() != 2 || json.value("schema", Json()) != Json(schema)) return std::nullopt;
  const auto python = json.find("python");
  if (python == json.end() || !python->is_string()) return std::nullopt;
  return python->get<std::string>();
}

}  // namespace planish::program
