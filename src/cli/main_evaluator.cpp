#include "cli/main_evaluator.h"

#include <string>
#include <string_view>
#include <vector>

#include "cli/evaluator.h"
#include "cli/station_verb.h"

namespace planish::cli {

std::optional<int> run_evaluator_verb(int argc, char** argv) {
  const std::string_view verb = argc < 2 ? "" : argv[1];
  if (verb != "evaluator" && verb != "station") return std::nullopt;
  const std::vector<std::string> arguments(argv + 2, argv + argc);
  return verb == "evaluator" ? run_evaluator(arguments) : run_station(arguments);
}

}  // namespace planish::cli
