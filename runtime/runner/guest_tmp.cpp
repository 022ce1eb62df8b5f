#include "guest_tmp.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <utility>

#include "mount.h"

namespace planish::runner {
namespace {

constexpr std::uint64_t harmless = mount_no_setuid | mount_no_devices;

/// Of an existing path, without links; empty where there is none.
std::string real(const std::string& path) {
  char* found = realpath(path.c_str(), nullptr);
  std::string out = found != nullptr ? found : "";
  std::free(found);
  return out;
}

bool below(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() + 1 && path.starts_with(folder) && path[folder.size()] == '/';
}

/// A part of the file system that stays: a mount of its own, which is nowhere yet.
struct Kept {
  std::string path;  ///< below the real /tmp, from there
  int tree = -1;
};

int copy_of(const std::string& path, std::uint64_t attributes) {
  const int tree = copy_mount(path.c_str());
  if (tree < 0 || set_mount(tree, "", attributes, 0, true)) return tree;
  close(tree);
  return -1;
}

/// An empty file or folder to mount on, in folders that are made on the way. Follows no link. -1 where it fails.
int make_place(int root, const std::string& path, bool folder) {
  int at = dup(root);
  for (std::size_t begin = 0; at >= 0 && begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    begin = end + 1;
    const bool last = begin >= path.size();
    if (last && !folder) {
      mknodat(at, name.c_str(), S_IFREG | 0600, 0);  // opened never: what lies there may be a pipe
    } else {
      mkdirat(at, name.c_str(), 0700);
    }
    const int next = openat(at, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC | (last && !folder ? 0 : O_DIRECTORY));
    close(at);
    at = next;
  }
  return at;
}

bool put(int root, const Kept& kept) {
  struct stat info{};
  if (fstat(kept.tree, &info) != 0) return false;
  const int place = make_place(root, kept.path, S_ISDIR(info.st_mode));
  const bool done = place >= 0 && put_mount(kept.tree, place);
  if (place >= 0) close(place);
  return done;
}

bool cover(const std::string& own, const std::string& real_folder) {
  return mount(own.c_str(), real_folder.c_str(), nullptr, MS_BIND, nullptr) == 0;
}

/// A folder of the machine's that the guest sees another one in place of.
struct Covered {
  std::string folder, own;
  std::vector<Kept> kept{};
};

std::vector<Covered> covered_folders(const std::string& scratch) {
  std::vector<Covered> out{{real("/tmp"), scratch + "/tmp"}};
  const char* home = std::getenv("HOME");
  const std::string found = home != nullptr && *home == '/' ? real(home) : "";
  // One that is everything, or holds everything, hides nothing; one in /tmp is hidden already.
  const bool inner = found.size() > 1 && found != out[0].folder && !below(found, out[0].folder) &&
                     !below(out[0].folder, found) && !below("/usr/lib", found) && found != "/usr";
  if (inner) out.push_back({found, scratch + "/home"});
  return out;
}

struct Wanted {
  std::string path;
  std::uint64_t attributes;
};

/// Of what is wanted below one folder: mounts of their own, folders before what lies in them. Of two mounts the later
/// one is seen; what may be written comes last.
bool keep_below(Covered* covered, const std::vector<Wanted>& wanted) {
  std::set<std::string> there;
  for (const auto& [path, attributes] : wanted) {
    if (!below(path, covered->folder)) continue;
    const bool in_one = std::ranges::any_of(there, [&](const std::string& other) { return below(path, other); });
    if ((attributes & mount_read_only) != 0 && (in_one || there.contains(path))) continue;
    const int tree = copy_of(path, attributes);
    if (tree < 0 && (attributes & mount_read_only) != 0) continue;  // gone since
    if (tree < 0) return false;
    there.insert(path);
    covered->kept.push_back({path.substr(covered->folder.size() + 1), tree});
  }
  return true;
}

bool put_all(const Covered& covered) {
  if (!cover(covered.own, covered.folder)) return false;
  const int root = open(covered.folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  bool ok = root >= 0;
  for (const Kept& kept : covered.kept) {
    ok = ok && put(root, kept);
    close(kept.tree);
  }
  if (root >= 0) close(root);
  return ok;
}

/// Something empty over it: it can be opened, read and locked by whoever knows its name, and is another file.
bool hide(const std::string& path, const std::string& scratch, const std::vector<std::string>& readable) {
  const std::string found = real(path);
  struct stat info{};
  if (found.size() < 2 || lstat(found.c_str(), &info) != 0) return true;
  const bool folder = S_ISDIR(info.st_mode);
  const auto needs = [&](const std::string& other) { return other == found || below(other, found); };
  if (folder && (needs(real(scratch)) || std::ranges::any_of(readable, needs))) return true;
  const std::string empty = scratch + (folder ? "/no-folder" : "/no-file");
  if (folder) {
    (void)mkdir(empty.c_str(), 0500);
  } else if (const int fd = open(empty.c_str(), O_CREAT | O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0400); fd >= 0) {
    close(fd);
  }
  return cover(empty, found);
}

}  // namespace

bool can_own_tmp(const std::string& scratch) {
  const std::string tmp = real("/tmp");
  if (tmp.size() < 2) return false;
  const int tree = copy_of(scratch, harmless);
  if (tree < 0) return false;
  close(tree);
  return cover(scratch + "/tmp", tmp) && umount2(tmp.c_str(), MNT_DETACH) == 0;
}

bool own_tmp(const std::string& scratch, const std::vector<std::string>& writable,
             const std::vector<std::string>& readable, const std::vector<std::string>& hidden) {
  std::vector<Wanted> wanted;
  for (const std::string& path : readable) wanted.push_back({real(path), mount_read_only | harmless});
  wanted.push_back({real(scratch), harmless});
  for (const std::string& path : writable) wanted.push_back({real(path), harmless});
  std::ranges::stable_sort(wanted, {}, [](const Wanted& item) { return item.path.size(); });
  std::vector<Covered> folders = covered_folders(scratch);
  // All of them before the first is covered: scratch may lie in either.
  for (Covered& covered : folders) {
    if (!keep_below(&covered, wanted)) return false;
  }
  // While the one that scratch lies in is seen as it was, the others' covers can be found.
  std::ranges::stable_sort(folders, {}, [&](const Covered& covered) { return below(scratch, covered.folder); });
  return std::ranges::all_of(folders, put_all) &&
         std::ranges::all_of(hidden, [&](const std::string& path) { return hide(path, scratch, readable); });
}

}  // namespace planish::runner
