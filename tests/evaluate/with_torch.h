#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <optional>

#include "base/subprocess.h"
#include "worker/toolbox.h"

namespace planish::testing {

/// Those of this build; nothing, with a word on it, where no Python with torch is found.
inline std::optional<worker::Toolbox> tools() {
  worker::Toolbox box = worker::Toolbox::resolve(std::filesystem::path(PLANISH_BUILD_DIR) / "bin");
  if (auto good = box.check(); !good.has_value()) {
    MESSAGE("skipped: " << good.error().message);
    return std::nullopt;
  }
  SpawnOptions options;
  options.command = {box.python.string(), "-c",
                     "import importlib.util,sys;sys.exit(importlib.util.find_spec('torch') is None)"};
  const auto probe = run_command(options, 60);
  if (!probe.has_value() || !probe->status.ok()) {
    MESSAGE("skipped: no torch in " << box.python.string());
    return std::nullopt;
  }
  return box;
}

}  // namespace planish::testing
