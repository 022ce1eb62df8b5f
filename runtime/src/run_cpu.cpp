#include <cstring>

#include "program.h"

namespace planish::rt {
namespace {

template <typename T>
void fill(char* at, std::int64_t n, const std::array<unsigned char, 8>& pattern) {
  T value;
  std::memcpy(&value, pattern.data(), sizeof value);
  T* to = reinterpret_cast<T*>(at);
  for (std::int64_t i = 0; i < n; ++i) to[i] = value;
}

void set(char* to, const Runs& runs, std::int64_t size, const std::array<unsigned char, 8>& pattern) {
  runs.each([&](std::int64_t at, std::int64_t) {
    char* start = to + at * size;
    if (size == 8)
      fill<std::uint64_t>(start, runs.elements, pattern);
    else if (size == 4)
      fill<std::uint32_t>(start, runs.elements, pattern);
    else if (size == 2)
      fill<std::uint16_t>(start, runs.elements, pattern);
    else
      std::memset(start, pattern[0], static_cast<std::size_t>(runs.elements));
  });
}

Status launch(prt_program* program, const Step& step, void* const* pointers, std::uint64_t base) {
  void* args[max_launch_args + 1];
  for (std::size_t i = 0; i < step.args.size(); ++i) {
    const LaunchArg& arg = step.args[i];
    if (arg.buffer >= 0) {
      PRT_TRY(const std::uint64_t at, address(*program, pointers, base, arg.buffer));
      args[i] = reinterpret_cast<void*>(at);
    } else {
      args[i] = const_cast<unsigned char*>(arg.value.data());
    }
  }
  program->kernels[static_cast<std::size_t>(step.kernel)].entry(args);
  return {};
}

}  // namespace

Status run_cpu(prt_program* program, void* const* pointers, int first, int last) {
  PRT_TRY(const std::uint64_t base, workspace(program, pointers, nullptr));
  const Team team(program->openmp);
  for (int s = first; s < last; ++s) {
    const Step& step = program->document.steps[static_cast<std::size_t>(s)];
    if (step.kind == StepKind::launch) {
      PRT_CHECK(launch(program, step, pointers, base));
      continue;
    }
    const Runs& runs = program->runs[static_cast<std::size_t>(s)];
    const std::int64_t size = program->document.buffers[static_cast<std::size_t>(step.to)].element_bytes;
    PRT_TRY(const std::uint64_t to_address, address(*program, pointers, base, step.to));
    char* to = reinterpret_cast<char*>(to_address);
    if (step.kind == StepKind::set) {
      set(to, runs, size, step.pattern);
    } else {
      PRT_TRY(const std::uint64_t from_address, address(*program, pointers, base, step.from));
      const char* from = reinterpret_cast<const char*>(from_address);
      runs.each([&](std::int64_t a, std::int64_t b) {
        std::memmove(to + b * size, from + a * size, static_cast<std::size_t>(runs.elements * size));
      });
    }
  }
  return {};
}

}  // namespace planish::rt
