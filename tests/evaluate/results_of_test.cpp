#include "evaluate/results_of.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

using namespace planish;

namespace {

/// One output of floats, behind `offset` bytes that are nobody's.
struct Output {
  worker::DataSet set;
  float* values = nullptr;
  static constexpr std::int64_t offset = 64, map_bytes = 4096;

  Output(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, std::int64_t elements) {
    worker::SharedBuffer buffer;
    buffer.name = "out0";
    buffer.role = "output";
    buffer.dtype = "f32";
    buffer.shape = std::move(shape);
    buffer.strides = std::move(strides);
    buffer.bytes = 4 * elements;
    buffer.offset = offset;
    buffer.map_bytes = map_bytes;
    buffer.fd.reset(::memfd_create("output", MFD_CLOEXEC));
    REQUIRE(::ftruncate(buffer.fd.get(), map_bytes) == 0);
    void* base = ::mmap(nullptr, map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, buffer.fd.get(), 0);
    REQUIRE(base != MAP_FAILED);
    values = reinterpret_cast<float*>(static_cast<char*>(base) + offset);
    set.buffers.push_back(std::move(buffer));
  }
  ~Output() { ::munmap(reinterpret_cast<char*>(values) - offset, map_bytes); }
  std::vector<float> read(std::int64_t n) const { return {values, values + n}; }
};

std::string at(const void* address, const char* strides) {
  return fmt::format("{}:{}", reinterpret_cast<std::uintptr_t>(address), strides);
}

}  // namespace

TEST_CASE("results are taken from a process's memory, however they lie there") {
  const std::vector<float> dense{1, 2, 3, 4, 5, 6};
  const Output same({2, 3}, {3, 1}, 6);
  REQUIRE(take_results(::getpid(), at(dense.data(), "3,1"), same.set).has_value());
  CHECK(same.read(6) == dense);
  CHECK(same.values[6] == 0);
  const Output turned({2, 3}, {3, 1}, 6);
  REQUIRE(take_results(::getpid(), at(dense.data(), "1,2"), turned.set).has_value());
  CHECK(turned.read(6) == std::vector<float>{1, 3, 5, 2, 4, 6});
  const Output expanded({2, 3}, {3, 1}, 6);
  REQUIRE(take_results(::getpid(), at(dense.data(), "0,1"), expanded.set).has_value());
  CHECK(expanded.read(6) == std::vector<float>{1, 2, 3, 1, 2, 3});
  const Output scalar({}, {}, 1);
  REQUIRE(take_results(::getpid(), at(dense.data(), ""), scalar.set).has_value());
  CHECK(scalar.values[0] == 1);
  const Output cube({2, 1, 2}, {2, 7, 1}, 4);
  REQUIRE(take_results(::getpid(), at(dense.data(), "1,99,2"), cube.set).has_value());
  CHECK(cube.read(4) == std::vector<float>{1, 3, 2, 4});
}

TEST_CASE("what leads nowhere is the solution's fault, and what nobody may read is not") {
  const Output output({2, 3}, {3, 1}, 6);
  const std::vector<float> dense(6);
  const std::string good = at(dense.data(), "3,1");
  for (const std::string& word :
       {std::string(), std::string("8:3,1"), std::string("x:3,1"), at(dense.data(), "3"), at(dense.data(), "3,1,1"),
        at(dense.data(), "-3,1"), at(dense.data(), "99999999999,1"), at(dense.data(), "99999999999999999999,1")}) {
    const auto taken = take_results(::getpid(), word, output.set);
    REQUIRE_FALSE(taken.has_value());
    CHECK(taken.error().kind.name() == "launch_failed");
  }
  CHECK(take_results(0, good, output.set).error().kind.name() == "unsupported");
}
