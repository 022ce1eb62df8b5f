#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "base/result.h"
#include "worker/compiler.h"
#include "worker/toolbox.h"

namespace planish {

/// Compile workers, started when first needed and replaced when they die. compile() may be called from any thread.
class CompilePool {
 public:
  CompilePool(worker::Toolbox tools, int workers) : tools_(std::move(tools)), limit_(workers) {}

  /// Waits for a free worker, and while somebody holds stand_still().
  Result<worker::CompileReply> compile(const worker::CompileJob& job);
  /// While the lock lives nothing compiles; waits for what is compiling now. For timing on the CPU.
  std::unique_lock<std::shared_mutex> stand_still() { return std::unique_lock(gate_); }

 private:
  worker::Toolbox tools_;
  int limit_ = 1, started_ = 0;
  std::mutex mutex_;
  std::condition_variable free_;
  std::vector<std::unique_ptr<worker::Compiler>> idle_;
  std::shared_mutex gate_;
};

}  // namespace planish
