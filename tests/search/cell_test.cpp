#include "search/cell.h"

#include <doctest/doctest.h>

using namespace planish;
using namespace planish::search;

namespace {

Evaluation compiled(KernelReport kernel, std::vector<LaunchReport> launches = {{0, 1000, 256, 1, 0, 4.0}}) {
  Evaluation out;
  out.compile = CompileReport{};
  out.compile->kernels = {std::move(kernel)};
  out.compile->launches = std::move(launches);
  return out;
}

KernelReport with(std::map<std::string, std::int64_t> instructions, std::int64_t shared = 0, std::int64_t frame = 0) {
  KernelReport out;
  out.instructions = std::move(instructions);
  out.shared_bytes = shared;
  out.local_bytes = frame;
  return out;
}

Cell cuda(const Evaluation& evaluation) {
  return cell_of(evaluation, "cuda").value();
}

}  // namespace

TEST_CASE("on a GPU the strategy is read from what the code is made of") {
  CHECK(cuda(compiled(with({{"global", 4}, {"arithmetic", 8}}))).strategy == 0);
  CHECK(cuda(compiled(with({{"global", 4}, {"arithmetic", 80}}))).strategy == 1);
  CHECK(cuda(compiled(with({{"global", 4}, {"arithmetic", 80}, {"barrier", 2}}))).strategy == 2);
  CHECK(cuda(compiled(with({{"global", 4}, {"barrier", 2}, {"tensor", 1}}))).strategy == 3);
}

TEST_CASE("on a GPU the footprint is static and dynamic shared memory of a block") {
  CHECK(cuda(compiled(with({}, 1024))).footprint == 0);
  CHECK(cuda(compiled(with({}, 1025))).footprint == 1);
  CHECK(cuda(compiled(with({}, 1024), {{0, 10, 128, 1, 48 << 10, 4.0}})).footprint == 2);
}

TEST_CASE("on a GPU the structure is that of the launch") {
  CHECK(cuda(compiled(with({}))).structure == 0);
  CHECK(cuda(compiled(with({}), {{0, 10, 128, 1, 0, 0.5}})).structure == 1);
  CHECK(cuda(compiled(with({}), {{0, 10, 128, 4, 0, 3.0}})).structure == 2);
  CHECK(cuda(compiled(with({{"atomic", 1}}))).structure == 2);
  CHECK(cuda(compiled(with({}), {{0, 10, 128, 1, 0, 3.0}, {0, 10, 128, 1, 0, 3.0}})).structure == 2);
}

TEST_CASE("the largest launch speaks for the program") {
  Evaluation two = compiled(with({{"tensor", 4}}), {{0, 10, 128, 1, 0, 0.1}, {1, 1000, 128, 1, 0, 8.0}});
  two.compile->kernels.push_back(with({{"global", 2}}));
  CHECK(cuda(two).strategy == 0);
  two.compile->launches[0].blocks = 100000;
  CHECK(cuda(two).strategy == 3);
}

TEST_CASE("the CPU has its own reading") {
  const auto cpu = [](KernelReport kernel) { return cell_of(compiled(std::move(kernel)), "cpu").value(); };
  CHECK(cpu(with({})) == Cell{0, 0, 0});
  CHECK(cpu(with({{"vector_128", 3}, {"vector_256", 1}})) == Cell{2, 0, 0});
  CHECK(cpu(with({{"vector_512", 1}, {"parallel", 1}}, 0, 20000)) == Cell{3, 1, 1});
  CHECK(cpu(with({{"vector_512", 1}, {"parallel", 1}, {"barrier", 1}}, 0, 40000)) == Cell{3, 2, 2});
}

TEST_CASE("without a compiled and launched program there is no cell") {
  CHECK_FALSE(cell_of(Evaluation{}, "cuda"));
  CHECK_FALSE(cell_of(compiled(with({}), {}), "cuda"));
  CHECK_FALSE(cell_of(compiled(with({}), {{3, 1, 1, 1, 0, 0}}), "cuda"));
}
