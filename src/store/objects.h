#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"

namespace planish::store {

/// Content-addressed files: the name is the SHA-256 of the bytes, `<folder>/ab/cdef…`. Files appear whole (temporary
/// file, fsync, rename) or not at all, and never change, so readers need no lock. Thread-safe.
class Objects {
 public:
  /// An empty folder name keeps the objects in memory (for `:memory:` stores).
  explicit Objects(std::filesystem::path folder);

  /// Stores the bytes and gives their name. Error kinds: `disk_full`, `store_unwritable`.
  Result<std::string> put(std::string_view bytes);
  /// Error kinds: `no_such_object`, and `store_corrupt` where the bytes do not hash to their name.
  Result<std::string> get(const std::string& sha256) const;
  bool contains(const std::string& sha256) const;
  /// Where an object lies, or would lie. Empty for a store in memory.
  std::filesystem::path path(const std::string& sha256) const;

 private:
  std::filesystem::path folder_;
  struct Memory {
    std::mutex mutex;
    std::map<std::string, std::string> bytes;
  };
  std::shared_ptr<Memory> memory_;
};

}  // namespace planish::store
