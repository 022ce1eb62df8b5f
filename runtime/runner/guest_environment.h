#pragma once

#include <string>
#include <vector>

/// What a guest may know of the environment it is started in.
namespace planish::runner {

/// `NAME=value` of every variable that compilers, PyTorch and the CUDA driver are known to read, and of no other;
/// names that speak of secrets are left out whatever they begin with. Temporary files and caches are pointed at
/// `scratch`, unless they lie in one of the folders `writable`.
std::vector<std::string> guest_environment(char** environment, const std::string& scratch,
                                           const std::vector<std::string>& writable);

}  // namespace planish::runner
