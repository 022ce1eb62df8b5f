#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace planish {

/// Error kinds of everything here: `too_large` (where a limit is given), `no_such_file`, `not_a_file`,
/// `permission_denied`, `read_only`, `disk_full`, `io`. Messages name the path.

/// The error for an errno value: "cannot <doing> <path>: <strerror>", with a hint for a full disk and a read-only
/// place.
Error file_error(int error_number, std::string_view doing, const std::filesystem::path& path);

/// The whole file as bytes. `too_large` where it has more than `most`, before any of it is read.
Result<std::string> read_file(const std::filesystem::path& path, std::uintmax_t most = UINTMAX_MAX);
/// SHA-256 of its bytes, as base/hash.h writes it, in little memory. `too_large` as above.
Result<std::string> digest_of_file(const std::filesystem::path& path, std::uintmax_t most = UINTMAX_MAX);
/// Writes a temporary neighbour, fsyncs it and renames it over `path`: a reader sees the old bytes or the new ones, and
/// a kill at any moment leaves at most a stray `.tmp-…` file. Parent folders are created.
Status write_file(const std::filesystem::path& path, std::string_view bytes, unsigned mode = 0644);
Status make_directories(const std::filesystem::path& path);

/// $TMPDIR or /tmp.
std::filesystem::path temporary_root();

/// Removes a folder with all that is in it, however deep, whatever its owner's rights to it. Follows no link. What
/// others own in it may stay.
void remove_tree(const std::filesystem::path& path);

/// A fresh folder, removed with everything in it at the end of its life.
class TempDir {
 public:
  /// Under temporary_root(), named `<prefix>XXXXXX`.
  static Result<TempDir> create(std::string_view prefix = "planish-");
  TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TempDir& operator=(TempDir&& other) noexcept;
  ~TempDir();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TempDir(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

/// $XDG_CACHE_HOME/planish or ~/.cache/planish; PLANISH_CACHE wins over both. Not created.
std::filesystem::path cache_dir();
/// $XDG_DATA_HOME/planish or ~/.local/share/planish; PLANISH_DATA wins over both. Not created.
std::filesystem::path data_dir();
/// $XDG_RUNTIME_DIR where it exists and is writable, else /tmp. For locks and sockets.
std::filesystem::path runtime_dir();
/// The file of the running program, links resolved.
std::filesystem::path executable_path();

/// An exclusive lock between processes (flock), held for the object's life; the kernel drops it when the process dies.
class FileLock {
 public:
  /// Waits until it has the lock or the deadline passes (`timeout`). The file is created, readable and writable by all.
  /// Only who holds the lock may remove it: a lock is always of the file that is at the path.
  static Result<FileLock> acquire(const std::filesystem::path& path, double timeout_seconds);
  /// `shared`: others that ask for that too may have it at the same time.
  enum class Hold : std::uint8_t { alone, shared };
  /// Without waiting; `busy` where another process, or another FileLock of this one, has it.
  static Result<FileLock> try_acquire(const std::filesystem::path& path, Hold hold = Hold::alone);
  /// From `alone` to `shared`, without waiting. Where that fails (somebody was quicker) the lock is lost: false.
  [[nodiscard]] bool share();
  /// Writes who holds the lock into its file, for those who wait. What cannot be written stays unsaid.
  void describe(std::string_view text);
  /// What the last holder wrote, as printable ASCII of at most 256 bytes: anybody may write it, so it is for people
  /// only. Empty where there is nothing.
  static std::string description(const std::filesystem::path& path);

 private:
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace planish
