#include "base/owned_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <string>
#include <system_error>

namespace planish {
namespace fs = std::filesystem;

namespace {

UniqueFd open_folder(const fs::path& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

Result<OwnedFolder> OwnedFolder::create(std::string_view prefix) {
  PLANISH_TRY(auto folder, TempDir::create(prefix));
  UniqueFd lock = open_folder(folder.path());
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return std::unexpected(file_error(errno, "lock folder", folder.path()));
  return OwnedFolder(std::move(folder), std::move(lock));
}

int remove_ownerless_folders(std::initializer_list<std::string_view> prefixes, double older_than_seconds) {
  int removed = 0;
  std::error_code failed;
  for (fs::directory_iterator at(temporary_root(), failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (std::ranges::none_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); })) continue;
    const UniqueFd lock = open_folder(at->path());
    struct stat info{};
    if (!lock || ::fstat(lock.get(), &info) != 0 || info.st_uid != ::geteuid()) continue;
    if (std::difftime(std::time(nullptr), info.st_mtime) < older_than_seconds) continue;
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    remove_tree(at->path());
    std::error_code ignored;
    if (!fs::exists(at->path(), ignored)) ++removed;
  }
  return removed;
}

}  // namespace planish
