#include "worker/kernel_compiler.h"

#include <fmt/core.h>

#include <chrono>

#include "backend/backend.h"
#include "base/clock.h"
#include "worker/kernel_cache.h"

namespace planish::worker {

Result<CompileReply> Compilers::compile(const CompileJob& job) {
  const TimePoint start = real_clock().now();
  const auto seconds = [start] { return seconds_since(start); };
  const auto known = known_.find(job.language);
  const backend::Language* language = backend::find_language(job.language);
  if (known == known_.end() || language == nullptr)
    return fail("compile_error", fmt::format("no compiler for language `{}`", job.language));
  for (const std::string& flag : job.flags) {
    if (!language->allows(flag))
      return fail("compile_error", fmt::format("compiler flag {} is not on the list of allowed ones", flag));
  }
  auto& [find, compiler] = known->second;
  if (compiler == nullptr || !compiler->alive()) {
    PLANISH_TRY(compiler, find());
  }
  const KernelCache cache(job.cache);
  const std::string key = KernelCache::key(job, compiler->version());
  if (auto hit = cache.find(key); hit.has_value()) {
    hit->seconds = seconds();
    return *std::move(hit);
  }
  PLANISH_CHECK(cache.check_writable());
  PLANISH_TRY(Compiled compiled, compiler->compile(job));
  CompileReply reply;
  reply.log = compiled.log.substr(0, 16384);
  reply.registers = compiled.registers;
  reply.spill_bytes = compiled.spill_bytes;
  reply.shared_bytes = compiled.shared_bytes;
  reply.local_bytes = compiled.local_bytes;
  reply.instructions = compiled.instructions;
  PLANISH_CHECK(cache.store(key, compiled.binary, language->binary, reply));
  reply.seconds = seconds();
  return reply;
}

}  // namespace planish::worker
