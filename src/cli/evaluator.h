#pragma once

#include <string>
#include <vector>

namespace planish::cli {

/// `planish evaluator --socket PATH`, the hidden verb: owns a device's processes, answers on the socket, ends with its
/// last client. `arguments` are those after the verb. Exit code 0, 2 (usage, or nobody came).
int run_evaluator(const std::vector<std::string>& arguments);

}  // namespace planish::cli
