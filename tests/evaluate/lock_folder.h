#pragma once

#include <cstdlib>

#include "base/file.h"

namespace planish::testing {

/// Locks of devices lie in a folder of the test's own while it lives.
struct LockFolder {
  TempDir folder = std::move(TempDir::create("planish-locks-").value());
  LockFolder() { ::setenv("PLANISH_LOCK_DIR", folder.path().c_str(), 1); }
  ~LockFolder() { ::unsetenv("PLANISH_LOCK_DIR"); }
  LockFolder(const LockFolder&) = delete;
  LockFolder& operator=(const LockFolder&) = delete;
};

}  // namespace planish::testing
