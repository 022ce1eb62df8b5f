#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace planish::cli {

/// One thing that Planish needs or can use.
struct Check {
  enum class Need : std::uint8_t { required, target, optional };
  std::string name;  ///< stable: "gpu", "nvrtc", …
  bool ok = false;
  Need need = Need::optional;
  std::string found;     ///< what is there, or what was seen instead
  std::string advice;    ///< what to do where it is missing; empty when ok
  std::string target{};  ///< need == target: whose
};

/// All checks, in the order in which they are shown. Starts the Python interpreter and the compiler; takes seconds.
/// Changes nothing but for creating the cache folder and the store's.
std::vector<Check> run_checks(const std::filesystem::path& store_file);

}  // namespace planish::cli
