// What compute-sanitizer says, and how it is asked: by a stand-in, which a machine without a GPU can run.
#include "worker/memory_check.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/file.h"

using namespace planish;
using namespace planish::worker;
using Said = MemoryCheck::Result;

namespace {

MemoryCheck report(const char* tool, std::string text) {
  return read_memory_report(tool, text, "==");
}

/// A tool that does `script` in its guest's place. $prefix, $tool and $program (what it is to watch) are set.
Toolbox tools_with(const TempDir& home, const std::string& script) {
  const auto file = home.path() / "compute-sanitizer";
  const std::string head =
      "#!/bin/sh\nprogram=\nwhile [ $# -gt 0 ]; do case $1 in --prefix) prefix=$2;; --tool) tool=$2;; -m) program=$2;; "
      "esac; shift; done\n";
  REQUIRE(write_file(file, head + script).has_value());
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  Toolbox tools = Toolbox::resolve(std::filesystem::path(PLANISH_BUILD_DIR) / "bin");
  tools.compute_sanitizer = file;
  return tools;
}

MemoryCheck asked(const std::string& script, double limit = 60) {
  const auto home = TempDir::create("planish-test-");
  REQUIRE(home.has_value());
  return check_memory(tools_with(*home, script), {.tool = "memcheck", .task = "t.py", .path = "s.py"}, limit);
}

}  // namespace

TEST_CASE("a report without errors is clean, one that does not come to its end is none") {
  CHECK(report("memcheck", "==COMPUTE-SANITIZER\n== ERROR SUMMARY: 0 errors\n").result == Said::clean);
  const MemoryCheck cut = report("memcheck", "== COMPUTE-SANITIZER\n== Invalid __global__ read of size 4 bytes\n");
  CHECK(cut.result == Said::not_run);
  CHECK(cut.reason.find("end of its report") != std::string::npos);
  CHECK(report("memcheck", "").result == Said::not_run);
  const MemoryCheck refused = report("memcheck", "== Error: Device not supported.\n");
  CHECK(refused.result == Said::not_run);
  CHECK(refused.reason == "Device not supported.");
  // It looked at nothing: a summary without errors is no word on the module.
  const MemoryCheck idle =
      report("memcheck", "== Error: Target application returned an error\n== ERROR SUMMARY: 0 errors\n");
  CHECK(idle.result == Said::not_run);
}

TEST_CASE("findings name their kernel, however a version writes it") {
  const MemoryCheck found = report("memcheck",
                                   "== Invalid __global__ write of size 4 bytes\n"
                                   "==     at void mine<(int)4>(float *)+0x160 in demo.cu:6\n"
                                   "==     by thread (0,0,0) in block (0,0,0)\n"
                                   "==     Access at 0x7f is out of bounds\n"
                                   "== \n"
                                   "== Invalid __shared__ read of size 4 bytes\n"
                                   "==     at 0x1a0 in other(float*, int)\n"
                                   "== ERROR SUMMARY: 2 errors\n");
  CHECK(found.result == Said::found);
  REQUIRE(found.findings.size() == 2);
  CHECK(found.findings[0].kernel == "void mine<(int)4>");
  CHECK(found.findings[0].text == "Invalid __global__ write of size 4 bytes");
  CHECK(found.findings[1].kernel == "other");
  const MemoryCheck race =
      report("racecheck",
             "== Error: Race reported between Write access at sum(int *, int *)+0x100 in race.cu:10\n"
             "==     and Read access at sum(int *, int *)+0x280 in race.cu:27 [508 hazards]\n"
             "== \n== RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n");
  CHECK(race.result == Said::found);
  REQUIRE(race.findings.size() == 1);
  CHECK(race.findings[0].kernel == "sum");
  const MemoryCheck colon = report("initcheck",
                                   "== Uninitialized __global__ memory read of size 4 bytes\n==     at k:0x70\n"
                                   "== ERROR SUMMARY: 96 errors\n");
  REQUIRE(colon.findings.size() == 1);
  CHECK(colon.findings[0].kernel == "k");
}

TEST_CASE("hazards without consequence, and lines that are not the tool's, are no findings") {
  CHECK(report("racecheck",
               "== Warning: Race reported between Write access at k+0x1 and Write access at k+0x2\n"
               "== RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n")
            .result == Said::clean);
  const MemoryCheck forged = report("memcheck",
                                    "Invalid __global__ write of size 4 bytes\n    at k+0x1\nERROR SUMMARY: 1 errors\n"
                                    "== ERROR SUMMARY: 0 errors\n");
  CHECK(forged.result == Said::clean);
  CHECK(report("memcheck", "ERROR SUMMARY: 0 errors\n").result == Said::not_run);
}

