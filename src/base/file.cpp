#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "base/hash.h"

namespace planish {
namespace fs = std::filesystem;

Error file_error(int error_number, std::string_view doing, const fs::path& path) {
  Error error{"io", fmt::format("cannot {} {}: {}", doing, path.string(), std::strerror(error_number)), {}, {}};
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      error.kind = "no_such_file";
      error.hint = "check the path";
      break;
    case EISDIR:
      error.kind = "not_a_file";
      error.hint = "check the path";
      break;
    case EACCES:
    case EPERM:
      error.kind = "permission_denied";
      error.hint = "check the owner and mode of that path, or choose another folder";
      break;
    case EROFS:
      error.kind = "read_only";
      error.hint = "that file system is read-only: choose another folder";
      break;
    case ENOSPC:
    case EDQUOT:
      error.kind = "disk_full";
      error.hint = "free some space, or choose a folder on another disk";
      break;
    case EFBIG:
      error.kind = "disk_full";
      error.hint = "files may not grow as large here: raise the limit (ulimit -f)";
      break;
    default:
      break;
  }
  return error;
}

namespace {

struct OpenFile {
  UniqueFd fd;
  std::uintmax_t size = 0;
};

Result<OpenFile> open_to_read(const fs::path& path, std::uintmax_t most) {
  // A pipe would be waited for, and a device may have no end.
  OpenFile file{UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY))};
  if (!file.fd) return std::unexpected(file_error(errno, "read", path));
  struct stat info{};
  if (::fstat(file.fd.get(), &info) != 0) return std::unexpected(file_error(errno, "read", path));
  if (S_ISDIR(info.st_mode)) return std::unexpected(file_error(EISDIR, "read", path));
  if (!S_ISREG(info.st_mode)) {
    return fail("not_a_file", fmt::format("{} is a pipe, a socket or a device, and no file", path.string()),
                "write it to a file first");
  }
  file.size = static_cast<std::uintmax_t>(info.st_size);
  if (file.size > most)
    return fail("too_large", fmt::format("{} has {} bytes, at most {} are read", path.string(), file.size, most),
                "look at what it holds: nothing of Planish's is as large");
  return file;
}

