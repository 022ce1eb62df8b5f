#include "cli/connect.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/owned_folder.h"
#include "cli/interrupt.h"
#include "cli/serve.h"
#include "cli/stdin_file.h"
#include "evaluate/client.h"
#include "worker/toolbox.h"

namespace planish::cli {
namespace {

constexpr const char* folder_prefix = "planish-ev-";

/// Removal of folders of commands and workers that were killed, or told to end at once.
void remove_what_was_left() {
  (void)remove_ownerless_folders({folder_prefix, stdin_folder_prefix, worker::guest_folder_prefix}, 0);
}

/// One that runs already: that of a suite, or the one that `planish serve` keeps. Nothing where there is none, or none
/// that answers.
std::unique_ptr<EvaluatorClient> running_evaluator(bool may_join) {
  const char* given = std::getenv("PLANISH_EVALUATOR");
  std::filesystem::path socket = given != nullptr ? given : "";
  if (socket.empty() && may_join) {
    if (auto served = serve_socket()) socket = *served;
  }
  std::error_code ignored;
  if (socket.empty() || !std::filesystem::is_socket(socket, ignored)) return nullptr;
  auto client = EvaluatorClient::connect(socket);
  return client ? std::move(*client) : nullptr;
}

/// The client, with the folder that its socket lies in.
class OwnEvaluator : public EvaluatorApi {
 public:
  OwnEvaluator(std::optional<OwnedFolder> folder, std::unique_ptr<EvaluatorClient> client,
               const ConnectOptions& options)
      : folder_(std::move(folder)),
        client_(std::move(client)),
        cancel_(options.cancel),
        always_(options.every_call),
        every_call_(options.every_call),
        task_timeout_(options.task_timeout) {}
  ~OwnEvaluator() override {
    client_.reset();
    if (every_call_ && cancel_.cancelled()) remove_what_was_left();
  }
  Result<OpenReply> open(const OpenRequest& request) override {
    OpenRequest own = request;
    own.task_timeout = task_timeout_;
    own.hidden = worker::kept_from_guests();  // one that runs already was started for others
    return guard(true, [&] { return client_->open(own); });
  }
  Result<RegionReply> region(const RegionRequest& request) override {
    return guard(every_call_, [&] { return client_->region(request); });
  }
  Result<Evaluation> evaluate(const EvaluateRequest& request) override {
    return guard(every_call_, [&] { return client_->evaluate(request); });
  }
  Result<VerifyReply> verify(const VerifyRequest& request) override {
    return guard(every_call_, [&] { return client_->verify(request); });
  }
  Result<ClaimReply> claim(const ClaimRequest& request) override {
    return guard(every_call_, [&] { return client_->claim(request); });
  }
  Status close(const std::string& session) override { return client_->close(session); }
  void listen(WorkScope::Listener listener) override { client_->listen(std::move(listener)); }
  void end_when_interrupted(bool ends) override {
    if (always_) return;
    cancel_ = watch_last_calls(ends);
    every_call_ = ends;
  }

 private:
  /// A call that an interrupt ends: the evaluator goes with it, there is nothing more to ask it.
  template <typename Call>
  auto guard(bool watched, Call call) -> decltype(call()) {
    if (!watched) return call();
    std::atomic<bool> done{false};
    std::thread watcher([&] {
      while (!done) {
        if (cancel_.cancelled()) return client_->shutdown();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
    auto result = call();
    done = true;
    watcher.join();
    if (!result && cancel_.cancelled()) return fail("interrupted", "interrupted; nothing was saved");
    return result;
  }

  std::optional<OwnedFolder> folder_;  ///< of one that was started here
  std::unique_ptr<EvaluatorClient> client_;
  CancelToken cancel_;
  bool always_;      ///< whatever the phase
  bool every_call_;  ///< ends with an interrupt, not open() alone
  double task_timeout_;
};

}  // namespace

Result<std::unique_ptr<EvaluatorApi>> connect_evaluator(const ConnectOptions& options) {
  // What is missing is named here, before anything is started.
  PLANISH_CHECK(worker::Toolbox::resolve().check());
  constexpr double an_hour = 3600;
  remove_what_was_left();
  (void)remove_ownerless_folders({"planish-cc-", "planish-triton-", "planish-blobs-", "planish-verified-"}, an_hour);
  if (auto running = running_evaluator(options.may_join))
    return std::make_unique<OwnEvaluator>(std::nullopt, std::move(running), options);
  PLANISH_TRY(auto folder, OwnedFolder::create(folder_prefix));
  PLANISH_TRY(auto client, EvaluatorClient::spawn(executable_path(), folder.path() / "evaluator", 60,
                                                  {"--task-timeout", fmt::format("{}", options.task_timeout)}));
  return std::make_unique<OwnEvaluator>(std::move(folder), std::move(client), options);
}

}  // namespace planish::cli
