#pragma once

#include <cstdint>

#include "driver.h"
#include "result.h"

/// A tensor's memory inside a mapping that can be shared by descriptor, with unmapped addresses on both sides.
struct prt_buffer {
  int device = -1;
  int fd = -1;
  std::uint64_t bytes = 0, offset = 0, map_bytes = 0;
  std::uint64_t guard_bytes = 0;  ///< unmapped, on either side
  std::uint64_t base = 0;         ///< address of the mapping; 0 until mapped
  bool writable = false;
  planish::rt::cu::MemHandle handle = 0;
};

namespace planish::rt {

constexpr unsigned char canary = 0xA5;
constexpr std::uint64_t cpu_alignment = 64, cuda_alignment = 256;

/// Where a tensor goes in a mapping of whole `granules`: as close to the end as its alignment allows, so that running
/// over the end faults soon.
struct Placement {
  std::uint64_t offset = 0, map_bytes = 0;
};
Result<Placement> place(std::uint64_t bytes, std::uint64_t granule, std::uint64_t alignment);

/// Each fills the fields of *out that it owns step by step, so that release_* undoes a half-done job.
Status create_cpu(prt_buffer* out, bool seal);
Status import_cpu(prt_buffer* out);
Status guards_cpu(const prt_buffer& buffer, bool* intact);
Status mend_cpu(const prt_buffer& buffer);
void release_cpu(prt_buffer* buffer);
Status create_cuda(prt_buffer* out);
Status import_cuda(prt_buffer* out);
Status guards_cuda(const prt_buffer& buffer, bool* intact);
Status mend_cuda(const prt_buffer& buffer);
void release_cuda(prt_buffer* buffer);

/// True when all n bytes are the canary.
bool all_canary(const unsigned char* at, std::uint64_t n);

}  // namespace planish::rt
