#pragma once

#include <string>
#include <vector>

/// What a guest, and whoever captures the task that guests are to run, may know of the environment they are started in.
namespace planish::runner {

/// `NAME=value` of every variable that compilers, PyTorch and the CUDA driver are known to read, and of no other;
/// names that speak of secrets are left out whatever they begin with. Temporary files and caches are pointed at
/// `scratch`, unless they lie in one of the folders `writable`.
std::vector<std::string> guest_environment(char** environment, const std::string& scratch,
                                           const std::vector<std::string>& writable);

/// The same for the process that captures a task: a variable that it reads (a size, say) would be absent where the task
/// is run and timed, in guests. Caches stay where they are, and it may know what downloads need.
std::vector<std::string> capture_environment(char** environment);

}  // namespace planish::runner
