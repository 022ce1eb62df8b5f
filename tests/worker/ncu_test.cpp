#include "worker/ncu.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/file.h"

using namespace planish;
using namespace planish::worker;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view table =
    R"csv("ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","gpu__time_duration.sum","dram__bytes_read.sum","lts__t_sector_hit_rate.pct","sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"
"","","","","","","","","","","","ns","byte","%","%"
"0","77","python3","127.0.0.1","scale(const float *, float *, int)","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0","12,345.50","16,777,216","41.5","n/a"
"1","77","python3","127.0.0.1","second","1","7","(32, 1, 1)","(1, 1, 1)","0","9.0","900","0","0","0"
)csv";

/// A program in ncu's place, which says what a test has it say.
struct FakeNcu {
  TempDir dir = TempDir::create().value();
  fs::path file = dir.path() / "ncu";
  explicit FakeNcu(const std::string& script) {
    REQUIRE(write_file(file, "#!/bin/sh\n" + script).has_value());
    fs::permissions(file, fs::perms::owner_all);
    REQUIRE(write_file(dir.path() / "table.csv", std::string(table)).has_value());
  }
  Result<std::vector<KernelCounters>> run(double seconds = 60) const {
    SpawnOptions program;
    program.command = {"echo", "the program ran"};
    return run_ncu({file, program, {"scale", "second"}, seconds});
  }
};

}  // namespace

TEST_CASE("a table of ncu's is read, whatever stands around it") {
  const auto read = parse_ncu("==PROF== Connected to process 77 (/usr/bin/python3)\nwords of the program\n" +
                              std::string(table) + "==PROF== Disconnected\n");
  REQUIRE(read.has_value());
  REQUIRE(read->size() == 2);
  const KernelCounters& first = read->front();
  CHECK(first.kernel == "scale(const float *, float *, int)");
  CHECK(first.grid == "(4096, 1, 1)");
  CHECK(first.block == "(256, 1, 1)");
  CHECK(first.value("time") == 12345.5);
  CHECK(first.value("dram_read") == 16777216);
  CHECK(first.value("l2_hit_rate") == 41.5);
  CHECK(first.counters.size() == 3);  // n/a is no number, and what is not in the table was not counted
  CHECK(first.counters[1].unit == "bytes");
  CHECK(first.value("issue_active") == 0);
}

TEST_CASE("what is no table, or half of one, is told from one") {
  const std::string text(table);
  CHECK(parse_ncu("").error().kind.name() == "no_counters");
  CHECK(parse_ncu("==ERROR== nothing\n").error().message.contains("no table"));
  CHECK(parse_ncu(text.substr(0, text.find("\"0\",\"77\""))).error().message.contains("no launch"));
  CHECK(parse_ncu(text.substr(0, text.size() - 30))->size() ==
        1);  // the last line is cut: its columns are not all there
  CHECK(parse_ncu("\"ID\",\"Kernel Name\"\n\"0\",\"f\"\n")->front().counters.empty());
}

TEST_CASE("ncu is put in front of the program, asked for the kernels alone, and changes no clocks") {
  const FakeNcu ncu(R"sh(echo "$@" > "$(dirname "$0")/asked"; for last; do :; done
case "$*" in *"echo the program ran") ;; *) exit 9 ;; esac
echo "$last"; cat "$(dirname "$0")/table.csv")sh");
  const auto counters = ncu.run();
  REQUIRE_MESSAGE(counters.has_value(), (counters ? "" : counters.error().message));
  CHECK(counters->size() == 2);
  const std::string asked = read_file(ncu.dir.path() / "asked").value();
  CHECK(asked.contains("--kernel-name regex:^(scale|second)$"));
  CHECK(asked.contains("--clock-control none"));
  CHECK(asked.contains("--print-units base"));
  CHECK(asked.contains("gpu__time_duration.sum,"));
}

TEST_CASE("a metric that this ncu does not know is left out") {
  const FakeNcu ncu(R"sh(case "$*" in *dram__bytes_read.sum*)
  echo "==ERROR== Failed to find metric dram__bytes_read.sum"; exit 1 ;; esac
sed 's/dram__bytes_read.sum/another/' "$(dirname "$0")/table.csv")sh");
  const auto counters = ncu.run();
  REQUIRE(counters.has_value());
  CHECK(counters->front().value("dram_read") == 0);
  CHECK(counters->front().value("time") == 12345.5);
  // One that knows none, and one that complains of what was never asked for.
  CHECK(FakeNcu(R"sh(m=$(echo "$*" | sed 's/.*--metrics \([^, ]*\).*/\1/'); echo "Failed to find metric $m"; exit 1)sh")
            .run()
            .error()
            .message.contains("none of the metrics"));
  CHECK(FakeNcu("echo Failed to find metric foo; exit 1").run().error().message.contains("Failed to find metric foo"));
}

TEST_CASE("why there are no counters is said in a sentence") {
  const auto said = [](const std::string& script) { return FakeNcu(script).run().error(); };
  const Error forbidden =
      said("echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters'; exit 1");
  CHECK(forbidden.kind.name() == "no_counters");
  CHECK(forbidden.message.contains("only administrators"));
  CHECK(said("echo boom; exit 3").message.contains("exit status 3: boom"));
  CHECK(said("echo '==WARNING== No kernels were profiled.'").message.contains("no table"));
  CHECK(FakeNcu("sleep 30").run(0.3).error().kind.name() == "timeout");
}

TEST_CASE("ncu is found by its variable, and by the path") {
  const FakeNcu ncu("true");
  const std::string path = std::getenv("PATH");
  REQUIRE(::setenv("PLANISH_NCU", ncu.file.c_str(), 1) == 0);
  CHECK(find_ncu() == ncu.file);
  REQUIRE(::setenv("PLANISH_NCU", "/nowhere/ncu", 1) == 0);
  CHECK(find_ncu().error().kind.name() == "no_ncu");
  CHECK(find_ncu().error().message.contains("/nowhere/ncu"));
  REQUIRE(::unsetenv("PLANISH_NCU") == 0);
  REQUIRE(::setenv("PATH", fmt::format("{}:{}", ncu.dir.path().string(), path).c_str(), 1) == 0);
  CHECK(find_ncu() == ncu.file);
  REQUIRE(::setenv("PATH", path.c_str(), 1) == 0);
}
