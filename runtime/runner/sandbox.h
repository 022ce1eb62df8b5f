#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

/// Everything that `--sandbox` turns on (docs/sandbox.md).
namespace planish::runner {

struct SandboxOptions {
  bool cuda = false;                  ///< the driver must keep working, and there is no foreign host code
  std::vector<std::string> readable;  ///< folders that binaries come from; made if missing
  std::string scratch;                ///< folder that may be written to; empty for none
};

/// Each part is best effort. Returns what took effect: `landlock` (version, 0 for none), `seccomp` (`guest`, `driver`,
/// `none`), `no_new_privileges`, `no_capabilities`. Call once, before any thread starts and after leave_network().
nlohmann::json enter_sandbox(const SandboxOptions& options);

}  // namespace planish::runner
