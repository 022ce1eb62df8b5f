#pragma once

#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/file.h"

namespace planish {

/// A temporary folder that is known to be somebody's: the kernel drops its lock when the owner dies, so that what a
/// killed one left can be told from what is in use.
class OwnedFolder {
 public:
  /// Under temporary_root(), named `<prefix>XXXXXX`. A prefix must be used for folders of this kind alone.
  static Result<OwnedFolder> create(std::string_view prefix);
  OwnedFolder(OwnedFolder&& other) noexcept : lock_(std::move(other.lock_)), path_(std::exchange(other.path_, {})) {}
  OwnedFolder& operator=(OwnedFolder&& other) noexcept {
    std::swap(lock_, other.lock_);
    std::swap(path_, other.path_);
    return *this;
  }
  ~OwnedFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  OwnedFolder(std::filesystem::path path, UniqueFd lock) : lock_(std::move(lock)), path_(std::move(path)) {}
  UniqueFd lock_;
  std::filesystem::path path_;  ///< empty where it was moved from
};

/// Removes this user's folders that begin with one of these and that nobody owns any more, unless they are younger than
/// so many seconds (for folders that others than OwnedFolder make, and lock later; 0 for its own). Returns how many.
/// What cannot be removed stays. The temporary folder is read once.
int remove_ownerless_folders(std::initializer_list<std::string_view> prefixes, double older_than_seconds);

}  // namespace planish
