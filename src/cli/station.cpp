#include "cli/station.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "base/clock.h"
#include "base/file.h"
#include "cli/document_in.h"
#include "evaluate/client.h"

namespace planish::cli {
namespace {

/// A limit for those that have none.
constexpr double unlimited_seconds = 7 * 24 * 3600;
/// What an interrupted command gets to end by itself.
constexpr double farewell_seconds = 300;

}  // namespace

Station::Station(std::size_t number, std::string device, std::filesystem::path socket, StationOptions options)
    : number_(number), device_(std::move(device)), socket_(std::move(socket)), options_(options) {}
Station::~Station() = default;

std::vector<std::pair<std::string, std::optional<std::string>>> Station::environment() {
  std::vector<std::pair<std::string, std::optional<std::string>>> out;
  if (!device_.empty()) out.emplace_back("CUDA_VISIBLE_DEVICES", device_);
  if (!evaluator_ || !EvaluatorClient::connect(socket_)) {
    evaluator_.reset();
    auto started = EvaluatorClient::spawn(executable_path(), socket_, 60,
                                          {"--task-timeout", fmt::format("{}", options_.task_timeout), "--ready", "1",
                                           "--keep-tasks", fmt::format("{}", options_.kept_tasks)},
                                          out);
    if (started) evaluator_ = std::move(*started);
  }
  if (evaluator_) out.emplace_back("PLANISH_EVALUATOR", socket_.string());
  return out;
}

std::string Station::said() const {
  const std::scoped_lock lock(mutex_);
  if (running_ == nullptr) return {};
  std::string text = running_->output_tail();
  text.resize(text.find_last_of('\n') == std::string::npos ? 0 : text.find_last_of('\n'));  // a line that has ended
  const std::size_t begin = text.find_last_of('\n') + 1;                                    // npos + 1: the first
  const std::size_t word = text.find_first_not_of(' ', begin);
  return word == std::string::npos || text[word] == '{' ? "" : text.substr(word);
}

Result<Station::Ended> Station::run(std::vector<std::string> arguments, double seconds, const CancelToken& cancel) {
  Ended out;
  out.verb = verb_of(arguments);
  SpawnOptions options;
  options.command = std::move(arguments);
  options.command.insert(options.command.begin(), executable_path().string());
  options.whole_output = true;
  options.env = environment();
  PLANISH_TRY(auto child, Subprocess::spawn(options));
  const auto watch = [this](const Subprocess* running) {
    const std::scoped_lock lock(mutex_);
    running_ = running;
  };
  watch(&child);
  const TimePoint deadline = deadline_in(seconds > 0 ? seconds : unlimited_seconds);
  auto ended = child.wait(deadline, &cancel);
  out.interrupted = !ended && ended.error().kind == "cancelled";
  if (out.interrupted) {
    // The child ends as it would on a terminal: cleanly, with what it has.
    child.kill(SIGINT);
    ended = child.wait(std::min(deadline, deadline_in(farewell_seconds)));
  }
  watch(nullptr);
  if (!ended) {
    child.kill();
    if (evaluator_) evaluator_->shutdown();
    evaluator_.reset();
    return fail("hang", fmt::format("{} did not end", out.verb));
  }
  out.status = *ended;
  out.document = document_in(child.output_tail());
  return out;
}

std::vector<std::unique_ptr<Station>> stations_in(const std::filesystem::path& folder,
                                                  const std::vector<std::string>& devices, int workers,
                                                  const StationOptions& options) {
  std::vector<std::unique_ptr<Station>> out;
  for (int worker = 0; worker < std::max(1, workers); ++worker) {
    for (const std::string& device : devices) {
      const std::size_t number = out.size();
      out.push_back(std::make_unique<Station>(number, device, folder / fmt::format("evaluator-{}", number), options));
    }
  }
  return out;
}

}  // namespace planish::cli
