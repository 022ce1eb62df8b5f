#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "worker/messages.h"

namespace planish::worker {

/// The content-addressed cache of compiled kernels: `kernels/<2 of the key>/<key>.json` says what a compilation gave,
/// `binaries/<sha256>.<ext>` holds its bytes. Any number of processes may read and write it at once: every file appears
/// by rename, and equal keys give equal files.
class KernelCache {
 public:
  explicit KernelCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Over all that decides the bytes. `compiler` names it and its version.
  static std::string key(const CompileJob& job, std::string_view compiler);
  /// A hit whose binary is still there and whole; a broken entry is a miss.
  std::optional<CompileReply> find(const std::string& key) const;
  /// Errors `cache_unwritable`, `disk_full`, with hints. Fills in reply.path and reply.sha256.
  Status store(const std::string& key, std::string_view binary, std::string_view extension, CompileReply& reply) const;
  /// Fails where store() would, before a minute goes into compiling.
  Status check_writable() const;

 private:
  std::filesystem::path meta_path(const std::string& key) const;
  std::filesystem::path folder_;
};

}  // namespace planish::worker
