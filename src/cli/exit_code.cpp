#include "cli/exit_code.h"

#include <algorithm>
#include <array>

namespace planish::cli {

int exit_code_for(std::string_view error_kind) {
  static constexpr std::array<std::string_view, 29> environment = {
      "environment", "missing_import",    "missing_runtime",  "missing_package", "no_torch",
      "no_python",   "no_device",         "no_gpu",           "no_cuda",         "no_driver",
      "no_compiler", "no_nvrtc",          "no_such_program",  "spawn_failed",    "disk_full",
      "read_only",   "permission_denied", "store_unwritable", "not_built",       "io",
      "device_busy", "out_of_memory",     "cache_unwritable", "device_lost",     "killed",
      "no_libcurl",  "no_libmicrohttpd",  "no_cluster",       "no_model_key"};
  if (error_kind == "cancelled" || error_kind == "interrupted") return exit_code::interrupted;
  return std::ranges::find(environment, error_kind) != environment.end() ? exit_code::environment : exit_code::usage;
}

}  // namespace planish::cli
