// Programs of several launches as one patched graph, against the fake driver.
#include <cstdlib>
#include <thread>

#include "fake.h"

using namespace runtime_test;

namespace {

/// The fake's own knobs.
struct Fake {
  int* launches;
  int* patches;
  void (*capture)(int);

  Fake()
      : launches(fake_symbol<int>("fake_graph_launches")),
        patches(fake_symbol<int>("fake_graph_patches")),
        capture(fake_symbol<void(int)>("fake_capture")) {
    *launches = *patches = 0;
  }
};

/// y = 2x + 1 three times over, through temporaries of the program's own.
Json chain() {
  return affine_program({buffer("input", {250}), buffer("temp", {250}), buffer("temp", {250}), buffer("output", {250})},
                        {affine_step(0, 1), affine_step(1, 2), affine_step(2, 3)});
}

struct Chain : OnFake {
  std::vector<float> x = std::vector<float>(250, 1), y = std::vector<float>(250, 0);

  explicit Chain(const Json& document = chain()) : OnFake(document) {}

  void run(std::vector<float>& from, std::vector<float>& to, float first, void* stream = nullptr) {
    from.assign(250, first);
    to.assign(250, 0);
    void* table[] = {from.data(), nullptr, nullptr, to.data()};
    REQUIRE_MESSAGE(prt_program_run(program, table, 4, 0, 3, stream, &error) == 0, error.message);
    CHECK(to[249] == 8 * first + 7);
  }
  void run(float first, void* stream = nullptr) { run(x, y, first, stream); }
  prt_replay replay() const {
    prt_replay out{};
    REQUIRE(prt_program_replay(program, &out, nullptr) == 0);
    return out;
  }
};

}  // namespace

TEST_CASE("a graph is patched where an address differs, and nowhere else") {
  const Fake fake;
  const Set on("PLANISH_GRAPH", "1");
  Chain c;
  for (int k = 0; k < 5; ++k) c.run(static_cast<float>(k));
  CHECK(*fake.launches == 5);
  CHECK(*fake.patches == 0);
  std::vector<float> other(250);
  c.run(c.x, other, 3);
  CHECK(*fake.patches == 1);  // the last kernel's output
  std::vector<float> input(250);
  c.run(input, c.y, 4);
  CHECK(*fake.patches == 3);  // input and output
  CHECK(c.replay().way == PRT_GRAPH);
  // A part of the steps is launched, as ever.
  void* table[] = {c.x.data(), nullptr, nullptr, c.y.data()};
  REQUIRE(prt_program_run(c.program, table, 4, 0, 2, nullptr, &c.error) == 0);
  CHECK(*fake.launches == 7);
}

TEST_CASE("every stream has a graph of its own, up to a few") {
  const Fake fake;
  const Set on("PLANISH_GRAPH", "1");
  Chain c;
  for (int round = 0; round < 2; ++round) {
    for (std::uintptr_t stream = 1; stream <= 6; ++stream) c.run(2, reinterpret_cast<void*>(stream * 16));
  }
  CHECK(*fake.launches == 8);
  CHECK(*fake.patches == 0);
}

TEST_CASE("the first calls measure, and the faster way stays") {
  const Fake fake;
  for (const bool graph_is_faster : {true, false}) {
    const Set launch("FAKE_LAUNCH_US", graph_is_faster ? "60" : "10");
    const Set graph("FAKE_GRAPH_US", graph_is_faster ? "20" : "90");
    Chain c;
    CHECK(c.replay().way == PRT_MEASURING);
    for (int k = 0; k < 24; ++k) c.run(static_cast<float>(k));
    const prt_replay found = c.replay();
    CHECK(found.way == (graph_is_faster ? PRT_GRAPH : PRT_LAUNCHES));
    CHECK((found.graph_us < found.launches_us) == graph_is_faster);
    CHECK(found.launches_us > 3 * (graph_is_faster ? 60 : 10));
    *fake.launches = 0;
    for (int k = 0; k < 6; ++k) c.run(static_cast<float>(k));
    CHECK(*fake.launches == (graph_is_faster ? 6 : 0));
  }
}

