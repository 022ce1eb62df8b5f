#include <pthread.h>
#include <sys/mman.h>

#include "program.h"

/// The memory of temps: allocated once for each stream or thread, freed with the program.
namespace planish::rt {
namespace {

std::uint64_t key_of(const prt_program& program, cu::Stream stream) {
  if (program.device < 0) return static_cast<std::uint64_t>(pthread_self());
  // The per-thread default stream is one handle for many streams; the id tells them apart.
  unsigned long long id = 0;
  if (program.driver->stream_id != nullptr && program.driver->stream_id(stream, &id) == cu::success) return id;
  return reinterpret_cast<std::uint64_t>(stream);
}

}  // namespace

Result<std::uint64_t> workspace(prt_program* program, void* const* pointers, cu::Stream stream) {
  bool needed = false;
  for (std::size_t i = 0; i < program->layout.offsets.size(); ++i)
    needed |= program->layout.offsets[i] >= 0 && pointers[i] == nullptr;
  if (!needed) return 0;
  const std::uint64_t key = key_of(*program, stream);
  const std::lock_guard lock(program->mutex);
  if (const auto it = program->workspaces.find(key); it != program->workspaces.end()) return it->second.base;
  Workspace fresh;
  fresh.bytes = static_cast<std::uint64_t>(program->layout.bytes);
  if (program->device < 0) {
    void* at = mmap(nullptr, fresh.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
      return fail("out_of_memory", "no " + std::to_string(fresh.bytes) + " bytes for the program's temporary buffers");
    madvise(at, fresh.bytes, MADV_HUGEPAGE);
    fresh.base = reinterpret_cast<std::uint64_t>(at);
  } else {
    cu::DevicePtr at = 0;
    PRT_CHECK(cu::check(program->driver->mem_alloc(&at, fresh.bytes), "allocating the program's temporary buffers",
                        "out_of_memory"));
    fresh.base = at;
  }
  program->workspaces.emplace(key, fresh);
  return fresh.base;
}

Result<std::uint64_t> address(const prt_program& program, void* const* pointers, std::uint64_t workspace, int b) {
  const auto i = static_cast<std::size_t>(b);
  if (pointers[i] != nullptr) return reinterpret_cast<std::uint64_t>(pointers[i]);
  if (program.layout.offsets[i] >= 0) return workspace + static_cast<std::uint64_t>(program.layout.offsets[i]);
  if (program.document.buffers[i].bytes() == 0) return 0;
  return fail("bad_argument", "buffer " + std::to_string(b) + " of the program has no address");
}

}  // namespace planish::rt
