#include "evaluate/server.h"

#include <fmt/core.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/channel.h"
#include "base/work_scope.h"
#include "evaluate/codec.h"
#include "evaluate/json.h"

namespace planish {
namespace {

template <typename Request, typename Answer>
Result<Json> ask(const Json& params, Answer&& answer) {
  Request request;
  PLANISH_CHECK(codec::read(params, request));
  return answer(request);
}

/// One connection. Lives until its threads have ended.
class Client {
 public:
  Client(EvaluatorApi& api, Channel channel, CancelToken stop)
      : api_(api), channel_(std::move(channel)), stop_(std::move(stop)) {}

  void serve() {
    while (true) {
      auto line = channel_.receive(deadline_in(1e9));
      if (!line.has_value()) break;
      auto message = parse_json(*line, "bad_request", "request");
      if (!message.has_value() || !message->is_object() || !message->contains("id")) break;
      begin();
      std::thread([this, request = std::move(*message)] {
        answer(request);
        end();
      }).detach();
    }
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return busy_ == 0; });
    for (const std::string& session : sessions_) (void)api_.close(session);
  }

 private:
  void begin() {
    std::scoped_lock lock(mutex_);
    ++busy_;
  }
  void end() {
    std::scoped_lock lock(mutex_);
    --busy_;
    idle_.notify_all();
  }

  void answer(const Json& request) {
    const auto seconds = request.find("seconds");
    // What the work waits for is told as it happens; a client that is gone is noticed elsewhere.
    const WorkScope scope(seconds != request.end() && seconds->is_number() ? seconds->get<double>() : 0,
                          [this](const WorkReport& report) {
                            Json event{{"event", "work"}, {"text", report.text}};
                            if (report.all > 0) event.update({{"number", report.number}, {"all", report.all}});
                            if (report.seconds > 0) event["seconds"] = report.seconds;
                            std::scoped_lock lock(send_mutex_);
                            (void)channel_.send(dump_json(event), {}, deadline_in(60));
                          });
    auto result = dispatch(request);
    Json reply{{"id", request["id"]}};
    if (result.has_value()) {
      reply["result"] = std::move(*result);
    } else {
      reply["error"] = codec::write(result.error());
    }
    std::scoped_lock lock(send_mutex_);
    (void)channel_.send(dump_json(reply), {}, deadline_in(60));
  }

  Result<Json> dispatch(const Json& request) {
    const std::string method =
        request.contains("method") && request["method"].is_string() ? request["method"].get<std::string>() : "";
    const Json params = request.contains("params") ? request["params"] : Json::object();
    if (method == "open") {
      return ask<OpenRequest>(params, [this](const OpenRequest& r) -> Result<Json> {
        PLANISH_TRY(const auto reply, api_.open(r));
        std::scoped_lock lock(mutex_);
        sessions_.insert(reply.session);
        return codec::write(reply);
      });
    }
    if (method == "region") {
      return ask<RegionRequest>(params, [this](const RegionRequest& r) -> Result<Json> {
        PLANISH_TRY(const auto reply, api_.region(r));
        return codec::write(reply);
      });
    }
    if (method == "evaluate") {
      return ask<EvaluateRequest>(params, [this](const EvaluateRequest& r) -> Result<Json> {
        PLANISH_TRY(const auto reply, api_.evaluate(r));
        return evaluation_to_json(reply);
      });
    }
    if (method == "verify") {
      return ask<VerifyRequest>(params, [this](const VerifyRequest& r) -> Result<Json> {
        PLANISH_TRY(const auto reply, api_.verify(r));
        return codec::write(reply);
      });
    }
    if (method == "claim") {
      return ask<ClaimRequest>(params, [this](const ClaimRequest& r) -> Result<Json> {
        PLANISH_TRY(const auto reply, api_.claim(r));
        return codec::write(reply);
      });
    }
    if (method == "close") {
      std::string session;
      ObjectReader reader(params, "bad_request", "close");
      reader.text("session", session);
      PLANISH_CHECK(reader.finish());
      PLANISH_CHECK(api_.close(session));
      std::scoped_lock lock(mutex_);
      sessions_.erase(session);
      return Json::object();
    }
    if (method == "stop") {
      stop_.cancel();
      return Json::object();
    }
    return fail("bad_request", fmt::format("an evaluator has no method `{}`", method));
  }

  EvaluatorApi& api_;
  Channel channel_;
  CancelToken stop_;
  std::mutex mutex_, send_mutex_;
  std::condition_variable idle_;
  int busy_ = 0;
  std::set<std::string> sessions_;
};

}  // namespace

Status serve_evaluator(EvaluatorApi& api, const ServeOptions& options) {
  PLANISH_TRY(auto listener, Listener::listen(options.socket));
  std::atomic<int> clients{0};
  std::vector<std::thread> threads;
  bool had_one = false;
  TimePoint give_up = deadline_in(options.first_client_seconds);
  const CancelToken stop;
  bool busy = false;
  Status outcome;
  while (true) {
    auto channel = listener.accept(had_one ? deadline_in(0.02) : std::min(give_up, deadline_in(0.2)));
    if (channel.has_value()) {
      had_one = busy = true;
      ++clients;
      threads.emplace_back([&api, &clients, stop, taken = std::move(*channel)]() mutable {
        Client client(api, std::move(taken), stop);
        client.serve();
        --clients;
      });
      continue;
    }
    if (channel.error().kind != "timeout") {
      outcome = std::unexpected(std::move(channel).error());
      break;
    }
    if (stop.cancelled() && clients == 0) break;
    if (options.idle_seconds > 0) {
      if (busy && clients == 0) give_up = deadline_in(options.idle_seconds);
      busy = clients > 0;
      if (!busy && seconds_until(give_up) <= 0) break;
      continue;
    }
    if (had_one && clients == 0) break;
    if (!had_one && seconds_until(give_up) <= 0) {
      outcome = fail("timeout", "no client came");
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

}  // namespace planish
