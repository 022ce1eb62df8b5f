#include "cli/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/hidden_environment.h"
#include "base/json.h"
#include "base/owned_folder.h"
#include "cli/devices.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/station.h"
#include "environment/service.h"
#include "session/result_document.h"
#include "suite/layout.h"
#include "worker/printable.h"
#include "worker/toolbox.h"

namespace planish::cli {
using namespace session;

namespace {

namespace fs = std::filesystem;

constexpr const char* token_variable = "PLANISH_TOKEN";
constexpr const char* environment_folder_prefix = "planish-env-";
constexpr std::size_t least_token = 16;

struct EnvironmentSettings {
  std::vector<std::string> of_modules, of_sources;  ///< arguments of `verify` and of `try`
  environment::RewardWeights weights;
  environment::ServiceOptions service;
  double task_timeout = 0, max_seconds = 0, drain_seconds = 0;
};

Result<std::string> token_of(const EnvironmentVerb& options) {
  hide_from_children(token_variable);
  std::string token = hidden_value(token_variable).value_or("");
  if (!options.token_file.empty()) {
    PLANISH_TRY(const auto text, read_file(options.token_file));
    token = text.substr(0, text.find_first_of("\r\n"));
    if (token.empty())
      return fail("usage", fmt::format("{} holds no token", options.token_file), "write one into its first line");
  }
  if (!token.empty() && token.size() < least_token) {
    return fail("usage", fmt::format("the token has {} characters, {} are the least", token.size(), least_token),
                "openssl rand -hex 16 draws one");
  }
  PLANISH_TRY(const bool loopback, http::is_loopback(options.host));
  if (!loopback && token.empty()) {
    return fail("usage", fmt::format("{} is reached from other machines, and there is no token", options.host),
                fmt::format("give --token-file or {}, or listen at 127.0.0.1", token_variable));
  }
  return token;
}

Result<EnvironmentSettings> settings_of(const EnvironmentVerb& o, const fs::path& folder) {
  EnvironmentSettings out;
  PLANISH_CHECK(check_target(o.target));
  PLANISH_CHECK(check_accuracy(o.accuracy));
  PLANISH_CHECK(parse_baselines(o.baselines));
  PLANISH_TRY(out.task_timeout, parse_limit(o.task_timeout));
  PLANISH_TRY(out.max_seconds, parse_limit(o.max_time));
  PLANISH_TRY(out.drain_seconds, parse_duration(o.drain));
  PLANISH_TRY(out.weights, environment::parse_reward(o.reward));
  out.of_modules = {"--json",         "--quiet",      "--target",         o.target,
                    "--accuracy",     o.accuracy,     "--seeds",          std::to_string(o.seeds),
                    "--task-timeout", o.task_timeout, "--no-memory-check"};
  if (!o.no_times) out.of_modules.insert(out.of_modules.end(), {"--time", "--baselines", o.baselines});
  out.of_sources = {"--json",     "--quiet",  "--target",       o.target,
                    "--accuracy", o.accuracy, "--task-timeout", o.task_timeout};
  if (o.tasks.empty() && !o.task_sources)
    return fail("usage", "there is nothing to judge completions by", "give --tasks DIR, or --task-sources");
  if (!o.tasks.empty()) {
    PLANISH_TRY(const auto tasks_folder, existing_file(o.tasks, "folder"));
    PLANISH_TRY(const auto tasks, suite::tasks_in(tasks_folder));
    for (const suite::Task& task : tasks) out.service.tasks[task.name] = task.path;
  }
  out.service.task_sources = o.task_sources;
  out.service.folder = folder / "tasks";
  PLANISH_TRY(out.service.token, token_of(o));
  PLANISH_TRY(out.service.loopback, http::is_loopback(o.host));
  return out;
}

/// Judges what the board has, one completion after the other, in commands on one station.
class Judging {
 public:
  Judging(const EnvironmentSettings& settings, const EnvironmentVerb& options, const Output& output, fs::path folder,
          environment::Board& board)
      : settings_(settings), options_(options), output_(output), folder_(std::move(folder)), board_(board) {}

  /// Until the board is closed and empty. `ending`: what runs is interrupted.
  void run(Station& station, std::size_t device, const CancelToken& ending) {
    std::deque<std::string> warm;
    while (auto work = board_.take(device, warm)) {
      const std::string task = work->submission.task;
      environment::Grade grade = judge(*work, station, ending);
      say(*work, grade);
      board_.finish(device, work->id, std::move(grade));
      std::erase(warm, task);
      warm.push_front(task);
      if (warm.size() > static_cast<std::size_t>(options_.warm_tasks)) warm.pop_back();
    }
  }

