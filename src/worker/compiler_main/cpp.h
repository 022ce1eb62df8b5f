#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "worker/kernel_compiler.h"
#include "worker/messages.h"

namespace planish::worker {

/// The system's C++ compiler: PLANISH_CXX, else g++. Sources are anybody's: it reads them in a guest's place
/// (docs/sandbox.md), which the native runner makes.
class CppCompiler {
 public:
  /// `no_compiler` where it does not run.
  static Result<CppCompiler> find();
  /// Its version line, part of the cache key.
  const std::string& version() const { return version_; }
  /// A shared object. `compile_error` carries its lines; `compile_timeout` past the job's limit.
  Result<Compiled> compile(const CompileJob& job) const;

 private:
  std::string program_, version_;
  std::filesystem::path runner_;       ///< planish-runner
  std::vector<std::string> readable_;  ///< what it is made of: all that it may read
};

}  // namespace planish::worker
