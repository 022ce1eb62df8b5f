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

bool cover(const std::string& scratch, const std::string& tmp) {
  return mount((scratch + "/tmp").c_str(), tmp.c_str(), nullptr, MS_BIND, nullptr) == 0;
}

}  // namespace

bool can_own_tmp(const std::string& scratch) {
  const std::string tmp = real("/tmp");
  if (tmp.size() < 2) return false;
  const int tree = copy_of(scratch, harmless);
  if (tree < 0) return false;
  close(tree);
  return cover(scratch, tmp) && umount2(tmp.c_str(), MNT_DETACH) == 0;
}

bool own_tmp(const std::string& scratch, const std::vector<std::string>& writable,
             const std::vector<std::string>& readable) {
  const std::string tmp = real("/tmp");
  std::vector<std::pair<std::string, std::uint64_t>> wanted;
  const auto add = [&](const std::string& path, std::uint64_t attributes) {
    std::string found = real(path);
    if (below(found, tmp)) wanted.emplace_back(std::move(found), attributes);
  };
  for (const std::string& path : readable) add(path, mount_read_only | harmless);
  add(scratch, harmless);
  for (const std::string& path : writable) add(path, harmless);
  // Folders before what lies in them: of two mounts the later one is seen. What may be written comes last.
  std::vector<Kept> all;
  std::set<std::string> there;
  std::ranges::stable_sort(wanted, {}, [](const auto& item) { return item.first.size(); });
  for (const auto& [path, attributes] : wanted) {
    const bool covered = std::ranges::any_of(there, [&](const std::string& other) { return below(path, other); });
    if ((attributes & mount_read_only) != 0 && (covered || there.contains(path))) continue;
    const int tree = copy_of(path, attributes);
    if (tree < 0 && (attributes & mount_read_only) != 0) continue;  // gone since
    if (tree < 0) return false;
    there.insert(path);
    all.push_back({path.substr(tmp.size() + 1), tree});
  }
  if (!cover(scratch, tmp)) return false;
  const int root = open(tmp.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  bool ok = root >= 0;
  for (const Kept& kept : all) {
    ok = ok && put(root, kept);
    close(kept.tree);
  }
  if (root >= 0) close(root);
  return ok;
}

}  // namespace planish::runner
