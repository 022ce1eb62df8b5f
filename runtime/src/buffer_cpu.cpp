#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "buffer.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace planish::rt {
namespace {

constexpr std::uint64_t guard_size = std::uint64_t{1} << 20;  // a page would do for off-by-one; strides jump further

std::uint64_t page_size() {
  return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::unexpected<Failure> system_failure(const char* what) {
  const int code = errno;
  const bool memory = code == ENOMEM || code == ENOSPC || code == EFBIG;
  return fail(memory ? "out_of_memory" : "bad_argument", std::string(what) + ": " + std::strerror(code));
}

/// Populating more than there is ends in the kernel's OOM killer, which may pick anyone: refuse before.
Status enough_memory(std::uint64_t bytes) {
  if (bytes < (std::uint64_t{64} << 20)) return {};
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("MemAvailable:")) continue;
    const std::uint64_t available = std::strtoull(line.c_str() + 13, nullptr, 10) * 1024;
    if (bytes > available) {
      return fail("out_of_memory", "a buffer of " + std::to_string(bytes) + " bytes does not fit in the " +
                                       std::to_string(available) + " bytes of memory that are free");
    }
  }
  return {};
}

/// Reserves the guards and the room between, then maps the descriptor into the room.
Status map(prt_buffer* out) {
  const std::uint64_t total = out->map_bytes + 2 * guard_size;
  void* room = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return system_failure("cannot reserve addresses for a buffer");
  char* at = static_cast<char*>(room) + guard_size;
  const int protection = out->writable ? PROT_READ | PROT_WRITE : PROT_READ;
  if (mmap(at, out->map_bytes, protection, MAP_SHARED | MAP_FIXED | MAP_POPULATE, out->fd, 0) == MAP_FAILED) {
    const int code = errno;
    munmap(room, total);
    if (code == EPERM && out->writable) {
      return fail("bad_argument", "the buffer is sealed: only its creator may write to it");
    }
    errno = code;
    return system_failure("cannot map a shared buffer");
  }
  out->guard_bytes = guard_size;
  out->base = reinterpret_cast<std::uint64_t>(at);
  return {};
}

}  // namespace

Status create_cpu(prt_buffer* out, bool seal) {
  PRT_TRY(const Placement where, place(out->bytes, page_size(), cpu_alignment));
  out->offset = where.offset;
  out->map_bytes = where.map_bytes;
  PRT_CHECK(enough_memory(out->map_bytes));
  out->fd = memfd_create("planish", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (out->fd < 0) return system_failure("memfd_create");
  if (ftruncate(out->fd, static_cast<off_t>(out->map_bytes)) != 0) return system_failure("cannot size a shared buffer");
  PRT_CHECK(map(out));
  PRT_CHECK(mend_cpu(*out));
  // Whoever gets the descriptor can neither resize it nor, for inputs, write through it: the mapping made above is the
  // last one that may.
  const int seals = F_SEAL_GROW | F_SEAL_SHRINK | (seal ? F_SEAL_FUTURE_WRITE : 0) | F_SEAL_SEAL;
  if (fcntl(out->fd, F_ADD_SEALS, seals) != 0) return system_failure("cannot seal a shared buffer");
  return {};
}

Status import_cpu(prt_buffer* out) {
  struct stat info{};
  if (fstat(out->fd, &info) != 0) return system_failure("the descriptor of a shared buffer is not valid");
  if (out->map_bytes % page_size() != 0) return fail("bad_argument", "map_bytes is no multiple of the page size");
  if (info.st_size < 0 || static_cast<std::uint64_t>(info.st_size) < out->map_bytes) {
    return fail("bad_argument", "the shared buffer has " + std::to_string(info.st_size) +
                                    " bytes, fewer than map_bytes = " + std::to_string(out->map_bytes));
  }
  return map(out);
}

Status guards_cpu(const prt_buffer& buffer, bool* intact) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(buffer.base);
  const std::uint64_t end = buffer.offset + buffer.bytes;
  *intact = all_canary(bytes, buffer.offset) && all_canary(bytes + end, buffer.map_bytes - end);
  return {};
}

Status mend_cpu(const prt_buffer& buffer) {
  auto* bytes = reinterpret_cast<unsigned char*>(buffer.base);
  const std::uint64_t end = buffer.offset + buffer.bytes;
  std::memset(bytes, canary, buffer.offset);
  std::memset(bytes + end, canary, buffer.map_bytes - end);
  return {};
}

void release_cpu(prt_buffer* buffer) {
  if (buffer->base == 0) return;
  munmap(reinterpret_cast<void*>(buffer->base - buffer->guard_bytes), buffer->map_bytes + 2 * buffer->guard_bytes);
  buffer->base = 0;
}

}  // namespace planish::rt
