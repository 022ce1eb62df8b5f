#include "search/key_set.h"

#include <utility>

namespace planish::search {
namespace {

std::uint64_t spread(std::uint64_t key) {
  key ^= key >> 32U;
  key *= 0xd6e8feb86659fd93ULL;
  key ^= key >> 32U;
  return key;
}

}  // namespace

std::size_t KeySet::slot_of(std::uint64_t key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = static_cast<std::size_t>(spread(key)) & mask;
  while (slots_[at] != 0 && slots_[at] != key) at = (at + 1) & mask;
  return at;
}

void KeySet::grow() {
  std::vector<std::uint64_t> old =
      std::exchange(slots_, std::vector<std::uint64_t>(slots_.empty() ? 64 : slots_.size() * 2));
  for (const std::uint64_t key : old) {
    if (key != 0) slots_[slot_of(key)] = key;
  }
}

bool KeySet::insert(std::uint64_t key) {
  if (key == 0) return !std::exchange(zero_, true);
  if (slots_.empty() || size_ * 2 >= slots_.size()) grow();
  std::uint64_t& slot = slots_[slot_of(key)];
  if (slot == key) return false;
  slot = key;
  ++size_;
  return true;
}

bool KeySet::contains(std::uint64_t key) const {
  if (key == 0) return zero_;
  return !slots_.empty() && slots_[slot_of(key)] == key;
}

}  // namespace planish::search
