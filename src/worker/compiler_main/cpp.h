#pragma once

#include <string>

#include "base/result.h"
#include "worker/compiler_main/nvrtc.h"
#include "worker/messages.h"

namespace planish::worker {

/// The system's C++ compiler: PLANISH_CXX, else g++.
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
};

}  // namespace planish::worker
