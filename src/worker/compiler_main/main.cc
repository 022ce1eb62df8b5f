// planish-compiler: the compile worker (docs/formats/wire.md). Turns one kernel's source into a binary in the cache.

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cctype>
#include <cstdio>
#include <utility>

#include "base/channel.h"
#include "base/json.h"
#include "worker/compile_reply_json.h"
#include "worker/compiler_main/cpp.h"
#include "worker/compiler_main/nvrtc.h"
#include "worker/compiler_main/triton.h"
#include "worker/kernel_compiler.h"

namespace planish::worker {
namespace {

Compilers all_compilers() {
  Compilers out;
  out.add("cuda", CompilerOf<Nvrtc>::starting(Nvrtc::load));
  out.add("triton", CompilerOf<TritonCompiler>::starting(TritonCompiler::start));
  out.add("cpp", CompilerOf<CppCompiler>::starting(CppCompiler::find));
  return out;
}

bool plain_word(const std::string& text) {
  if (text.empty() || text.size() > 64) return false;
  for (unsigned char c : text) {
    if (std::isalnum(c) == 0 && c != '_' && c != '-' && c != '.' && c != '+') return false;
  }
  return true;
}

Result<CompileJob> read_job(const Json& params) {
  CompileJob job;
  ObjectReader reader(params, "bad_request", "compile");
  reader.text("language", job.language);
  reader.text("source", job.source);
  reader.text("entry", job.entry);
  reader.texts("flags", job.flags, ObjectReader::Need::optional);
  reader.text("arch", job.arch);
  reader.text("cache", job.cache);
  reader.number("limit_seconds", job.limit_seconds, ObjectReader::Need::optional);
  PLANISH_CHECK(reader.finish());
  if (!plain_word(job.arch)) return fail("compile_error", fmt::format("`{}` is no architecture", job.arch));
  if (!plain_word(job.entry))
    return fail("compile_error", fmt::format("`{}` is no name for an entry point", job.entry));
  return job;
}

Result<CompileReply> compile(const Json& params, Compilers& compilers) {
  PLANISH_TRY(const CompileJob job, read_job(params));
  return compilers.compile(job);
}

Json answer(const Json& request, Compilers& compilers) {
  const std::string method = request.is_object() && request.contains("method") && request["method"].is_string()
                                 ? request["method"].get<std::string>()
                                 : "";
  const auto error_json = [](const Error& error) {
    Json json{{"kind", error.kind}, {"message", error.message}};
    for (const std::string& cause : error.causes) json["message"] = json["message"].get<std::string>() + ": " + cause;
    if (!error.hint.empty()) json["hint"] = error.hint;
    return Json{{"error", std::move(json)}};
  };
  if (method == "hello") return Json{{"result", {{"kind", "compiler"}}}};
  if (method != "compile") return error_json({"bad_request", fmt::format("no method `{}`", method), {}, {}});
  const Json params = request.value("params", Json::object());
  auto reply = compile(params, compilers);
  if (!reply.has_value()) return error_json(reply.error());
  Json result = report_of(*reply);
  result["path"] = reply->path;
  result["seconds"] = reply->seconds;
  result["cached"] = reply->cached;
  return Json{{"result", std::move(result)}};
}

int serve() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::fcntl(3, F_GETFD) < 0) {
    std::fputs("planish-compiler is started by planish and speaks on file descriptor 3\n", stderr);
    return 2;
  }
  ::fcntl(3, F_SETFD, FD_CLOEXEC);
  Channel channel{UniqueFd(3)};
  Compilers compilers = all_compilers();
  while (true) {
    auto line = channel.receive(deadline_in(1e9));
    if (!line.has_value()) return 0;  // our parent is gone
    auto request = parse_json(*line, "bad_request", "request");
    if (!request.has_value()) {
      std::fprintf(stderr, "%s\n", request.error().message.c_str());
      return 2;
    }
    Json reply = answer(*request, compilers);
    if (request->is_object() && request->contains("id")) reply["id"] = (*request)["id"];
    if (!channel.send(dump_json(reply), {}, deadline_in(60)).has_value()) return 0;
  }
}

}  // namespace
}  // namespace planish::worker

int main() {
  return planish::worker::serve();
}
