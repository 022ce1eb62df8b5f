#include "workspace.h"

#include <algorithm>

namespace planish::rt {
namespace {

struct Life {
  int buffer = -1;
  std::int64_t bytes = 0;
  std::size_t first = 0, last = 0;
  std::int64_t offset = 0;
};

std::int64_t align(std::int64_t n) {
  return (n + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
}

std::vector<Life> lives(const Document& document) {
  std::vector<Life> out(document.buffers.size());
  std::vector<bool> by_kernel(document.buffers.size(), false);
  for (std::size_t s = 0; s < document.steps.size(); ++s) {
    for (const int b : document.steps[s].touches) {
      Life& life = out[static_cast<std::size_t>(b)];
      if (life.buffer < 0) life = {b, 0, s, s, 0};
      life.last = s;
      if (document.steps[s].kind != StepKind::aten) by_kernel[static_cast<std::size_t>(b)] = true;
    }
  }
  std::erase_if(out, [&](const Life& life) {
    return life.buffer < 0 || !by_kernel[static_cast<std::size_t>(life.buffer)] ||
           document.buffers[static_cast<std::size_t>(life.buffer)].role != Role::temp;
  });
  for (Life& life : out)
    life.bytes = std::max<std::int64_t>(1, document.buffers[static_cast<std::size_t>(life.buffer)].bytes());
  return out;
}

}  // namespace

Layout plan_workspace(const Document& document) {
  Layout out;
  out.offsets.assign(document.buffers.size(), -1);
  std::vector<Life> todo = lives(document);
  std::stable_sort(todo.begin(), todo.end(), [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
  std::vector<Life> placed;  // by offset
  for (Life& life : todo) {
    std::int64_t offset = 0;
    for (const Life& other : placed) {
      if (other.last < life.first || life.last < other.first) continue;
      if (offset + life.bytes <= other.offset) break;  // the gap before `other` is wide enough
      offset = std::max(offset, align(other.offset + other.bytes));
    }
    life.offset = offset;
    placed.insert(std::upper_bound(placed.begin(), placed.end(), life,
                                   [](const Life& a, const Life& b) { return a.offset < b.offset; }),
                  life);
    out.offsets[static_cast<std::size_t>(life.buffer)] = offset;
    out.bytes = std::max(out.bytes, align(offset + life.bytes));
  }
  return out;
}

}  // namespace planish::rt
