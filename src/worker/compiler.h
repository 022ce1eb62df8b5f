#pragma once

#include <sys/types.h>

#include <memory>

#include "base/result.h"
#include "worker/messages.h"
#include "worker/toolbox.h"

namespace planish::worker {

class Child;

/// A compile worker. One caller at a time.
///
/// Errors: `compile_error` (the compiler's lines in the message), `compile_timeout`, `no_compiler`, `cache_unwritable`,
/// `disk_full`, `bad_request`; and those of Child (rpc.h), after which it must be replaced.
class Compiler {
 public:
  static Result<Compiler> start(const Toolbox& tools);
  static Result<Compiler> start(const SpawnOptions& options);
  Compiler(Compiler&&) noexcept;
  Compiler& operator=(Compiler&&) noexcept;
  ~Compiler();

  Result<CompileReply> compile(const CompileJob& job);

  bool alive() const;
  void kill();
  pid_t pid() const;

 private:
  explicit Compiler(std::unique_ptr<Child> child);
  std::unique_ptr<Child> child_;
};

}  // namespace planish::worker
