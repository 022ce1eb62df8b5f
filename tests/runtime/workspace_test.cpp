#include "workspace.h"

#include <doctest/doctest.h>

#include <random>

using namespace planish::rt;

namespace {
Buffer temp(std::int64_t bytes, Role role = Role::temp) {
  Buffer out;
  out.role = role;
  out.dtype = "u8";
  out.element_bytes = 1;
  out.shape = {bytes};
  out.strides = {1};
  out.elements = out.extent = bytes;
  return out;
}
Step touching(std::vector<int> buffers, StepKind kind = StepKind::launch) {
  Step out;
  out.kind = kind;
  out.touches = std::move(buffers);
  return out;
}
}  // namespace

TEST_CASE("a chain of temps needs room for two") {
  Document doc;
  for (int i = 0; i < 5; ++i) doc.buffers.push_back(temp(1000));
  for (int i = 0; i < 4; ++i) doc.steps.push_back(touching({i, i + 1}));
  const Layout layout = plan_workspace(doc);
  CHECK(layout.bytes == 2048);
  CHECK(layout.offsets[0] == layout.offsets[2]);
  CHECK(layout.offsets[1] == layout.offsets[3]);
  CHECK(layout.offsets[0] != layout.offsets[1]);
}

TEST_CASE("only temps that kernels touch get room") {
  Document doc;
  doc.buffers = {temp(10, Role::input), temp(10), temp(10), temp(10, Role::output), temp(10)};
  doc.steps = {touching({0, 1}), touching({1, 2, 3}), touching({4}, StepKind::aten)};
  const Layout layout = plan_workspace(doc);
  CHECK(layout.offsets[0] == -1);
  CHECK(layout.offsets[1] >= 0);
  CHECK(layout.offsets[3] == -1);
  CHECK(layout.offsets[4] == -1);
  CHECK(layout.bytes == 512);
}

TEST_CASE("no two temps alive at once overlap, whatever the program") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    Document doc;
    const int n = 1 + static_cast<int>(random() % 12);
    for (int i = 0; i < n; ++i) doc.buffers.push_back(temp(random() % 5000));
    for (int s = 0; s < 15; ++s)
      doc.steps.push_back(touching({static_cast<int>(random() % static_cast<unsigned>(n)),
                                    static_cast<int>(random() % static_cast<unsigned>(n))}));
    const Layout layout = plan_workspace(doc);
    std::vector<std::pair<int, int>> life(static_cast<std::size_t>(n), {-1, -1});
    for (int s = 0; s < 15; ++s) {
      for (const int b : doc.steps[static_cast<std::size_t>(s)].touches) {
        auto& l = life[static_cast<std::size_t>(b)];
        if (l.first < 0) l.first = s;
        l.second = s;
      }
    }
    for (std::size_t a = 0; a < life.size(); ++a) {
      if (life[a].first < 0) continue;
      CHECK(layout.offsets[a] % workspace_alignment == 0);
      CHECK(layout.offsets[a] + doc.buffers[a].bytes() <= layout.bytes);
      for (std::size_t b = a + 1; b < life.size(); ++b) {
        if (life[b].first < 0 || life[a].second < life[b].first || life[b].second < life[a].first) continue;
        const bool apart = layout.offsets[a] + doc.buffers[a].bytes() <= layout.offsets[b] ||
                           layout.offsets[b] + doc.buffers[b].bytes() <= layout.offsets[a];
        CHECK(apart);
      }
    }
  }
}
