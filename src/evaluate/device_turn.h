#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "evaluate/lock.h"

namespace planish {

/// How a process that works on a device takes turns there with other processes: while it runs something (tests, proofs,
/// references) it holds the device's lock for `run`, while it measures for `measure`. Two processes then run side by
/// side, and neither's times hold the other's work. On the CPU there is no lock to run: a machine has other work beside
/// ours, and whoever measures there takes the median of many. One thread at a time, the one with the stage.
class DeviceTurn {
 public:
  /// Between those two: the device is measured on, by nobody else. Ends with the object, and what was held before for
  /// `run` is held again.
  class Measuring {
   public:
    Measuring(Measuring&& other) noexcept;
    Measuring& operator=(Measuring&&) = delete;
    Measuring(const Measuring&) = delete;
    Measuring& operator=(const Measuring&) = delete;
    ~Measuring();

   private:
    friend class DeviceTurn;
    Measuring(DeviceTurn& turn, FileLock lock, bool ran) : turn_(&turn), lock_(std::move(lock)), ran_(ran) {}
    DeviceTurn* turn_;
    std::optional<FileLock> lock_;
    bool ran_;
  };

  /// `uuid` as in lock_device; `on_host`: the device is the CPU.
  void of(std::string uuid, bool on_host);
  /// Waits until nobody measures. Kinds: as lock_device.
  Status begin(const std::string& who, double timeout_seconds);
  void end() { running_.reset(); }
  /// What `work` gives, a Result, which needs no device (imports, compilers) and may take a minute: whoever wants to
  /// measure would wait for it. What `begin` took is let go of meanwhile, and waited for again; where nothing was
  /// taken, or this one measures, it is just `work`. Kinds: those of `work`, else as lock_device.
  template <typename Work>
  std::invoke_result_t<Work> away(const std::string& who, double timeout_seconds, Work&& work) {
    const bool ran = running_.has_value();
    end();
    auto done = std::forward<Work>(work)();
    if (!ran) return done;
    auto back = begin(who, timeout_seconds);
    if (done.has_value() && !back.has_value()) return std::unexpected(std::move(back).error());
    return done;
  }
  /// Lets go of what `begin` took, waits until nobody runs or measures. Kinds: as lock_device.
  Result<Measuring> measure(const std::string& who, double timeout_seconds);

 private:
  std::string uuid_;
  bool on_host_ = true;
  std::optional<FileLock> running_;
};

}  // namespace planish
