#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace planish {

/// What files were when something was made of them: size, inode and time of change, to tell whether it could be made of
/// them again with another result. A value.
class FileStamps {
 public:
  FileStamps() = default;
  /// `read_since`: nanoseconds since 1970 before any of them was read; one that changed later is as good as changed
  /// now.
  FileStamps(const std::vector<std::string>& paths, std::int64_t read_since);

  /// Whether all are still what they were. False for no files at all: then nothing is known.
  bool unchanged() const;
  /// Now, for `read_since`.
  static std::int64_t now();

 private:
  struct Stamp {
    std::int64_t size = 0, changed = 0;
    std::uint64_t inode = 0;
    bool operator==(const Stamp&) const = default;
  };
  static bool read(const std::string& path, Stamp& out);
  std::map<std::string, Stamp> stamps_;
  bool sure_ = false;
};

}  // namespace planish
