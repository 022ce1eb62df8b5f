#include "cli/main_evaluator.h"

#include <string>
#include <string_view>
#include <vector>

#include "cli/evaluator.h"

namespace planish::cli {

std::optional<int> run_evaluator_verb(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "evaluator") return std::nullopt;
  return run_evaluator(std::vector<std::string>(argv + 2, argv + argc));
}

}  // namespace planish::cli
