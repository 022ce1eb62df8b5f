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

/// So many processes may be lost one after the other without an answer of any in between.
constexpr int most_lost = 10;

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
  SpawnOptions spawn;
  std::string address;
  std::mutex start_mutex;             ///< while a process is started
  std::optional<Subprocess> process;  ///< under `send_mutex` for who does not read from it
  const Output* output = nullptr;
  std::mutex send_mutex, mutex;
  std::condition_variable arrived;
  std::map<std::int64_t, Json> answers;  ///< under `mutex`, as what follows
  std::int64_t next = 1;
  int started = 0;  ///< processes so far
  int in_vain = 0;  ///< of those, the last ones that gave no answer
  bool ready = false, gone = false;
  std::optional<Error> refused;
  std::thread reader;

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
        in_vain = 0;
      }
      arrived.notify_all();
    }
    const std::scoped_lock lock(mutex);
    gone = true;
    arrived.notify_all();
  }

  /// Starts the process that speaks with Ray, and waits until it has found the cluster.
  Status start() {
    {
      const std::scoped_lock sending(send_mutex);
      PLANISH_TRY(process, Subprocess::spawn(spawn));
    }
    std::unique_lock lock(mutex);
    ready = gone = false;
    ++started;
    ++in_vain;
    reader = std::thread([this] { read(); });
    const bool told =
        arrived.wait_until(lock, deadline_in(ray_start_seconds), [this] { return ready || gone || refused; });
    if (refused) return std::unexpected(*refused);
    if (!told) return fail("no_cluster", fmt::format("Ray at {} did not answer", address));
    const bool there = ready;
    lock.unlock();
    return there ? Status() : std::unexpected(lost());
  }

  /// Another in the place of the n-th, which was lost, unless somebody has started it already. Its workers went with
  /// it.
  Status start_after(int lost_one) {
    const std::scoped_lock starting(start_mutex);
    {
      const std::scoped_lock lock(mutex);
      if (started != lost_one) return {};
    }
    while (true) {
      reader.join();
      auto begun = start();
      const std::scoped_lock lock(mutex);
      // One that was lost while it started says nothing about the cluster; one that could not be started does.
      if (begun || refused || !gone || !reader.joinable() || in_vain >= most_lost) return begun;
    }
  }

  Error lost() {
    const std::scoped_lock sending(send_mutex);
    Error error{"no_cluster", "the process that speaks with Ray ended", {}, {}};
    if (std::string tail = process->output_tail(); !tail.empty())
      error.causes.push_back(tail.size() > 2000 ? tail.substr(tail.size() - 2000) : std::move(tail));
    return error;
  }

  bool send(const Json& message) {
    const std::scoped_lock lock(send_mutex);
    return process->channel().send(dump_json(message), {}, deadline_in(60)).has_value();
  }

  Result<Workplace::Ended> run(const std::vector<std::string>& arguments, double seconds, const CancelToken& cancel) {
    while (true) {
      int asked = 0;
      auto ended = run_once(arguments, seconds, cancel, asked);
      const bool cut_off = !ended && ended.error().kind == "no_cluster";
      if (!cut_off || cancel.cancelled()) return ended;
      {
        const std::scoped_lock lock(mutex);
        if (in_vain >= most_lost) return ended;
      }
      PLANISH_CHECK(start_after(asked));
    }
  }

  /// `asked`: which process it was given to.
  Result<Workplace::Ended> run_once(const std::vector<std::string>& arguments, double seconds,
                                    const CancelToken& cancel, int& asked) {
    Workplace::Ended out;
    out.verb = verb_of(arguments);
    std::unique_lock lock(mutex);
    const std::int64_t id = next++;
    asked = started;
    lock.unlock();
    if (!send({{"id", id}, {"arguments", arguments}, {"seconds", seconds}})) return std::unexpected(lost());
    lock.lock();
    const auto there = [&] { return gone || started != asked || answers.contains(id); };
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
    arguments.emplace_back("--quiet");  // nobody here sees what it shows
    return run_(std::move(arguments), seconds, cancel);
  }

 private:
  Run run_;
};

}  // namespace

RayPool::RayPool(std::unique_ptr<State> state) : state_(std::move(state)) {}

RayPool::~RayPool() {
  if (!state_->process) return;  // it could not even be started
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
  state->spawn = std::move(spawn);
  state->address = options.address;
  state->output = &output;
  std::unique_ptr<RayPool> pool(new RayPool(std::move(state)));
  PLANISH_CHECK(pool->state_->start());
  return pool;
}

std::unique_ptr<Workplace> RayPool::place() {
  return std::make_unique<RayPlace>(
      [state = state_.get()](std::vector<std::string> arguments, double seconds, const CancelToken& cancel) {
        return state->run(arguments, seconds, cancel);
      });
}

}  // namespace planish::cli
