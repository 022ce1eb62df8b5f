#include "cli/devices.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace planish::cli;

TEST_CASE("a suite's devices: those named, those that are visible, or the one that a task finds by itself") {
  const std::vector<std::string> one = {""};
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(devices_for("", "cpu") == one);
  CHECK(devices_for("0, 2 ,GPU-a", "cpu") == std::vector<std::string>{"0", "2", "GPU-a"});
  CHECK(devices_for(",", "cpu") == one);
  ::setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
  CHECK(devices_for("", "cuda") == std::vector<std::string>{"3", "1"});
  CHECK(devices_for("0", "cuda") == std::vector<std::string>{"0"});
  CHECK(devices_for("", "cpu") == one);
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  CHECK(devices_for("", "cuda") == one);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}
