#pragma once

#include <filesystem>
#include <initializer_list>
#include <string_view>

#include "base/fd.h"
#include "base/file.h"

namespace planish {

/// A temporary folder that is known to be somebody's: the kernel drops its lock when the owner dies, so that what a
/// killed one left can be told from what is in use.
class OwnedFolder {
 public:
  /// As TempDir::create(). A prefix must be used for folders of this kind alone.
  static Result<OwnedFolder> create(std::string_view prefix);
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  OwnedFolder(TempDir folder, UniqueFd lock) : lock_(std::move(lock)), folder_(std::move(folder)) {}
  UniqueFd lock_;  ///< outlives the folder
  TempDir folder_;
};

/// Removes this user's folders that begin with one of these and that nobody owns any more, unless they are younger than
/// so many seconds (one that was just made has no lock yet). Returns how many. What cannot be removed stays. The
/// temporary folder is read once.
int remove_ownerless_folders(std::initializer_list<std::string_view> prefixes, double older_than_seconds);

}  // namespace planish
