#pragma once

#include <optional>

namespace planish::cli {

/// The hidden verb `evaluator`, which other commands start: nothing where argv names another. It is kept out of the
/// option parser, so that --help stays what users need.
std::optional<int> run_evaluator_verb(int argc, char** argv);

}  // namespace planish::cli
