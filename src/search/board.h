#pragma once

#include <string>
#include <vector>

#include "codegen/genome.h"

namespace planish::search {

/// Where the searches of a task's regions show each other what works: genes that are good in one region are often good
/// in another. Owned by Search. One thread.
class Board {
 public:
  struct Entry {
    std::string region;
    codegen::Genome genome;
    double gain = 0;  ///< natural logarithm of fallback (or first) over best
  };
  /// Replaces what the region showed before.
  void show(Entry entry) {
    for (Entry& known : entries_) {
      if (known.region == entry.region) {
        known = std::move(entry);
        return;
      }
    }
    entries_.push_back(std::move(entry));
  }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

}  // namespace planish::search
