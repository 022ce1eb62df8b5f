#include "evaluate/client.h"

#include <fmt/core.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/channel.h"
#include "base/family.h"
#include "base/work_scope.h"
#include "evaluate/codec.h"
#include "evaluate/json.h"

namespace planish {

struct EvaluatorClient::State {
  std::optional<Subprocess> process;
  Channel channel;
  std::mutex send_mutex, mutex;
  std::condition_variable arrived;
  std::map<std::int64_t, Json> answers;
  std::atomic<std::int64_t> next{1};
  bool gone = false;
  std::atomic<bool> abandoned{false};
  double stop_limit = 10;
  WorkScope::Listener listener;  ///< under `mutex`
  std::thread reader;

  void tell(const Json& event) {
    std::string text;
    WorkReport report;
    ObjectReader fields(event, "protocol", "event of the evaluator");
    fields.lenient();
    fields.text("text", text);
    fields.integer("number", report.number, ObjectReader::Need::optional);
    fields.integer("all", report.all, ObjectReader::Need::optional);
    fields.number("seconds", report.seconds, ObjectReader::Need::optional);
    if (!fields.finish().has_value()) return;
    report.text = text;
    const std::scoped_lock lock(mutex);
    if (listener) listener(report);
  }

  void read_answers() {
    while (true) {
      auto line = channel.receive(deadline_in(1e9));
      if (!line.has_value()) break;
      auto message = parse_json(*line, "protocol", "answer of the evaluator");
      if (message.has_value() && message->is_object() && message->contains("event")) {
        tell(*message);
        continue;
      }
      if (!message.has_value() || !message->is_object() || !message->contains("id") ||
          !(*message)["id"].is_number_integer())
        break;
      std::scoped_lock lock(mutex);
      // The id is read first: assignment moves the message before it looks at the left side.
      const auto id = (*message)["id"].get<std::int64_t>();
      answers[id] = std::move(*message);
      arrived.notify_all();
    }
    std::scoped_lock lock(mutex);
    gone = true;
    arrived.notify_all();
  }

  /// Only who stopped it can let it go on. One of our own is ended, with all that it started; others may use another.
  std::unexpected<Error> left_stopped(const char* method) {
    if (process.has_value()) process->kill();
    abandoned = true;
    return fail("killed",
                fmt::format("the evaluator (process {}) was stopped by a signal (SIGSTOP or job control) during `{}` "
                            "and did not go on within {:g} s",
                            channel.peer(), method, stop_limit),
                "find out who stopped it (a job manager, a debugger, `kill -STOP`), and run the command again");
  }

  Result<Json> call(const char* method, Json params) {
    const std::int64_t id = next++;
    Json request{{"id", id}, {"method", method}, {"params", std::move(params)}};
    const double left = work_seconds_left();
    if (left <= 0) return fail("out_of_time", fmt::format("no time was left for `{}`", method));
    if (std::isfinite(left)) request["seconds"] = left;
    const std::string line = dump_json(request);
    const auto lost = [&] {
      Error error{"closed", fmt::format("the evaluator ended during `{}`", method), {}, {}};
      if (process.has_value()) {
        const std::string tail = process->output_tail();
        if (!tail.empty()) error.causes.push_back(tail.size() > 2000 ? tail.substr(tail.size() - 2000) : tail);
      }
      return std::unexpected(std::move(error));
    };
    {
      std::scoped_lock lock(send_mutex);
      if (!channel.send(line, {}, deadline_in(60)).has_value()) return lost();
    }
    const Family evaluator(channel.peer());
    std::unique_lock lock(mutex);
    // Counted by looks: who is stopped together with us, and goes on with us, was not left alone.
    const double look_every = std::min(1.0, stop_limit / 4);
    double stopped = 0;
    while (!arrived.wait_for(lock, std::chrono::duration<double>(look_every),
                             [&] { return gone || answers.contains(id); })) {
      stopped = evaluator.first_is_stopped() ? stopped + look_every : 0;
      if (stopped >= stop_limit) return left_stopped(method);
    }
    const auto found = answers.find(id);
    if (found == answers.end()) return lost();
    Json answer = std::move(found->second);
    answers.erase(found);
    if (answer.contains("error")) return std::unexpected(codec::read_error(answer["error"]));
    if (!answer.contains("result")) return fail("protocol", "the evaluator's answer has neither result nor error");
    return std::move(answer["result"]);
  }

