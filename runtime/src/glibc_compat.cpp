// The static libstdc++ and libgcc call two functions newer than the oldest glibc (2.34) on which shipped modules must
// load. Definitions of our own satisfy them; exports.map keeps both inside this library.
#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

namespace {

struct Search {
  std::uintptr_t pc = 0;
  dl_find_object* result = nullptr;
};

int visit(dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  std::uintptr_t lo = UINTPTR_MAX, hi = 0, frames = 0;
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const std::uintptr_t start = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD) {
      const std::uintptr_t end = start + header.p_memsz;
      inside = inside || (search->pc >= start && search->pc < end);
      lo = start < lo ? start : lo;
      hi = end > hi ? end : hi;
    } else if (header.p_type == PT_GNU_EH_FRAME) {
      frames = start;
    }
  }
  if (!inside || frames == 0) return 0;
  *search->result = {};
  search->result->dlfo_map_start = reinterpret_cast<void*>(lo);
  search->result->dlfo_map_end = reinterpret_cast<void*>(hi);
  search->result->dlfo_eh_frame = reinterpret_cast<void*>(frames);
  return 1;
}

}  // namespace

extern "C" int _dl_find_object(void* address, dl_find_object* result) noexcept {
  Search search{reinterpret_cast<std::uintptr_t>(address), result};
  return dl_iterate_phdr(visit, &search) == 1 ? 0 : -1;
}

extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t out = 0;
  if (getrandom(&out, sizeof out, 0) != static_cast<ssize_t>(sizeof out)) std::abort();
  return out;
}
