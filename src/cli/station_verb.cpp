#include "cli/station_verb.h"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "base/channel.h"
#include "base/json.h"
#include "base/owned_folder.h"
#include "cli/station.h"

namespace planish::cli {
namespace {

Json station_answer(const std::string& line, Station& station, const CancelToken& closed) {
  const auto error = [](const Error& e) -> Json {
    return {{"error", {{"kind", e.kind}, {"message", e.message}, {"hint", e.hint}}}};
  };
  const auto request = parse_json(line, "bad_request", "request");
  if (!request) return error(request.error());
  std::vector<std::string> arguments;
  double seconds = 0;
  ObjectReader reader(*request, "bad_request", "request");
  reader.texts("arguments", arguments);
  reader.number("seconds", seconds);
  if (arguments.empty()) reader.problem("no command");
  if (auto good = reader.finish(); !good) return error(good.error());
  const auto ended = station.run(std::move(arguments), seconds, closed);
  if (!ended) return error(ended.error());
  return {{"document", ended->document}, {"code", ended->status.code}, {"signal", ended->status.signal}};
}

}  // namespace

int run_station(const std::vector<std::string>& arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  std::signal(SIGPIPE, SIG_IGN);
  StationOptions options;
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] == "--keep-tasks") options.kept_tasks = std::strtoul(arguments[i + 1].c_str(), nullptr, 10);
    if (arguments[i] == "--task-timeout") options.task_timeout = std::strtod(arguments[i + 1].c_str(), nullptr);
  }
  constexpr double an_hour = 3600;
  (void)remove_ownerless_folders({"planish-ev-"}, an_hour);
  const auto folder = OwnedFolder::create("planish-ev-");
  if (!folder) {
    fmt::print(stderr, "error: {}\n", folder.error().message);
    return 2;
  }
  Channel channel{UniqueFd(::dup(STDIN_FILENO))};
  Station station(0, "", folder->path() / "evaluator", options);
  // A parent that goes while a command runs is noticed by whoever reads.
  const CancelToken closed;
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<std::string> lines;
  bool over = false;
  std::jthread reader([&] {
    while (true) {
      auto line = channel.receive(deadline_in(1e9));
      const std::scoped_lock lock(mutex);
      if (line) lines.push_back(std::move(*line));
      over = !line;
      if (over) closed.cancel();
      arrived.notify_all();
      if (over) return;
    }
  });
  while (true) {
    std::unique_lock lock(mutex);
    arrived.wait(lock, [&] { return over || !lines.empty(); });
    if (over) return 0;
    const std::string line = std::move(lines.front());
    lines.pop_front();
    lock.unlock();
    (void)channel.send(dump_json(station_answer(line, station, closed)), {}, deadline_in(60));
  }
}

}  // namespace planish::cli
