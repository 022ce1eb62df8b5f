#include "evaluate/dedup.h"

namespace planish {

std::optional<std::string> Dedup::claim(const std::string& key, const std::string& program_hash) {
  std::scoped_lock lock(mutex_);
  const auto [entry, fresh] = seen_.try_emplace(key, program_hash);
  if (fresh) return std::nullopt;
  return entry->second;
}

void Dedup::release(const std::vector<std::string>& keys) {
  std::scoped_lock lock(mutex_);
  for (const std::string& key : keys) seen_.erase(key);
}

std::string Dedup::binary_key(program::Program program, const std::vector<std::string>& binary_hashes) {
  for (std::size_t i = 0; i < program.kernels.size() && i < binary_hashes.size(); ++i) {
    program.kernels[i].source = binary_hashes[i];
    program.kernels[i].flags.clear();
  }
  return program::hash(program);
}

}  // namespace planish
