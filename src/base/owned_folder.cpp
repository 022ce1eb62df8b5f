#include "base/owned_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <system_error>

#include "base/file.h"

namespace planish {
namespace fs = std::filesystem;

namespace {

/// Prefix of folders that nobody owns yet: one stays where its maker is killed then.
constexpr std::string_view unowned_prefix = "planish-new-";
constexpr double an_hour = 3600;

UniqueFd open_folder(const fs::path& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

Result<OwnedFolder> OwnedFolder::create(std::string_view prefix) {
  std::string made = (temporary_root() / (std::string(unowned_prefix) + "XXXXXX")).string();
  if (::mkdtemp(made.data()) == nullptr) return std::unexpected(file_error(errno, "create folder", made));
  OwnedFolder folder(made, open_folder(made));
  if (!folder.lock_ || ::flock(folder.lock_.get(), LOCK_EX | LOCK_NB) != 0)
    return std::unexpected(file_error(errno, "lock folder", made));
  // Under its name it is owned from the first moment on: others that tidy up need not guess by its age.
  const std::string unique = folder.path_.filename().string().substr(unowned_prefix.size());
  const fs::path named = temporary_root() / (std::string(prefix) + unique);
  if (::rename(made.c_str(), named.c_str()) != 0) return std::unexpected(file_error(errno, "create folder", named));
  folder.path_ = named;
  return folder;
}

OwnedFolder::~OwnedFolder() {
  if (!path_.empty()) remove_tree(path_);
}

int remove_ownerless_folders(std::initializer_list<std::string_view> prefixes, double older_than_seconds) {
  int removed = 0;
  std::error_code failed;
  for (fs::directory_iterator at(temporary_root(), failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    const bool unowned = name.starts_with(unowned_prefix);
    if (!unowned && std::ranges::none_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); }))
      continue;
    const UniqueFd lock = open_folder(at->path());
    struct stat info{};
    if (!lock || ::fstat(lock.get(), &info) != 0 || info.st_uid != ::geteuid()) continue;
    if (std::difftime(std::time(nullptr), info.st_mtime) < (unowned ? an_hour : older_than_seconds)) continue;
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    remove_tree(at->path());
    std::error_code ignored;
    if (!fs::exists(at->path(), ignored)) ++removed;
  }
  return removed;
}

}  // namespace planish
