#include "cli/ray_pool.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/channel.h"
#include "base/file.h"
#include "base/json.h"
#include "worker/toolbox.h"

extern char** environ;  // NOLINT: POSIX has it without a header

namespace planish::cli {
namespace {

/// Ray starts a dozen processes, and a node may be asked for them.
constexpr double ray_start_seconds = 300;

/// Our own variables, which a worker's machine does not have; keys and tokens are no longer among them.
Json settings_of_workers(const worker::Toolbox& tools) {
  Json out = {{"PLANISH_PYTHON", tools.python.string()},
              {"PLANISH_PYTHON_PATH", tools.python_path.string()},
              {"PLANISH_RT", tools.rt_library.string()}};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with("PLANISH_")) continue;
    const std::string variable(text.substr(0, equals));
    if (variable != "PLANISH_EVALUATOR" && !out.contains(variable)) out[variable] = text.substr(equals + 1);
  }
  return out;
}

}  // namespace

struct RayPool::State {
  std::optional<Subprocess> process;
  const Output* output = nullptr;
  std::mutex send_mutex, mutex;
  std::condition_variable arrived;
  std::map<std::int64_t, Json> answers;  ///< under `mutex`, as what follows
  std::int64_t next = 1;
  bool ready = false, gone = false;
  std::optional<Error> refused;
  std::thread reader;

  static Error error_in(const Json& json) {
    const auto text = [&json](const char* field) {
      const auto found = json.find(field);
      return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    return {text("kind"), text("message"), {}, text("hint")};
  }

  void read() {
    while (true) {
      auto line = process->channel().receive(deadline_in(1e9));
      if (!line) break;
      auto message = parse_json(*line, "protocol", "message of the cluster");
      if (!message || !message->is_object()) break;
      const std::scoped_lock lock(mutex);
      if (const auto event = message->find("event"); event != message->end()) {
        if (*event == "ready") ready = true;
        if (*event == "failed" && message->contains("error")) refused = error_in((*message)["error"]);
        if (*event == "workers" && message->contains("text") && (*message)["text"].is_string() && !output->quiet)
          fmt::print(stderr, "{}\n", (*message)["text"].get<std::string>());
      } else if (message->contains("id") && (*message)["id"].is_number_integer()) {
        const auto id = (*message)["id"].get<std::int64_t>();
        answers[id] = std::move(*message);
      }
      arrived.notify_all();
    }
    const std::scoped_lock lock(mutex);
    gone = true;
    arrived.notify_all();
  }

  Error lost() {
    Error error{"no_cluster", "the process that speaks with Ray ended", {}, {}};
    if (std::string tail = process->output_tail(); !tail.empty())
      error.causes.push_back(tail.size() > 2000 ? tail.substr(tail.size() - 2000) : std::move(tail));
    return error;
  }

  bool send(const Json& message) {
    const std::scoped_lock lock(send_mutex);
    return process->channel().send(dump_json(message), {}, deadline_in(60)).has_value();
  }

  Result<Workplace::Ended> run(std::vector<std::string> arguments, double seconds, const CancelToken& cancel) {
    Workplace::Ended out;
    out.verb = arguments.front();
    std::unique_lock lock(mutex);
    const std::int64_t id = next++;
    lock.unlock();
    if (!send({{"id", id}, {"arguments", arguments}, {"seconds", seconds}})) return std::unexpected(lost());
    lock.lock();
    const auto there = [&] { return gone || answers.contains(id); };
    while (!arrived.wait_for(lock, std::chrono::milliseconds(100), there)) {
      if (!cancel.cancelled()) continue;
      lock.unlock();
      (void)send({{"cancel", id}});
      return fail("interrupted", fmt::format("{} was interrupted", out.verb));
    }
    const auto found = answers.find(id);
    if (found == answers.end()) return std::unexpected(lost());
    const Json answer = std::move(found->second);
    answers.erase(found);
    if (const auto error = answer.find("error"); error != answer.end() && error->is_object())
      return std::unexpected(error_in(*error));
    ObjectReader fields(answer, "protocol", "answer of the cluster");
    fields.lenient();
    fields.text("document", out.document);
    fields.integer("code", out.status.code);
    fields.integer("signal", out.status.signal);
    PLANISH_CHECK(fields.finish());
    return out;
  }
};

namespace {

class RayPlace : public Workplace {
 public:
  using Run = std::function<Result<Ended>(std::vector<std::string>, double, const CancelToken&)>;
  explicit RayPlace(Run run) : run_(std::move(run)) {}
  std::string name() const override { return worker_placeholder; }
  std::string device() const override { return {}; }
  Result<Ended> run(std::vector<std::string> arguments, double seconds, const CancelToken& cancel) override {
    return run_(std::move(arguments), seconds, cancel);
  }

 private:
  Run run_;
};

}  // namespace

RayPool::RayPool(std::unique_ptr<State> state) : state_(std::move(state)) {}

RayPool::~RayPool() {
  state_->process->channel().shutdown();
  if (state_->reader.joinable()) state_->reader.join();
  (void)state_->process->wait(deadline_in(30));
}

Result<std::unique_ptr<RayPool>> RayPool::start(const RayOptions& options, const Output& output) {
  const auto tools = worker::Toolbox::resolve();
  SpawnOptions spawn = tools.python_module("planish.cluster");
  spawn.command.insert(spawn.command.end(), {"--address", options.address, "--target", options.target, "--workers",
                                             std::to_string(options.workers), "--program", executable_path().string(),
                                             "--keep-tasks", std::to_string(options.station.kept_tasks),
                                             "--task-timeout", fmt::format("{}", options.station.task_timeout),
                                             "--environment", dump_json(settings_of_workers(tools))});
  auto state = std::make_unique<State>();
  PLANISH_TRY(state->process, Subprocess::spawn(spawn));
  state->output = &output;
  state->reader = std::thread([raw = state.get()] { raw->read(); });
  std::unique_ptr<RayPool> pool(new RayPool(std::move(state)));
  State& s = *pool->state_;
  std::unique_lock lock(s.mutex);
  const bool told =
      s.arrived.wait_until(lock, deadline_in(ray_start_seconds), [&] { return s.ready || s.gone || s.refused; });
  if (s.refused) return std::unexpected(*s.refused);
  if (!told) return fail("no_cluster", fmt::format("Ray at {} did not answer", options.address));
  if (!s.ready) return std::unexpected(s.lost());
  lock.unlock();
  return pool;
}

std::unique_ptr<Workplace> RayPool::place() {
  return std::make_unique<RayPlace>(
      [state = state_.get()](std::vector<std::string> arguments, double seconds, const CancelToken& cancel) {
        return state->run(std::move(arguments), seconds, cancel);
      });
}

}  // namespace planish::cli
