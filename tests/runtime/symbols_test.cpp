#include <array>
#include <memory>
#include <sstream>

#include "support.h"

namespace {
std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> chunk;
  for (std::size_t got; (got = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) out.append(chunk.data(), got);
  REQUIRE(pclose(pipe) == 0);
  return out;
}
const std::string library = std::string(PLANISH_BUILD_DIR) + "/lib/libplanish_rt.so";
}  // namespace

TEST_CASE("the library needs nothing newer than glibc 2.34, and exports its C functions only") {
  std::istringstream lines(output_of("objdump -T " + library));
  int exported = 0;
  for (std::string line; std::getline(lines, line);) {
    if (const auto at = line.find("GLIBC_2."); at != std::string::npos) {
      CHECK_MESSAGE(std::atoi(line.c_str() + at + 8) <= 34, line);
    }
    CHECK_MESSAGE(line.find("GLIBCXX") == std::string::npos, line);
    if (line.find("*UND*") == std::string::npos && line.find(".text") != std::string::npos) {
      ++exported;
      CHECK_MESSAGE(line.substr(line.rfind(' ') + 1).starts_with("prt_"), line);
    }
  }
  CHECK(exported >= 17);
}

TEST_CASE("the library links neither C++ nor CUDA libraries") {
  const std::string needed = output_of("objdump -p " + library + " | grep NEEDED");
  for (const char* name : {"stdc++", "gcc_s", "cuda", "gomp"})
    CHECK_MESSAGE(needed.find(name) == std::string::npos, needed);
}
