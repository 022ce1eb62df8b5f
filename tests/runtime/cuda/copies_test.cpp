// Copy steps as launches, against the fake driver.
#include <cstdlib>

#include "fake.h"

using namespace runtime_test;

namespace {

int& fake(const char* name) {
  return *fake_symbol<int>(name);
}

bool driver_refuses() {
  return std::getenv("FAKE_NO_COPIES") != nullptr;
}

Json copy(int from, int to) {
  return {{"kind", "copy"}, {"from", from}, {"to", to}};
}

struct Program : OnFake {
  std::vector<std::vector<float>> memory;

  Program(const Json& what, std::size_t buffers) : OnFake(what), memory(buffers, std::vector<float>(250)) {}
  void run(int first, int last) {
    std::vector<void*> table;
    for (std::vector<float>& one : memory) table.push_back(one.data());
    REQUIRE_MESSAGE(
        prt_program_run(program, table.data(), static_cast<int>(table.size()), first, last, nullptr, &error) == 0,
        error.message);
  }
};

const Json dense =
    Json::array({buffer("input", {250}), buffer("output", {250}), buffer("state", {250}), buffer("state", {250})});

}  // namespace

TEST_CASE("copy steps: side by side they are one launch, and a node of the program's graph") {
  const Set on("PLANISH_GRAPH", "1");
  Program p(affine_program(dense, {affine_step(0, 1), copy(1, 2), copy(0, 3)}), 4);
  const int graphs = fake("fake_graph_launches"), patches = fake("fake_graph_patches");
  for (int k = 0; k < 3; ++k) {
    p.memory[0].assign(250, static_cast<float>(k));
    p.run(0, 3);
    CHECK(p.memory[2][249] == 2 * static_cast<float>(k) + 1);
    CHECK(p.memory[3][249] == static_cast<float>(k));
  }
  if (driver_refuses()) {
    CHECK(fake("fake_graph_launches") == graphs);
    return;
  }
  CHECK(fake("fake_graph_launches") == graphs + 3);
  CHECK(fake("fake_graph_patches") == patches);
  std::vector<float> moved(250);
  p.memory[3].swap(moved);
  p.run(0, 3);
  CHECK(p.memory[3][0] == 2);
  CHECK(fake("fake_graph_patches") == patches + 1);
}

TEST_CASE("copy steps: without a graph they are one launch as well, and by ranges what was asked for") {
  const Set off("PLANISH_GRAPH", "0");
  Program p(affine_program(dense, {affine_step(0, 1), copy(1, 2), copy(0, 3)}), 4);
  p.memory[0].assign(250, 4);
  const int launches = fake("fake_launches");
  p.run(0, 3);
  CHECK(fake("fake_launches") == launches + (driver_refuses() ? 1 : 2));
  CHECK(p.memory[2][1] == 9);
  CHECK(p.memory[3][1] == 4);
  p.memory[0].assign(250, 5);
  p.run(0, 2);  // ends inside
  CHECK(p.memory[2][1] == 11);
  CHECK(p.memory[3][1] == 4);
  p.run(2, 3);  // begins inside
  CHECK(p.memory[3][1] == 5);
}

TEST_CASE("copy steps: a launch behind them begins when they have ended, though it may overlap launches") {
  Json document = affine_program(dense, {copy(0, 2), copy(0, 3), affine_step(2, 1), affine_step(3, 1)});
  for (int step : {2, 3}) document["steps"][static_cast<std::size_t>(step)]["programmatic"] = true;
  for (const char* graph : {"0", "1"}) {
    const Set how("PLANISH_GRAPH", graph);
    Program p(document, 4);
    fake("fake_overlaps") = fake("fake_early_edges") = 0;
    p.memory[0].assign(250, 3);
    p.run(0, 4);
    CHECK(p.memory[1][0] == 7);
    // The second of the two alone.
    CHECK(fake("fake_overlaps") + fake("fake_early_edges") == 1);
  }
}

TEST_CASE("copy steps that depend on each other come one after the other") {
  const Set on("PLANISH_GRAPH", "1");
  // The fake copies the rows of a launch from the last to the first.
  Program p(affine_program(dense, {affine_step(0, 1), copy(1, 2), copy(2, 3), copy(0, 2), copy(0, 3)}), 4);
  p.memory[0].assign(250, 4);
  p.run(0, 3);
  CHECK(p.memory[2][249] == 9);
  CHECK(p.memory[3][249] == 9);
  p.run(0, 5);
  CHECK(p.memory[2][249] == 4);
  CHECK(p.memory[3][249] == 4);
}

TEST_CASE("copy steps into strided memory or temporaries stay copies") {
  const Set on("PLANISH_GRAPH", "1");
  Json buffers = dense;
  buffers[2] = buffer("state", {125}, "f32", {2});
  buffers[1] = buffer("output", {125});
  buffers[3] = buffer("state", {125});
  Program p(affine_program(buffers, {affine_step(0, 0), copy(1, 2), copy(1, 3)}), 4);
  const int graphs = fake("fake_graph_launches");
  p.memory[1].assign(250, 6);
  p.run(0, 3);
  CHECK(p.memory[2][248] == 6);
  CHECK(p.memory[2][247] == 0);
  CHECK(p.memory[3][124] == 6);
  CHECK(fake("fake_graph_launches") == graphs);
  buffers = dense;
  buffers[2] = buffer("temp", {250});
  Program q(affine_program(buffers, {affine_step(0, 1), copy(1, 2), affine_step(2, 3)}), 4);
  q.memory[0].assign(250, 1);
  q.run(0, 3);
  CHECK(q.memory[3][0] == 7);
  CHECK(fake("fake_graph_launches") == graphs);
}

TEST_CASE("copy steps: more than fit into one launch are several") {
  const Set on("PLANISH_GRAPH", "1");
  constexpr int count = 300;
  Json buffers = Json::array({buffer("input", {250}), buffer("output", {250})});
  Json steps = Json::array({affine_step(0, 1)});
  for (int i = 0; i < count; ++i) {
    buffers.push_back(buffer("state", {i % 7 == 0 ? 0 : 1 + i % 250}));
    buffers.push_back(buffer("input", {i % 7 == 0 ? 0 : 1 + i % 250}));
    steps.push_back(copy(3 + 2 * i, 2 + 2 * i));
  }
  Program p(affine_program(buffers, steps), 2 + 2 * count);
  for (int i = 0; i < count; ++i) p.memory[3 + 2 * static_cast<std::size_t>(i)].assign(250, static_cast<float>(i + 1));
  p.run(0, 1 + count);
  for (int i = 0; i < count; ++i) {
    const std::vector<float>& to = p.memory[2 + 2 * static_cast<std::size_t>(i)];
    const auto elements = static_cast<std::size_t>(i % 7 == 0 ? 0 : 1 + i % 250);
    for (std::size_t k = 0; k < to.size(); ++k) CHECK(to[k] == (k < elements ? static_cast<float>(i + 1) : 0.0f));
  }
}

TEST_CASE("where the driver does not take the kernel, copies stay copies") {
  if (driver_refuses()) return;
  // In a process of its own: what the driver took before stays.
  const std::string command = "FAKE_NO_COPIES=1 '" + std::filesystem::read_symlink("/proc/self/exe").string() +
                              "' -tc='copy steps*' > /dev/null";
  CHECK(std::system(command.c_str()) == 0);
}
