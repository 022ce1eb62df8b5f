#pragma once

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "evaluate/device_host.h"
#include "evaluate/task_evaluator.h"
#include "lock_folder.h"
#include "with_torch.h"

namespace planish::testing {

using Lines = std::vector<std::string>;

inline constexpr const char* watched_source = R"(
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0
def get_inputs():
    return [torch.randn(64, 128)]
def get_input_variants():
    return [[torch.randn(32, 128)]]
def get_init_inputs():
    return []
)";

/// A task of an evaluator whose device others measure on as well.
class Watched {
 public:
  explicit Watched(const worker::Toolbox& box, Limits limits = {}) : tools_(box), limits_(limits) {
    ::setenv("REAL_RUNNER", box.runner.c_str(), 1);
    ::setenv("REAL_PYTHON", box.python.c_str(), 1);
    ::setenv("WATCH_LOG", log_.c_str(), 1);
    ::setenv("WATCH_FAILS", fails_.c_str(), 1);
    ::setenv("WATCHED_LOCK", (locks_.folder.path() / "planish-GPU-1.lock").c_str(), 1);
    tools_.cache_dir = folder_.path() / "cache";
    tools_.python = tools_.runner =
        std::filesystem::path(PLANISH_SOURCE_DIR) / "tests" / "evaluate" / "watched_python.py";
    begin();
    auto host = DeviceHost::open(tools_, "cpu", limits_);
    REQUIRE_MESSAGE(host.has_value(), host.error().message);
    device_ = std::move(*host);
    device_->turn.of("GPU-1", false);
    write_task(watched_source);
  }

  /// What happens next is noted anew. `fails`: "KIND METHOD N", as watched_python.py reads it.
  void begin(const std::string& fails = "") {
    REQUIRE(write_file(log_, ""));
    REQUIRE(write_file(fails_, fails));
  }
  std::unique_ptr<TaskEvaluator> task(bool ahead = false) {
    OpenRequest request;
    request.ahead = ahead;
    request.baselines = {"eager"};
    request.task = folder_.path() / "task.py";
    request.target = "cpu";
    request.seeds = 7;
    return std::make_unique<TaskEvaluator>(tools_, limits_, device_, request);
  }
  void write_task(const std::string& source) { REQUIRE(write_file(folder_.path() / "task.py", source)); }
  /// A solution with this forward, of whose module `before` is the first line.
  VerifyRequest solution(const std::string& forward, const std::string& before = "") {
    const auto path = folder_.path() / "solution.py";
    REQUIRE(write_file(path, fmt::format("import time\nimport torch\n{}\nclass ModelNew(torch.nn.Module):\n"
                                         "    def forward(self, x):\n{}\n",
                                         before, forward)));
    VerifyRequest request;
    request.path = path;
    request.seeds = 1;
    return request;
  }
  /// Of one kind of process and method, what became of the device at each answer.
  Lines noted(const std::string& of) const {
    std::istringstream lines(read_file(log_).value_or(""));
    Lines out;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(of + " ")) out.push_back(line.substr(of.size() + 1));
    }
    return out;
  }
  /// Waits until so many processes of a kind have started, for a minute.
  bool start(const std::string& kind, std::size_t count) const {
    for (int tries = 0; tries < 600 && noted(kind + " started").size() < count; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return noted(kind + " started").size() == count;
  }
  static bool nobody_is_there() { return lock_device("GPU-1", "probe.py", 0).has_value(); }

 private:
  LockFolder locks_;
  TempDir folder_ = std::move(TempDir::create("planish-away-").value());
  std::filesystem::path log_ = folder_.path() / "log", fails_ = folder_.path() / "fails";
  worker::Toolbox tools_;
  Limits limits_;
  std::shared_ptr<DeviceHost> device_;
};

}  // namespace planish::testing
