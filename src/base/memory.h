#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace planish {

/// Counts the processes that the kernel has killed for lack of memory: in our control group where that counts them
/// (version 2 or 1), else on the whole machine. Two readings tell a process that the kernel killed from one that
/// somebody killed. A value; any thread.
class OomKills {
 public:
  /// `root` is where /proc and /sys are looked for; a test has its own.
  explicit OomKills(const std::filesystem::path& root = "/");
  /// Nothing where no counter can be read.
  std::optional<std::int64_t> read() const;

 private:
  std::filesystem::path file_;
};

/// Bytes that new processes could have, 0 where that cannot be read.
std::int64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace planish