/// Its bytes, block by block. `too_large` where it grows beyond `most` meanwhile.
template <typename Take>
Status read_blocks(const OpenFile& file, const fs::path& path, std::uintmax_t most, Take&& take) {
  char block[65536];
  std::uintmax_t done = 0;
  while (true) {
    const ssize_t n = ::read(file.fd.get(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::unexpected(file_error(errno, "read", path));
    if (n == 0) return {};
    done += static_cast<std::uintmax_t>(n);
    if (done > most) return fail("too_large", fmt::format("{} grows while it is read", path.string()));
    take(std::string_view(block, static_cast<std::size_t>(n)));
  }
}

}  // namespace

Result<std::string> read_file(const fs::path& path, std::uintmax_t most) {
  PLANISH_TRY(const OpenFile file, open_to_read(path, most));
  std::string bytes;
  try {
    bytes.reserve(file.size + 1);
    PLANISH_CHECK(read_blocks(file, path, most, [&](std::string_view block) { bytes.append(block); }));
  } catch (const std::exception&) {  // a sparse file may claim any size
    return fail("too_large", fmt::format("{} has {} bytes, for which there is no memory", path.string(), file.size));
  }
  return bytes;
}

Result<std::string> digest_of_file(const fs::path& path, std::uintmax_t most) {
  PLANISH_TRY(const OpenFile file, open_to_read(path, most));
  Digest digest;
  PLANISH_CHECK(read_blocks(file, path, most, [&](std::string_view block) { digest.add(block); }));
  return digest.hex();
}

Status make_directories(const fs::path& path) {
  if (path.empty()) return {};
  std::error_code code;
  fs::create_directories(path, code);
  if (code) return std::unexpected(file_error(code.value(), "create folder", path));
  return {};
}

Status write_file(const fs::path& path, std::string_view bytes, unsigned mode) {
  PLANISH_CHECK(make_directories(path.parent_path()));
  static std::atomic<unsigned> counter{0};
  const fs::path temporary =
      path.parent_path() / fmt::format(".tmp-{}-{}-{}", ::getpid(), counter.fetch_add(1), path.filename().string());
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd) return std::unexpected(file_error(errno, "write", path));
  const auto give_up = [&](int number) {
    ::unlink(temporary.c_str());
    return std::unexpected(file_error(number, "write", path));
  };
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return give_up(errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  if (::fsync(fd.get()) != 0) return give_up(errno);
  fd.reset();
  if (::rename(temporary.c_str(), path.c_str()) != 0) return give_up(errno);
  return {};
}

fs::path temporary_root() {
  const char* root = std::getenv("TMPDIR");
  return root != nullptr && *root != '\0' ? root : "/tmp";
}

namespace {

using Entries = std::unique_ptr<DIR, decltype([](DIR* folder) { ::closedir(folder); })>;

bool is_folder(int at, const char* name) {
  struct stat info{};
  return ::fstatat(at, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

Entries entries_of(int at, const char* name) {
  if (!is_folder(at, name)) return nullptr;
  ::fchmodat(at, name, 0700, 0);  // whoever made it may have taken that from its owner
  const int fd = ::openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return Entries(fd < 0 ? nullptr : ::fdopendir(fd));
}

/// Takes what lies in a folder out of it: folders go beside it, everything else goes for good.
void empty_into(int top, const char* name, std::uint64_t& number) {
  const Entries inner = entries_of(top, name);
  if (inner == nullptr) return;
  const int at = ::dirfd(inner.get());
  while (const dirent* entry = ::readdir(inner.get())) {
    const std::string_view found = entry->d_name;
    if (found == "." || found == "..") continue;
    if (is_folder(at, entry->d_name)) {
      ::fchmodat(at, entry->d_name, 0700, 0);
      ::renameat(at, entry->d_name, top, fmt::format(".gone-{}-{}", ::getpid(), number++).c_str());
    } else {
      ::unlinkat(at, entry->d_name, 0);
    }
  }
}

}  // namespace

void remove_tree(const fs::path& path) {
  std::uint64_t number = 0;
  // Folder by folder, at the top: how deep they lay in each other asks for no path and no descriptor of its own.
  for (bool removed = true; removed;) {
    removed = false;
    const Entries top = entries_of(AT_FDCWD, path.c_str());
    if (top == nullptr) break;
    const int at = ::dirfd(top.get());
    while (const dirent* entry = ::readdir(top.get())) {
      const std::string_view found = entry->d_name;
      if (found == "." || found == "..") continue;
      if (is_folder(at, entry->d_name)) {
        empty_into(at, entry->d_name, number);
        removed = ::unlinkat(at, entry->d_name, AT_REMOVEDIR) == 0 || removed;
      } else {
        removed = ::unlinkat(at, entry->d_name, 0) == 0 || removed;
      }
    }
  }
  if (::rmdir(path.c_str()) != 0) ::unlink(path.c_str());
}

Result<TempDir> TempDir::create(std::string_view prefix) {
  std::string pattern = (temporary_root() / (std::string(prefix) + "XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr) return std::unexpected(file_error(errno, "create folder", pattern));
  return TempDir(fs::path(pattern));
}

TempDir& TempDir::operator=(TempDir&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TempDir::~TempDir() {
  if (path_.empty()) return;
  remove_tree(path_);
}

namespace {

fs::path xdg(const char* ours, const char* variable, const char* fallback) {
  if (const char* value = std::getenv(ours); value != nullptr && *value != '\0') return value;
  if (const char* value = std::getenv(variable); value != nullptr && *value == '/') return fs::path(value) / "planish";
  const char* home = std::getenv("HOME");
  return fs::path(home != nullptr && *home != '\0' ? home : "/tmp") / fallback / "planish";
}

}  // namespace

fs::path cache_dir() {
  return xdg("PLANISH_CACHE", "XDG_CACHE_HOME", ".cache");
}
fs::path data_dir() {
  return xdg("PLANISH_DATA", "XDG_DATA_HOME", ".local/share");
}

fs::path runtime_dir() {
  const char* value = std::getenv("XDG_RUNTIME_DIR");
  if (value != nullptr && *value == '/' && ::access(value, W_OK | X_OK) == 0) return value;
  return "/tmp";
}

fs::path executable_path() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
}

namespace {

/// False where the file was removed since it was opened: whoever opens the path now gets another one.
bool is_at(const UniqueFd& fd, const fs::path& path) {
  struct stat opened{}, there{};
  return ::fstat(fd.get(), &opened) == 0 && ::stat(path.c_str(), &there) == 0 && opened.st_dev == there.st_dev &&
         opened.st_ino == there.st_ino;
}

}  // namespace

Result<FileLock> FileLock::try_acquire(const fs::path& path, Hold hold) {
  // Two users may share a device: the file must be writable by both, whatever the umask. O_RDONLY is enough for flock
  // where the file is another's.
  // No link is followed: the folder may be one that everybody writes to.
  constexpr int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | flags, 0666));
  if (fd) {
    (void)::fchmod(fd.get(), 0666);
  } else {
    // The kernel may refuse O_CREAT on another user's file in such a folder, even where it may be written.
    fd.reset(::open(path.c_str(), O_RDWR | flags));
    if (!fd) fd.reset(::open(path.c_str(), O_RDONLY | flags));
  }
  if (!fd) return std::unexpected(file_error(errno, "open lock", path));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return fail("not_a_file", fmt::format("{} is no file that could be locked", path.string()), "remove it");
  const int kind = hold == Hold::alone ? LOCK_EX : LOCK_SH;
  while (::flock(fd.get(), kind | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return fail("busy", fmt::format("another process holds {}", path.string()));
    return std::unexpected(file_error(errno, "lock", path));
  }
  if (!is_at(fd, path)) return try_acquire(path, hold);
  return FileLock(std::move(fd));
}

bool FileLock::share() {
  while (::flock(fd_.get(), LOCK_SH | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    fd_.reset();
    return false;
  }
  return true;
}

void FileLock::describe(std::string_view text) {
  struct stat info{};
  if (::fstat(fd_.get(), &info) != 0 || info.st_nlink > 1) return;
  if (::ftruncate(fd_.get(), 0) != 0) return;
  (void)!::pwrite(fd_.get(), text.data(), text.size(), 0);
}

std::string FileLock::description(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  char bytes[256];
  const ssize_t n = fd ? ::pread(fd.get(), bytes, sizeof bytes, 0) : 0;
  std::string out;
  for (ssize_t i = 0; i < n; ++i) out += bytes[i] >= ' ' && bytes[i] < 0x7f ? bytes[i] : ' ';
  return out;
}

Result<FileLock> FileLock::acquire(const fs::path& path, double timeout_seconds) {
  const TimePoint deadline = deadline_in(timeout_seconds);
  auto pause = std::chrono::microseconds(200);
  while (true) {
    auto lock = try_acquire(path);
    if (lock.has_value() || lock.error().kind != "busy") return lock;
    if (seconds_until(deadline) <= 0) {
      return fail("timeout", fmt::format("waited {:.0f} s for {}", timeout_seconds, path.string()),
                  "another run is measuring on this device: wait for it, or stop it");
    }
    std::this_thread::sleep_for(pause);
    // Polling keeps the deadline without a signal; short waits stay short, long ones cost nothing.
    pause = std::min(pause * 2, std::chrono::microseconds(5000));
  }
}

}  // namespace planish
