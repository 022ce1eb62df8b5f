#include <thread>

#include "support.h"

using namespace runtime_test;

namespace {
Json affine_program(std::int64_t n) {
  return program({buffer("input", {n}), buffer("output", {n})},
                 {launch(0, {{{"buffer", 0}}, {{"buffer", 1}}, {{"i64", n}}})});
}
}  // namespace

TEST_CASE("a kernel runs on the buffers it is given") {
  const Scratch scratch;
  Loaded loaded(affine_program(100), {compile(scratch, affine)});
  REQUIRE_MESSAGE(loaded.program != nullptr, loaded.error.message);
  std::vector<float> x(100, 3), y(100, 0);
  REQUIRE(loaded.run({x.data(), y.data()}, 0, 1) == 0);
  CHECK(y[0] == 7);
  CHECK(y[99] == 7);
}

TEST_CASE("temps, set and copy, in step ranges and on several threads") {
  const Scratch scratch;
  // t = 2x+1; o1 = copy of t transposed; o2 = 5; o3 = 2t+1
  const Json document =
      program({buffer("input", {4, 6}), buffer("temp", {4, 6}), buffer("output", {4, 6}, "f32", {1, 4}),
               buffer("output", {3}, "i64"), buffer("output", {4, 6}), buffer("output", {2, 2}, "f16", {4, 1})},
              {launch(0, {{{"buffer", 0}}, {{"buffer", 1}}, {{"i64", 24}}}),
               {{"kind", "copy"}, {"from", 1}, {"to", 2}},
               {{"kind", "set"}, {"buffer", 3}, {"value", "0x1.4p+2"}},
               launch(0, {{{"buffer", 1}}, {{"buffer", 4}}, {{"i64", 24}}}),
               {{"kind", "set"}, {"buffer", 5}, {"value", "0x1p+0"}}});
  Loaded loaded(document, {compile(scratch, affine)});
  REQUIRE_MESSAGE(loaded.program != nullptr, loaded.error.message);
  const auto work = [&](float start, bool* ok) {
    *ok = true;
    for (int repeat = 0; repeat < 200; ++repeat) {
      std::vector<float> x(24), o1(24), o3(24);
      std::vector<std::int64_t> o2(3);
      std::vector<std::uint16_t> gap(6, 7);
      for (int i = 0; i < 24; ++i) x[static_cast<std::size_t>(i)] = start + static_cast<float>(i);
      void* pointers[] = {x.data(), nullptr, o1.data(), o2.data(), o3.data(), gap.data()};
      prt_error error{};
      *ok = *ok && prt_program_run(loaded.program, pointers, 6, 0, 2, nullptr, &error) == 0;
      *ok = *ok && prt_program_run(loaded.program, pointers, 6, 2, 5, nullptr, &error) == 0;
      for (std::size_t i = 0; i < 4; ++i) {
        for (std::size_t j = 0; j < 6; ++j) {
          const float t = 2 * x[i * 6 + j] + 1;
          *ok = *ok && o1[j * 4 + i] == t && o3[i * 6 + j] == 2 * t + 1;
        }
      }
      *ok = *ok && o2 == std::vector<std::int64_t>{5, 5, 5};
      *ok = *ok && gap == std::vector<std::uint16_t>{0x3c00, 0x3c00, 7, 7, 0x3c00, 0x3c00};
    }
  };
  bool first = false, second = false;
  std::thread other(work, 1000.0f, &second);
  work(0, &first);
  other.join();
  CHECK(first);
  CHECK(second);
}

TEST_CASE("what cannot be loaded says why") {
  const Scratch scratch;
  const std::string good = compile(scratch, affine);
  const auto kind_of = [](const Json& document, const std::vector<std::string>& binaries) {
    const Loaded loaded(document, binaries);
    CHECK(loaded.program == nullptr);
    CHECK(loaded.error.message[0] != '\0');
    return loaded.kind();
  };
  CHECK(kind_of(Json::array(), {good}) == "bad_program");
  CHECK(kind_of(affine_program(4), {}) == "bad_argument");
  CHECK(kind_of(affine_program(4), {scratch.path + "/none.so"}) == "load_failed");
  std::ofstream(scratch.path + "/text.so") << "not a library";
  CHECK(kind_of(affine_program(4), {scratch.path + "/text.so"}) == "load_failed");
  Json renamed = affine_program(4);
  renamed["kernels"][0]["entry"] = "other";
  CHECK(kind_of(renamed, {good}) == "load_failed");
  Json cuda = affine_program(4);
  cuda["target"] = "cuda";
  cuda["kernels"][0]["language"] = "cuda";
  CHECK(kind_of(cuda, {good}) == "bad_argument");
  CHECK(kind_of(affine_program(4), {compile(scratch, "extern void missing(); missing();")}) == "load_failed");
}

