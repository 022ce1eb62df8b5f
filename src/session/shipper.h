#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "session/plan.h"

namespace planish::session {

/// The folder form of src/ship.
std::unique_ptr<Shipper> make_shipper();

/// A compiled kernel, which is named by its content in the cache. Kind `no_such_file`.
Result<std::filesystem::path> find_binary(const std::filesystem::path& cache, const std::string& sha256);

}  // namespace planish::session
