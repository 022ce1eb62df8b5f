#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/output.h"

namespace planish::cli {

/// The environment endpoint (docs/environment.md), as typed.
struct EnvironmentVerb {
  std::string tasks;  ///< folder of tasks, as a suite's
  bool task_sources = false;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;
  std::string token_file;  ///< else the variable PLANISH_TOKEN
  std::string target = "auto", accuracy = "eager", baselines = "none", devices;
  int workers = 1;  ///< evaluators a device
  int seeds = 5;
  bool no_times = false;
  std::string reward;  ///< weights (environment/grade.h)
  std::string task_timeout = "2m", max_time = "10m", drain = "60s";
  int queue = 256;
  int warm_tasks = 4;
  std::vector<std::string> settings;  ///< words before the verb of each command that it starts
};

/// Serves until it is interrupted.
int environment_verb(const EnvironmentVerb& options, const Output& output);

}  // namespace planish::cli