TEST_CASE("runs that make no sense are refused") {
  const Scratch scratch;
  Json document = affine_program(4);
  document["steps"].push_back({{"kind", "aten"},
                               {"op", "aten.neg.default"},
                               {"args", {{{"name", "self"}, {"buffer", 1}}}},
                               {"outs", {nullptr}}});
  Loaded loaded(document, {compile(scratch, affine)});
  REQUIRE_MESSAGE(loaded.program != nullptr, loaded.error.message);
  std::vector<float> x(4), y(4);
  CHECK(loaded.run({x.data(), y.data()}, 0, 1) == 0);
  CHECK(loaded.run({x.data(), y.data()}, 0, 2) != 0);
  CHECK(loaded.kind() == "bad_argument");
  CHECK(std::string(loaded.error.message).find("aten") != std::string::npos);
  CHECK(loaded.run({x.data()}, 0, 1) != 0);
  CHECK(loaded.run({x.data(), y.data()}, 1, 0) != 0);
  CHECK(loaded.run({x.data(), y.data()}, 0, 9) != 0);
  CHECK(loaded.run({x.data(), nullptr}, 0, 1) != 0);
  CHECK(std::string(loaded.error.message).find("buffer 1") != std::string::npos);
}

TEST_CASE("timing takes the sets in turn and stops by its limits") {
  const Scratch scratch;
  Loaded loaded(program({buffer("state", {1})}, {launch(0, {{{"buffer", 0}}})}),
                {compile(scratch, "++*(float*)args[0]; usleep(200);")});
  REQUIRE_MESSAGE(loaded.program != nullptr, loaded.error.message);
  float a = 0, b = 0;
  void* pa[] = {&a};
  void* pb[] = {&b};
  void* const* sets[] = {pa, pb};
  std::vector<double> samples(50);
  prt_timing timing{};
  prt_error error{};
  REQUIRE(prt_program_time(loaded.program, sets, 2, 1, 10, 50, 60, 0, 1 << 16, samples.data(), &timing, &error) == 0);
  CHECK(timing.runs == 50);  // an interval of 0 % is never reached
  CHECK(a + b == 53);        // three warm-ups
  CHECK(std::abs(a - b) <= 1);
  CHECK(timing.median_ms >= 0.2);
  CHECK(timing.lo_ms <= timing.median_ms);
  CHECK(timing.hi_ms >= timing.median_ms);
  REQUIRE(prt_program_time(loaded.program, sets, 2, 1, 10, 50, 60, 1e9, 0, samples.data(), &timing, &error) == 0);
  CHECK(timing.runs == 10);  // any interval is narrow enough
  // However slow it is: each set is run, since what was written in each is looked at afterwards.
  REQUIRE(prt_program_time(loaded.program, sets, 2, 1, 10, 50, 1e-9, 0, 0, samples.data(), &timing, &error) == 0);
  CHECK(timing.runs == 2);
  CHECK(prt_program_time(loaded.program, sets, 0, 1, 10, 50, 1, 0, 0, samples.data(), &timing, &error) != 0);
  CHECK(prt_program_time(loaded.program, sets, 2, 1, 10, 5, 1, 0, 0, samples.data(), &timing, &error) != 0);
  CHECK(std::string(error.kind) == "bad_argument");
}

TEST_CASE("OpenMP kernels survive being unloaded") {
  const Scratch scratch;
  for (int i = 0; i < 3; ++i) {
    Loaded loaded(
        affine_program(1000),
        {compile(scratch, std::string("\n#pragma omp parallel num_threads(2)\n{") + affine + "}", "-fopenmp")});
    REQUIRE_MESSAGE(loaded.program != nullptr, loaded.error.message);
    std::vector<float> x(1000, 1), y(1000);
    CHECK(loaded.run({x.data(), y.data()}, 0, 1) == 0);
    CHECK(y[999] == 3);
  }
}
