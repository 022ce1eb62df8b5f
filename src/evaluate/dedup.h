#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"

namespace planish {

/// Which programs have been seen, by three keys: program, normalised source, compiled binaries. Thread-safe. Keys are
/// claimed when a candidate enters, so of two equal ones at the same time the second is the duplicate; release() takes
/// them back where the evaluation was no answer.
class Dedup {
 public:
  /// The program hash that has this key already; nothing when it is now claimed for `program_hash`.
  std::optional<std::string> claim(const std::string& key, const std::string& program_hash);
  void release(const std::vector<std::string>& keys);

  /// The hash of the program with each kernel's source and flags replaced by its binary's hash.
  static std::string binary_key(program::Program program, const std::vector<std::string>& binary_hashes);

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> seen_;
};

}  // namespace planish