 private:
  environment::Grade judge(const environment::Board::Work& work, Station& station, const CancelToken& ending) {
    using environment::Form;
    const auto code = environment::code_in(work.submission.completion);
    if (!code) return environment::unformatted(code.error(), settings_.weights);
    const bool module = code->form == Form::module;
    const fs::path place = folder_ / "jobs" / fmt::format("{}-{}", station.number(), work.id);
    const fs::path file = place / (module ? "solution.py" : "kernels.txt");
    if (auto written = write_file(file, code->text); !written)
      return environment::not_judged(written.error(), code->form);
    std::vector<std::string> command = options_.settings;
    command.insert(command.end(), {module ? "verify" : "try", work.submission.task_path.string(), file.string()});
    const auto& arguments = module ? settings_.of_modules : settings_.of_sources;
    command.insert(command.end(), arguments.begin(), arguments.end());
    if (module && !options_.no_times) {
      const fs::path times = folder_ / "times" / fmt::format("{}-{}.json", work.submission.task, station.number());
      command.insert(command.end(), {"--keep-times", times.string()});
    }
    const auto ended = station.run(std::move(command), settings_.max_seconds, ending);
    std::error_code ignored;
    fs::remove_all(place, ignored);
    if (!ended && ended.error().kind == "hang") {
      return environment::not_judged({"time_limit",
                                      fmt::format("it was not judged within {:g} s", settings_.max_seconds),
                                      {},
                                      "--max-time allows more"},
                                     code->form);
    }
    if (!ended) return environment::not_judged(ended.error(), code->form);
    return environment::grade_of(ended->document, code->form, settings_.weights);
  }

  void say(const environment::Board::Work& work, const environment::Grade& grade) const {
    if (output_.quiet) return;
    std::string text = grade.outcome;
    if (grade.error) text += fmt::format(": {}: {}", grade.error->kind.name(), grade.error->message);
    if (grade.speedup) text += fmt::format(", {:.2f}x", *grade.speedup);
    fmt::print(stderr, "{} {}: {}\n", work.id, work.submission.task, worker::printable(text));
    std::fflush(stderr);
  }

  const EnvironmentSettings& settings_;
  const EnvironmentVerb& options_;
  const Output& output_;
  fs::path folder_;
  environment::Board& board_;
};

void announce(const EnvironmentVerb& options, const EnvironmentSettings& settings, std::uint16_t port,
              std::size_t devices, const Output& output) {
  const bool v6 = options.host.find(':') != std::string::npos;
  const std::string url =
      v6 ? fmt::format("http://[{}]:{}", options.host, port) : fmt::format("http://{}:{}", options.host, port);
  const Json document = {{"schema_version", ResultDocument::schema_version},
                         {"url", url},
                         {"tasks", settings.service.tasks.size()},
                         {"devices", devices}};
  output.result(dump_json(document), fmt::format("listening at {} ({} tasks, {} device{})\n", url,
                                                 settings.service.tasks.size(), devices, devices == 1 ? "" : "s"));
}

}  // namespace

int environment_verb(const EnvironmentVerb& options, const Output& output) {
  if (auto good = worker::Toolbox::resolve().check(); !good) return output.error(good.error());
  constexpr double an_hour = 3600;
  (void)remove_ownerless_folders({environment_folder_prefix}, an_hour);
  const auto folder = OwnedFolder::create(environment_folder_prefix);
  if (!folder) return output.error(folder.error());
  const auto settings = settings_of(options, folder->path());
  if (!settings) return output.error(settings.error());
  const CancelToken cancel = watch_interrupts();

  const std::vector<std::string> devices = devices_for(options.devices, options.target);
  environment::BoardOptions on_board;
  on_board.devices = devices.size();
  on_board.queue = static_cast<std::size_t>(options.queue);
  environment::Board board(on_board, real_clock());
  environment::Service service(settings->service, board);
  http::ServerOptions listening;
  listening.host = options.host;
  listening.port = options.port;
  listening.gate = [&service](const http::Head& head) { return service.gate(head); };
  listening.handler = [&service](http::Request request, const std::shared_ptr<http::Reply>& reply) {
    service.handle(std::move(request), reply);
  };
  auto server = http::Server::start(std::move(listening));
  if (!server) return output.error(server.error());

  StationOptions on_station;
  on_station.task_timeout = settings->task_timeout;
  on_station.kept_tasks = static_cast<std::size_t>(options.warm_tasks);
  const auto stations = stations_in(folder->path(), devices, options.workers, on_station);
  Judging judging(*settings, options, output, folder->path(), board);
  const CancelToken ending;
  std::vector<std::jthread> threads;
  for (const auto& station : stations) {
    threads.emplace_back([&judging, &ending, one = station.get(), device = station->number() % devices.size()] {
      judging.run(*one, device, ending);
    });
  }
  announce(options, *settings, (*server)->port(), devices.size(), output);

  const auto wait = [&board] {
    board.tick();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  while (!cancel.cancelled()) wait();
  board.close();
  const TimePoint give_up = deadline_in(settings->drain_seconds);
  while (!board.idle() && seconds_until(give_up) > 0) wait();
  board.abandon();
  ending.cancel();
  threads.clear();
  board.tick();
  (*server)->stop(5);
  return exit_code::success;
}

}  // namespace planish::cli
