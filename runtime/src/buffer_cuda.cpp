#include <fcntl.h>

#include <vector>

#include "buffer.h"

namespace planish::rt {
namespace {

/// Maps buffer->handle between two unmapped granules.
Status map(const cu::Driver& d, const cu::Gpu& gpu, prt_buffer* out) {
  const std::size_t total = out->map_bytes + 2 * gpu.granularity;
  cu::DevicePtr room = 0;
  PRT_CHECK(cu::check(d.mem_reserve(&room, total, 0, 0, 0), "cuMemAddressReserve", "out_of_memory"));
  const cu::DevicePtr at = room + gpu.granularity;
  if (auto mapped = cu::check(d.mem_map(at, out->map_bytes, 0, out->handle, 0), "cuMemMap", "bad_argument"); !mapped) {
    d.mem_address_free(room, total);
    return mapped;
  }
  out->guard_bytes = gpu.granularity;
  out->base = at;
  const cu::MemAccessDesc access{{cu::location_device, gpu.device},
                                 out->writable ? cu::access_read_write : cu::access_read};
  return cu::check(d.mem_set_access(at, out->map_bytes, &access, 1), "cuMemSetAccess", "bad_argument");
}

Status canary_intact(const cu::Driver& d, std::uint64_t at, std::uint64_t bytes, bool* intact) {
  if (bytes == 0 || !*intact) return {};
  std::vector<unsigned char> host(bytes);
  PRT_CHECK(cu::check(d.memcpy_to_host(host.data(), at, bytes), "reading the guards of a buffer", "illegal_address"));
  *intact = all_canary(host.data(), bytes);
  return {};
}

}  // namespace

Status create_cuda(prt_buffer* out) {
  PRT_TRY(const cu::Driver* d, cu::driver());
  PRT_TRY(const cu::Gpu* gpu, cu::gpu(out->device));
  const cu::Current current(*d, *gpu);
  PRT_CHECK(current.status());
  PRT_TRY(const Placement where, place(out->bytes, gpu->granularity, cuda_alignment));
  out->offset = where.offset;
  out->map_bytes = where.map_bytes;
  const cu::MemAllocationProp prop = cu::shareable_memory(gpu->device);
  PRT_CHECK(cu::check(d->mem_create(&out->handle, out->map_bytes, &prop, 0), "cuMemCreate", "out_of_memory"));
  PRT_CHECK(cu::check(d->mem_export(&out->fd, out->handle, cu::handle_posix_fd, 0), "cuMemExportToShareableHandle",
                      "bad_argument"));
  fcntl(out->fd, F_SETFD, FD_CLOEXEC);
  PRT_CHECK(map(*d, *gpu, out));
  return mend_cuda(*out);
}

Status import_cuda(prt_buffer* out) {
  PRT_TRY(const cu::Driver* d, cu::driver());
  PRT_TRY(const cu::Gpu* gpu, cu::gpu(out->device));
  const cu::Current current(*d, *gpu);
  PRT_CHECK(current.status());
  if (out->map_bytes % gpu->granularity != 0)
    return fail("bad_argument", "map_bytes is no multiple of the allocation granularity");
  auto* os_handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(out->fd));
  PRT_CHECK(cu::check(d->mem_import(&out->handle, os_handle, cu::handle_posix_fd), "cuMemImportFromShareableHandle",
                      "bad_argument"));
  return map(*d, *gpu, out);
}

Status guards_cuda(const prt_buffer& buffer, bool* intact) {
  PRT_TRY(const cu::Driver* d, cu::driver());
  PRT_TRY(const cu::Gpu* gpu, cu::gpu(buffer.device));
  const cu::Current current(*d, *gpu);
  PRT_CHECK(current.status());
  PRT_CHECK(cu::check(d->ctx_synchronize(), "cuCtxSynchronize", "launch_failed"));
  *intact = true;
  const std::uint64_t end = buffer.offset + buffer.bytes;
  PRT_CHECK(canary_intact(*d, buffer.base, buffer.offset, intact));
  return canary_intact(*d, buffer.base + end, buffer.map_bytes - end, intact);
}

Status mend_cuda(const prt_buffer& buffer) {
  PRT_TRY(const cu::Driver* d, cu::driver());
  PRT_TRY(const cu::Gpu* gpu, cu::gpu(buffer.device));
  const cu::Current current(*d, *gpu);
  PRT_CHECK(current.status());
  const std::uint64_t end = buffer.offset + buffer.bytes;
  if (buffer.offset > 0)
    PRT_CHECK(cu::check(d->memset_8(buffer.base, canary, buffer.offset, nullptr), "cuMemsetD8", "illegal_address"));
  if (end < buffer.map_bytes) {
    PRT_CHECK(cu::check(d->memset_8(buffer.base + end, canary, buffer.map_bytes - end, nullptr), "cuMemsetD8",
                        "illegal_address"));
  }
  return cu::check(d->stream_synchronize(nullptr), "cuStreamSynchronize", "illegal_address");
}

void release_cuda(prt_buffer* buffer) {
  const auto d = cu::driver();
  const auto gpu = cu::gpu(buffer->device);
  if (!d || !gpu) return;
  const cu::Current current(**d, **gpu);
  if (buffer->base != 0) {
    (*d)->ctx_synchronize();  // work that still uses the memory must not lose it
    (*d)->mem_unmap(buffer->base, buffer->map_bytes);
    (*d)->mem_address_free(buffer->base - buffer->guard_bytes, buffer->map_bytes + 2 * buffer->guard_bytes);
    buffer->base = 0;
  }
  if (buffer->handle != 0) (*d)->mem_release(buffer->handle);
  buffer->handle = 0;
}

}  // namespace planish::rt
