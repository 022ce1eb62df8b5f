#pragma once

#include <string>

#include "base/file.h"

namespace planish {

/// The lock that lets one process at a time measure on a device: "GPU-…" or "cpu". Every user of the machine takes the
/// same file, in PLANISH_LOCK_DIR, else /tmp (what belongs to one user, as $XDG_RUNTIME_DIR and $TMPDIR do, would keep
/// users apart). Who waits is next: a holder that wants the lock again at once queues up behind.
///
/// `who` tells others for whom it is held ("softmax.py"). A wait of more than a moment is reported (report_work), with
/// who holds the lock. Kinds: `timeout`; `out_of_time` where the thread's WorkScope left less; those of FileLock.
Result<FileLock> lock_device(const std::string& uuid, const std::string& who, double timeout_seconds);

}  // namespace planish
