#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "worker/kernel_compiler.h"
#include "worker/messages.h"

namespace planish::worker {

/// NVRTC, loaded with dlopen: from PLANISH_NVRTC (file or folder), a toolkit, pip's wheels under PLANISH_SITE_PACKAGES,
/// or the loader's own path.
class Nvrtc {
 public:
  /// `no_compiler`, with a hint, where there is none.
  static Result<Nvrtc> load();
  /// "nvrtc 13.0", part of the cache key.
  std::string version() const;
  /// A cubin. `compile_error` carries the log.
  Result<Compiled> compile(const CompileJob& job) const;
  const std::string& path() const { return path_; }

 private:
  Nvrtc() = default;
  struct Api;
  std::shared_ptr<const Api> api_;
  std::string path_;
};

/// Reads `ptxas info` lines for one entry into `compiled` and leaves the other lines in its log.
void read_ptxas_report(const std::string& log, const std::string& entry, Compiled& compiled);

}  // namespace planish::worker
