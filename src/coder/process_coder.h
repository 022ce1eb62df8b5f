#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coder/coder.h"

namespace planish::coder {

/// A command of the user's as a coder: a process for each region, which reads questions as JSON lines on its standard
/// input and answers each with one line on its standard output (docs/formats/coder.md). It runs as the user does.
struct ProcessSeat {
  std::vector<std::string> command;
  std::filesystem::path directory;  ///< working folder; empty keeps ours
  double patience = 600;            ///< seconds that an answer may take
};

/// A seat of this name. The processes are started when their regions are first asked, and killed when the search ends.
Seat process_seat(std::string name, ProcessSeat how);

}  // namespace planish::coder
