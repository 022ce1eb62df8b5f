// Launches that may begin before the one before them has ended.
#include "codegen/compose/even_launches.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/emit/cuda_limits.h"
#include "devices.h"

using namespace planish;
using namespace planish::codegen;

namespace {

enum Kernel : int { permits, permits_nothing };

struct Chain {
  Device device = h200();
  std::int64_t half = printing::half_shared(device);
  program::Program program{
      "cuda",
      "sm_90a",
      {},
      {{"cuda", "k", {}, "void k() { asm(\"griddepcontrol.launch_dependents;\"); }"}, {"cuda", "k", {}, "void k() {}"}},
      {},
      {}};

  Chain& launch(Kernel kernel, std::int64_t blocks, std::int64_t shared) {
    program::Launch step;
    step.kernel = kernel;
    step.grid[0] = blocks;
    step.shared = shared;
    step.programmatic = kernel == permits;
    program.steps.emplace_back(step);
    return *this;
  }
  Chain& product() { return launch(permits, device.sms, half); }
  /// A letter a step: e begins early, w waits, c copies.
  std::string kept() {
    keep_launches_even(program, device);
    std::string out;
    for (const program::Step& step : program.steps) {
      const auto* const launch = std::get_if<program::Launch>(&step);
      out += launch == nullptr ? 'c' : launch->programmatic ? 'e' : 'w';
    }
    return out;
  }
};

}  // namespace

TEST_CASE("launches of equal places begin early behind each other alone") {
  CHECK(Chain().product().product().product().kept() == "eee");
  Chain chain;
  const std::int64_t sms = chain.device.sms, half = chain.half;
  SUBCASE("attention of many keys takes room where it is, and two blocks behind it find what one leaves") {
    CHECK(chain.product().launch(permits, 2 * sms, half / 2).product().product().kept() == "eewe");
  }
  SUBCASE("a ring that fills a multiprocessor leaves room for two") {
    CHECK(chain.launch(permits, sms, 2 * half).product().launch(permits, sms, 2 * half).product().kept() == "ewew");
  }
  SUBCASE("a little more than half leaves room for one") {
    CHECK(chain.product().launch(permits, sms, half + 5264).product().kept() == "eee");
  }
  SUBCASE("fewer blocks than multiprocessors leave some of them empty") {
    CHECK(chain.launch(permits, 8, 0).product().kept() == "ew");
  }
  SUBCASE("what permits nothing has ended, and so has what a copy follows") {
    CHECK(chain.launch(permits_nothing, 8, 0).product().kept() == "we");
    chain.launch(permits, 8, 0).program.steps.emplace_back(program::Copy{});
    CHECK(chain.product().kept() == "weece");
  }
}
