#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "worker/kernel_compiler.h"
#include "worker/messages.h"

namespace planish::worker {

class Child;

/// Triton, in a Python process that is started once and compiles each kernel in a confined child of its own
/// (docs/formats/wire.md).
class TritonCompiler {
 public:
  /// `no_compiler`, with a hint, where the interpreter has no Triton.
  static Result<TritonCompiler> start();
  TritonCompiler(TritonCompiler&&) noexcept;
  TritonCompiler& operator=(TritonCompiler&&) noexcept;
  ~TritonCompiler();

  /// "triton 3.6.0", part of the cache key.
  const std::string& version() const { return version_; }
  bool alive() const;
  /// A cubin that needs no dynamic shared memory. `compile_error` carries Triton's lines; `compile_timeout`.
  Result<Compiled> compile(const CompileJob& job);

 private:
  explicit TritonCompiler(std::unique_ptr<Child> child);
  std::unique_ptr<Child> child_;
  std::string version_;
};

}  // namespace planish::worker
