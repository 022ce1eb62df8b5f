#include "worker/baseline.h"

#include <array>

#include "worker/replies.h"
#include "worker/rpc.h"

namespace planish::worker {
namespace {

Result<double> compile_seconds(const Json& added) {
  double seconds = 0;
  ObjectReader reader(added, "protocol", "add");
  reader.lenient();
  reader.number("compile_seconds", seconds, ObjectReader::Need::optional);
  PLANISH_CHECK(reader.finish());
  return seconds;
}

}  // namespace

Baseline::Baseline(std::unique_ptr<Child> child) : child_(std::move(child)) {}
Baseline::Baseline(Baseline&&) noexcept = default;
Baseline& Baseline::operator=(Baseline&&) noexcept = default;
Baseline::~Baseline() = default;

Result<Baseline> Baseline::start(const Toolbox& tools, const std::string& device, std::size_t max_rss, bool compiles) {
  PLANISH_TRY(auto scratch, OwnedFolder::create(guest_folder_prefix));
  std::vector<std::string> arguments;
  if (compiles) arguments.emplace_back("--compiles");
  PLANISH_TRY(auto baseline,
              start(tools.guest_module("planish.baseline", arguments, {scratch.path(), device, max_rss, true})));
  baseline.scratch_ = std::move(scratch);
  return baseline;
}

Result<Baseline> Baseline::start(const SpawnOptions& options) {
  PLANISH_TRY(auto child, Child::start("baseline", options));
  return Baseline(std::move(child));
}

Status Baseline::hello(double timeout_seconds) {
  PLANISH_CHECK(child_->call("hello", Json::object(), {}, timeout_seconds));
  return {};
}

Status Baseline::open(const std::string& task, const std::string& device, const std::string& accuracy,
                      double timeout_seconds) {
  PLANISH_CHECK(
      child_->call("open", Json{{"task", task}, {"device", device}, {"accuracy", accuracy}}, {}, timeout_seconds));
  return {};
}

Result<double> Baseline::add(const std::string& name, const std::string& kind, const std::string& path,
                             double timeout_seconds) {
  Json params{{"name", name}, {"kind", kind}};
  if (!path.empty()) params["path"] = path;
  params["seconds"] = timeout_seconds;
  // It ends by itself; one that does not is ended a little later.
  constexpr double grace = 10;
  PLANISH_TRY(auto reply, child_->call("add", std::move(params), {}, timeout_seconds + grace));
  return compile_seconds(reply.result);
}

Result<double> Baseline::add_behind(int gate, const std::string& mode) {
  constexpr double any_time = 7 * 24 * 3600;
  const std::array<int, 1> fds{gate};
  PLANISH_TRY(auto reply, child_->call("add", Json{{"name", mode}, {"kind", mode}}, fds, any_time));
  return compile_seconds(reply.result);
}

Result<std::map<std::string, Result<Timing>>> Baseline::time(const std::vector<std::string>& names,
                                                             const TimeRequest& request, double timeout_seconds) {
  PLANISH_TRY(auto reply, child_->call("time",
                                       Json{{"names", names},
                                            {"min_runs", request.min_runs},
                                            {"max_runs", request.max_runs},
                                            {"max_seconds", request.max_seconds},
                                            {"interval", request.interval}},
                                       {}, timeout_seconds));
  // Either {name: timing} itself, or under `times`.
  const Json& table = reply.result.contains("times") ? reply.result["times"] : reply.result;
  std::map<std::string, Result<Timing>> times;
  if (const auto errors = reply.result.find("errors"); errors != reply.result.end() && errors->is_object()) {
    for (const auto& [name, error] : errors->items()) {
      times.emplace(name, std::unexpected(error_in(error)));
    }
  }
  for (const std::string& name : names) {
    if (!table.is_object() || !table.contains(name)) continue;
    PLANISH_TRY(auto timing, read_timing(table[name]));
    times.insert_or_assign(name, std::move(timing));
  }
  return times;
}

bool Baseline::running() {
  return child_->running();
}
bool Baseline::alive() const {
  return child_->alive();
}
void Baseline::kill() {
  child_->kill();
}

}  // namespace planish::worker
