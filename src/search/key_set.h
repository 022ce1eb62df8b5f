#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace planish::search {

/// A set of 64-bit keys by open addressing: a look-up touches one cache line nearly always, a million keys take 16 MiB.
class KeySet {
 public:
  /// True if it was not there.
  bool insert(std::uint64_t key);
  bool contains(std::uint64_t key) const;
  std::size_t size() const { return size_ + (zero_ ? 1 : 0); }

 private:
  void grow();
  std::size_t slot_of(std::uint64_t key) const;
  std::vector<std::uint64_t> slots_;  ///< 0 is free; the key 0 itself is in zero_
  std::size_t size_ = 0;
  bool zero_ = false;
};

}  // namespace planish::search
