#include "buffer.h"

#include <unistd.h>

#include <algorithm>
#include <memory>

namespace planish::rt {

Result<Placement> place(std::uint64_t bytes, std::uint64_t granule, std::uint64_t alignment) {
  const std::uint64_t room = std::max<std::uint64_t>(bytes, 1);  // an empty tensor still has an address
  if (room > (std::uint64_t{1} << 48))
    return fail("out_of_memory", std::to_string(bytes) + " bytes are more than any address space has");
  const std::uint64_t map_bytes = (room + granule - 1) / granule * granule;
  return Placement{(map_bytes - room) / alignment * alignment, map_bytes};
}

bool all_canary(const unsigned char* at, std::uint64_t n) {
  return std::all_of(at, at + n, [](unsigned char c) { return c == canary; });
}

}  // namespace planish::rt

using planish::rt::boundary;
using planish::rt::fail;
using planish::rt::Status;

extern "C" {

int prt_buffer_create(int device, uint64_t bytes, int seal, prt_buffer** out, prt_error* error) {
  return boundary(error, [&]() -> Status {
    if (out == nullptr) return fail("bad_argument", "out is null");
    *out = nullptr;
    std::unique_ptr<prt_buffer, void (*)(prt_buffer*)> buffer(new prt_buffer, prt_buffer_free);
    buffer->device = device < 0 ? -1 : device;
    buffer->bytes = bytes;
    buffer->writable = true;
    PRT_CHECK(device < 0 ? planish::rt::create_cpu(buffer.get(), seal != 0) : planish::rt::create_cuda(buffer.get()));
    *out = buffer.release();
    return {};
  });
}

int prt_buffer_import(int device, int fd, uint64_t bytes, uint64_t offset, uint64_t map_bytes, int writable,
                      prt_buffer** out, prt_error* error) {
  bool owned = false;
  const int status = boundary(error, [&]() -> Status {
    if (out == nullptr) return fail("bad_argument", "out is null");
    *out = nullptr;
    if (fd < 0) return fail("bad_argument", "the descriptor is negative");
    if (map_bytes == 0 || offset > map_bytes || bytes > map_bytes - offset) {
      return fail("bad_argument", "the tensor does not lie inside its mapping");
    }
    std::unique_ptr<prt_buffer, void (*)(prt_buffer*)> buffer(new prt_buffer, prt_buffer_free);
    owned = true;
    buffer->device = device < 0 ? -1 : device;
    buffer->fd = fd;
    buffer->bytes = bytes;
    buffer->offset = offset;
    buffer->map_bytes = map_bytes;
    buffer->writable = writable != 0;
    PRT_CHECK(device < 0 ? planish::rt::import_cpu(buffer.get()) : planish::rt::import_cuda(buffer.get()));
    *out = buffer.release();
    return {};
  });
  if (!owned && fd >= 0) close(fd);
  return status;
}

void* prt_buffer_data(const prt_buffer* buffer) {
  return reinterpret_cast<void*>(buffer->base + buffer->offset);
}
int prt_buffer_fd(const prt_buffer* buffer) {
  return buffer->fd;
}
uint64_t prt_buffer_offset(const prt_buffer* buffer) {
  return buffer->offset;
}
uint64_t prt_buffer_map_bytes(const prt_buffer* buffer) {
  return buffer->map_bytes;
}
uint64_t prt_buffer_guard_bytes(const prt_buffer* buffer) {
  return buffer->guard_bytes;
}

int prt_buffer_guards(prt_buffer* buffer, int* intact, prt_error* error) {
  return boundary(error, [&]() -> Status {
    if (buffer == nullptr || intact == nullptr) return fail("bad_argument", "a null pointer was given");
    bool result = false;
    PRT_CHECK(buffer->device < 0 ? planish::rt::guards_cpu(*buffer, &result)
                                 : planish::rt::guards_cuda(*buffer, &result));
    *intact = result ? 1 : 0;
    return {};
  });
}

int prt_buffer_mend(prt_buffer* buffer, prt_error* error) {
  return boundary(error, [&]() -> Status {
    if (buffer == nullptr) return fail("bad_argument", "a null pointer was given");
    return buffer->device < 0 ? planish::rt::mend_cpu(*buffer) : planish::rt::mend_cuda(*buffer);
  });
}

void prt_buffer_free(prt_buffer* buffer) {
  if (buffer == nullptr) return;
  if (buffer->device < 0) {
    planish::rt::release_cpu(buffer);
  } else {
    planish::rt::release_cuda(buffer);
  }
  if (buffer->fd >= 0) close(buffer->fd);
  delete buffer;
}

}  // extern "C"
