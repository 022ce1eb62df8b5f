#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "suite/score.h"

namespace planish::report {

/// A suite as one HTML page that loads nothing: levels, verdicts, every row. What tasks and solutions wrote is escaped.
std::string suite_page(const std::vector<suite::Row>& rows, const suite::SuiteFacts& facts);

/// Writes suite.json and suite.html into a folder.
Status save_suite(const std::filesystem::path& folder, const std::vector<suite::Row>& rows,
                  const suite::SuiteFacts& facts);

}  // namespace planish::report
