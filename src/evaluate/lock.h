#pragma once

#include <string>

#include "base/file.h"

namespace planish {

/// The lock that lets one process at a time measure on a device: "GPU-…" or "cpu". Every user of the machine takes the
/// same file.
Result<FileLock> lock_device(const std::string& uuid, double timeout_seconds);

}  // namespace planish
