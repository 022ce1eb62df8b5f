#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

namespace planish {

/// What a device is taken for. Many may run things on it at once; who measures has it alone.
enum class DeviceUse : std::uint8_t { run, measure };

/// The lock of a device, "GPU-…" or "cpu", among the processes of this machine. Every user of the machine takes the
/// same file, in PLANISH_LOCK_DIR, else /tmp (what belongs to one user, as $XDG_RUNTIME_DIR and $TMPDIR do, would keep
/// users apart). Who waits is next, for either use: a holder that wants the lock again at once queues up behind, and
/// where somebody waits to measure nobody begins to run. A process that holds it for `run` lets it go before it asks
/// for `measure`: two that keep theirs would wait for each other.
///
/// `who` tells others for whom it is held ("softmax.py"). A wait of more than a moment is reported (report_work), with
/// who measures. Kinds: `timeout`; `out_of_time` where the thread's WorkScope left less; those of FileLock.
Result<FileLock> lock_device(const std::string& uuid, const std::string& who, double timeout_seconds,
                             DeviceUse use = DeviceUse::measure);

/// Seconds that this thread has spent in lock_device, of all its calls.
double device_wait_seconds();

}  // namespace planish