  template <typename Reply, typename Request>
  Result<Reply> ask(const char* method, const Request& request) {
    PLANISH_TRY(const Json json, call(method, codec::write(request)));
    Reply reply;
    PLANISH_CHECK(codec::read(json, reply));
    return reply;
  }
};

EvaluatorClient::EvaluatorClient(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->reader = std::thread([raw = state_.get()] { raw->read_answers(); });
}

EvaluatorClient::~EvaluatorClient() {
  state_->channel.shutdown();
  state_->reader.join();
  // It ends by itself with its last client; one that others joined must not be killed with us.
  if (state_->process.has_value()) (void)state_->process->wait(deadline_in(state_->abandoned ? 0.2 : 5));
}

Result<std::unique_ptr<EvaluatorClient>> EvaluatorClient::connect(const std::filesystem::path& socket) {
  auto state = std::make_unique<State>();
  PLANISH_TRY(state->channel, Channel::connect(socket));
  return std::unique_ptr<EvaluatorClient>(new EvaluatorClient(std::move(state)));
}

Result<std::unique_ptr<EvaluatorClient>> EvaluatorClient::spawn(const std::filesystem::path& executable,
                                                                const std::filesystem::path& socket,
                                                                double timeout_seconds,
                                                                std::vector<std::string> arguments,
                                                                Environment environment) {
  auto state = std::make_unique<State>();
  SpawnOptions options;
  options.command = {executable.string(), "evaluator", "--socket", socket.string()};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  options.env = std::move(environment);
  PLANISH_TRY(state->process, Subprocess::spawn(options));
  const TimePoint deadline = deadline_in(timeout_seconds);
  while (true) {
    auto channel = Channel::connect(socket);
    if (channel.has_value()) {
      state->channel = std::move(*channel);
      break;
    }
    const auto ended = state->process->poll();
    if (ended.has_value() || seconds_until(deadline) <= 0) {
      Error error{
          "closed", "the evaluator did not start", {ended.has_value() ? ended->text() : channel.error().message}, {}};
      error.causes.push_back(state->process->output_tail());
      return std::unexpected(std::move(error));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return std::unique_ptr<EvaluatorClient>(new EvaluatorClient(std::move(state)));
}

void EvaluatorClient::listen(WorkScope::Listener listener) {
  std::scoped_lock lock(state_->mutex);
  state_->listener = std::move(listener);
}

void EvaluatorClient::set_stop_limit(double seconds) {
  state_->stop_limit = seconds;
}

void EvaluatorClient::shutdown() {
  state_->abandoned = true;
  state_->channel.shutdown();
}

Result<OpenReply> EvaluatorClient::open(const OpenRequest& request) {
  return state_->ask<OpenReply>("open", request);
}
Result<RegionReply> EvaluatorClient::region(const RegionRequest& request) {
  return state_->ask<RegionReply>("region", request);
}
Result<VerifyReply> EvaluatorClient::verify(const VerifyRequest& request) {
  return state_->ask<VerifyReply>("verify", request);
}
Result<ClaimReply> EvaluatorClient::claim(const ClaimRequest& request) {
  return state_->ask<ClaimReply>("claim", request);
}

Result<Evaluation> EvaluatorClient::evaluate(const EvaluateRequest& request) {
  PLANISH_TRY(const Json json, state_->call("evaluate", codec::write(request)));
  return read_evaluation(json);
}

Status EvaluatorClient::close(const std::string& session) {
  PLANISH_CHECK(state_->call("close", Json{{"session", session}}));
  return {};
}

}  // namespace planish
