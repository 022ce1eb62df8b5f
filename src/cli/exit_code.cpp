#include "cli/exit_code.h"

#include <algorithm>
#include <array>

namespace planish::cli {

int exit_code_for(ErrorKind kind) {
  static constexpr std::array<ErrorKind, 23> environment = {
      "environment",      "missing_import",    "missing_runtime",  "missing_package", "no_torch",
      "no_device",        "no_compiler",       "no_such_program",  "spawn_failed",    "disk_full",
      "read_only",        "permission_denied", "store_unwritable", "not_built",       "io",
      "out_of_memory",    "cache_unwritable",  "device_lost",      "killed",          "no_libcurl",
      "no_libmicrohttpd", "no_cluster",        "no_model_key"};
  if (kind == "cancelled" || kind == "interrupted") return exit_code::interrupted;
  return std::ranges::find(environment, kind) != environment.end() ? exit_code::environment : exit_code::usage;
}

}  // namespace planish::cli
