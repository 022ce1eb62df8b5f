#include "worker/compiler.h"

#include <fmt/core.h>

#include "worker/compile_reply_json.h"
#include "worker/rpc.h"

namespace planish::worker {

Compiler::Compiler(std::unique_ptr<Child> child) : child_(std::move(child)) {}
Compiler::Compiler(Compiler&&) noexcept = default;
Compiler& Compiler::operator=(Compiler&&) noexcept = default;
Compiler::~Compiler() = default;

Result<Compiler> Compiler::start(const Toolbox& tools) {
  return start(tools.program(tools.compiler));
}

Result<Compiler> Compiler::start(const SpawnOptions& options) {
  PLANISH_TRY(auto child, Child::start("compile worker", options));
  return Compiler(std::move(child));
}

Result<CompileReply> Compiler::compile(const CompileJob& job) {
  Json params{{"language", job.language},
              {"source", job.source},
              {"entry", job.entry},
              {"flags", job.flags},
              {"arch", job.arch},
              {"cache", job.cache},
              {"limit_seconds", job.limit_seconds}};
  // The worker keeps to the limit itself where it can (g++); NVRTC runs inside it, and only ending the worker stops
  // that.
  auto reply = child_->call("compile", std::move(params), {}, job.limit_seconds + 5);
  if (!reply.has_value()) {
    Error error = std::move(reply).error();
    if (error.kind == "hang") {
      error.kind = "compile_timeout";
      error.message = fmt::format("compiling kernel {} took longer than {:.0f} s", job.entry, job.limit_seconds);
    }
    return std::unexpected(std::move(error));
  }
  CompileReply result;
  ObjectReader reader(reply->result, "protocol", "compile");
  reader.lenient();
  reader.text("path", result.path);
  reader.number("seconds", result.seconds);
  reader.boolean("cached", result.cached);
  PLANISH_CHECK(read_report(reader, result));
  return result;
}

bool Compiler::alive() const {
  return child_->alive();
}
void Compiler::kill() {
  child_->kill();
}
pid_t Compiler::pid() const {
  return child_->pid();
}

}  // namespace planish::worker