TEST_CASE("captured streams, refusing drivers and the environment get launches") {
  const Fake fake;
  {
    const Set on("PLANISH_GRAPH", "1");
    Chain c;
    fake.capture(1);
    c.run(1);
    fake.capture(0);
    CHECK(*fake.launches == 0);
    c.run(1);
    CHECK(*fake.launches == 1);
  }
  {
    const Set on("PLANISH_GRAPH", "1");
    const Set refusing("FAKE_NO_GRAPHS", "1");
    Chain c;
    for (int k = 0; k < 3; ++k) c.run(1);
    CHECK(c.replay().way == PRT_LAUNCHES);
    CHECK(std::string(c.replay().reason).find("instantiating a graph") != std::string::npos);
  }
  {
    const Set off("PLANISH_GRAPH", "0");
    Chain c;
    for (int k = 0; k < 30; ++k) c.run(1);
    CHECK(c.replay().way == PRT_LAUNCHES);
    CHECK(c.replay().launches_us == 0);
  }
  CHECK(*fake.launches == 1);
}

TEST_CASE("threads do not wait for each other's graph") {
  const Fake fake;
  const Set on("PLANISH_GRAPH", "1");
  const Set graph("FAKE_GRAPH_US", "200");
  Chain c;
  c.run(1);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<float> x(250, static_cast<float>(t)), a(250), b(250), y(250);
      for (int k = 0; k < 50; ++k) {
        void* table[] = {x.data(), a.data(), b.data(), y.data()};
        wrong +=
            prt_program_run(c.program, table, 4, 0, 3, nullptr, nullptr) != 0 || y[0] != 8 * static_cast<float>(t) + 7;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("clusters travel in a graph") {
  const Fake fake;
  const Set on("PLANISH_GRAPH", "1");
  Json document = chain();
  Json step = launch(0, {{{"buffer", 3}}});
  step["cluster"] = step["grid"] = {4, 2, 1};
  document["kernels"][0]["entry"] = "cluster";
  document["steps"] = Json::array({step, step});
  Chain c(document);
  void* table[] = {c.x.data(), nullptr, nullptr, c.y.data()};
  REQUIRE_MESSAGE(prt_program_run(c.program, table, 4, 0, 2, nullptr, &c.error) == 0, c.error.message);
  CHECK(*fake.launches == 1);
  CHECK(c.y[0] == 8);
}

TEST_CASE("cooperative launches stay so in a graph") {
  const Fake fake;
  const Set on("PLANISH_GRAPH", "1");
  Json document = chain();
  Json step = launch(0, {{{"buffer", 3}}});
  step["cooperative"] = true;
  document["kernels"][0]["entry"] = "cluster";
  document["steps"] = Json::array({step, step});
  Chain c(document);
  void* table[] = {c.x.data(), nullptr, nullptr, c.y.data()};
  REQUIRE_MESSAGE(prt_program_run(c.program, table, 4, 0, 2, nullptr, &c.error) == 0, c.error.message);
  CHECK(*fake.launches == 1);
  CHECK(c.y[0] == 101);
}

TEST_CASE("programmatic launches overlap the launch before, and the first of a call overlaps nothing") {
  const Fake fake;
  int* const overlaps = fake_symbol<int>("fake_overlaps");
  int* const edges = fake_symbol<int>("fake_early_edges");
  Json document = chain();
  for (Json& step : document["steps"]) step["programmatic"] = true;
  {
    const Set off("PLANISH_GRAPH", "0");
    Chain c(document);
    *overlaps = 0;
    c.run(1);
    CHECK(*overlaps == 2);
    // A part of the steps is a call of its own.
    void* table[] = {c.x.data(), nullptr, nullptr, c.y.data()};
    REQUIRE(prt_program_run(c.program, table, 4, 1, 2, nullptr, &c.error) == 0);
    CHECK(*overlaps == 2);
  }
  {
    const Set on("PLANISH_GRAPH", "1");
    Chain c(document);
    *edges = *overlaps = 0;
    for (int k = 0; k < 3; ++k) c.run(static_cast<float>(k));
    CHECK(*fake.launches == 3);
    CHECK(*edges == 2);
    CHECK(*overlaps == 0);
  }
  {
    const Set on("PLANISH_GRAPH", "1");
    document["steps"][1].erase("programmatic");
    Chain c(document);
    *edges = 0;
    c.run(1);
    CHECK(*edges == 1);
  }
}
