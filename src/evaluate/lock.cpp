#include "evaluate/lock.h"

#include <cctype>

namespace planish {

Result<FileLock> lock_device(const std::string& uuid, double timeout_seconds) {
  std::string name = "planish-";
  for (unsigned char c : uuid) name += std::isalnum(c) != 0 || c == '-' ? static_cast<char>(c) : '_';
  return FileLock::acquire(runtime_dir() / (name + ".lock"), timeout_seconds);
}

}  // namespace planish