TEST_CASE("errors that the report does not describe refuse as well") {
  const MemoryCheck found = report("memcheck", "== ERROR SUMMARY: 3 errors\n");
  CHECK(found.result == Said::found);
  REQUIRE(found.findings.size() == 1);
  CHECK(found.findings[0].text.find("3 errors") == 0);
}

TEST_CASE("what the tool says of PyTorch's own kernels is not held against a solution") {
  MemoryCheck check{"initcheck", Said::found, {{"gemm", "Uninitialized"}, {"mine", "Uninitialized"}}, "", 1};
  const MemoryCheck reference{"initcheck", Said::found, {{"gemm", "Uninitialized"}}, "", 1};
  const MemoryCheck left = beside_reference(check, reference);
  CHECK(left.result == Said::found);
  REQUIRE(left.findings.size() == 1);
  CHECK(left.findings[0].kernel == "mine");
  CHECK(left.reason.find("1 findings") == 0);
  check.findings.pop_back();
  CHECK(beside_reference(check, reference).result == Said::clean);
  MemoryCheck broken = report("initcheck", "== Uninitialized read\n==     at gemm+0x10\n");
  REQUIRE(broken.result == Said::found);
  CHECK(beside_reference(broken, reference).result == Said::not_run);
  MemoryCheck unknown;
  unknown.reason = "no memory";
  CHECK(beside_reference(check, unknown).result == Said::found);
  CHECK(beside_reference(check, unknown).reason.find("no memory") != std::string::npos);
}

TEST_CASE("the tool is asked in a guest's place, about the right program") {
  CHECK(asked("test \"$program\" = planish.runner.few_calls && echo \"${prefix} ERROR SUMMARY: 0 errors\"").result ==
        Said::clean);
  const MemoryCheck found = asked(
      "echo \"$prefix Invalid __global__ write of size 4 bytes\"; echo \"$prefix     at mine(float*)+0x1\"; "
      "echo \"$prefix ERROR SUMMARY: 1 error\"; exit 1");
  CHECK(found.result == Said::found);
  CHECK(found.seconds > 0);
  // A line that does not know the mark is the module's own.
  CHECK(asked("echo '========= ERROR SUMMARY: 0 errors'").result == Said::not_run);
  const MemoryCheck held = asked("touch \"$0.new\" && echo \"${prefix} ERROR SUMMARY: 0 errors\"");
  CHECK(held.result == Said::not_run);
  // Where /tmp can be written to, it is the guest's own; where it starts, it can be.
  (void)asked("touch /tmp/planish-no-guest");
  CHECK_FALSE(std::filesystem::exists("/tmp/planish-no-guest"));
  CHECK(asked("touch new && echo \"${prefix} ERROR SUMMARY: 0 errors\"").result == Said::clean);
  CHECK_FALSE(std::filesystem::exists("new"));
}

TEST_CASE("a module that fails under the tool, one that takes too long, and a tool that cannot start are said") {
  const MemoryCheck failed = asked("echo 'few_calls: RuntimeError: no graph' >&2; echo \"$prefix Error: it ended\"");
  CHECK(failed.result == Said::not_run);
  CHECK(failed.reason == "it ended: RuntimeError: no graph");
  const MemoryCheck slow = asked("sleep 30", 0.5);
  CHECK(slow.result == Said::not_run);
  CHECK(slow.reason == "it did not end within 0.5 s, nor within 0.5 s when it was asked again");
  const MemoryCheck flooded = asked(
      "echo \"$prefix Uninitialized __global__ memory read of size 4 bytes\"; echo \"$prefix     at mine+0x10\"; sleep "
      "30",
      0.5);
  CHECK(flooded.result == Said::found);
  CHECK(flooded.findings.at(0).kernel == "mine");
  CHECK(flooded.reason.find("end of its report") != std::string::npos);
  Toolbox tools = Toolbox::resolve(std::filesystem::path(PLANISH_BUILD_DIR) / "bin");
  tools.compute_sanitizer = "/no/such/tool";
  CHECK(check_memory(tools, {.tool = "memcheck", .task = "t.py", .path = {}}, 60).result == Said::not_run);
}

TEST_CASE("the tool is found by its variable") {
  ::setenv("PLANISH_COMPUTE_SANITIZER", "/bin/true", 1);
  CHECK(Toolbox::resolve().compute_sanitizer == "/bin/true");
  ::unsetenv("PLANISH_COMPUTE_SANITIZER");
}
