#include "evaluate/compile_pool.h"

#include "base/clock.h"
#include "base/work_scope.h"

namespace planish {

Result<worker::CompileReply> CompilePool::compile(const worker::CompileJob& job) {
  std::unique_ptr<worker::Compiler> compiler;
  {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return !idle_.empty() || started_ < limit_; };
    if (!free_.wait_until(lock, deadline_in(work_seconds_left()), ready))
      return fail("out_of_time", "time ran out before a compile worker was free");
    if (!idle_.empty()) {
      compiler = std::move(idle_.back());
      idle_.pop_back();
    } else {
      ++started_;
    }
  }
  const auto give_back = [&](bool keep) {
    {
      std::scoped_lock lock(mutex_);
      if (keep) {
        idle_.push_back(std::move(compiler));
      } else {
        --started_;
      }
    }
    free_.notify_one();
  };
  if (!compiler) {
    auto started = worker::Compiler::start(tools_);
    if (!started.has_value()) {
      give_back(false);
      return std::unexpected(std::move(started).error());
    }
    compiler = std::make_unique<worker::Compiler>(std::move(*started));
  }
  auto reply = [&] {
    std::shared_lock gate(gate_);
    return compiler->compile(job);
  }();
  const bool keep = compiler->alive();
  if (!keep) compiler.reset();
  give_back(keep);
  return reply;
}

}  // namespace planish
