#include "backend/architecture.h"

#include <algorithm>
#include <array>

namespace planish::backend {
namespace {

// The rate of mma.sync where there are wider products was found on Hopper to be five eighths of them; Blackwell is
// taken to be no worse.
// clang-format off
constexpr std::array architectures{
    Architecture{.name = "sm_75", .warps = 32, .blocks = 16, .shared_bytes = 65536, .reserved_shared = 0, .block_shared_bytes = 65536,
                 .fp32 = 128, .tensor16 = 1024},
    Architecture{.name = "sm_80", .warps = 64, .blocks = 32, .shared_bytes = 167936, .block_shared_bytes = 166912,
                 .fp32 = 128, .tensor16 = 2048, .async_copies = true, .mma16 = true},
    Architecture{.name = "sm_86", .warps = 48, .blocks = 16, .shared_bytes = 102400, .block_shared_bytes = 101376,
                 .fp32 = 256, .tensor16 = 1024, .async_copies = true, .mma16 = true},
    Architecture{.name = "sm_89", .warps = 48, .blocks = 24, .shared_bytes = 102400, .block_shared_bytes = 101376,
                 .fp32 = 256, .tensor16 = 1024, .async_copies = true, .mma16 = true},
    Architecture{.name = "sm_90", .warps = 64, .blocks = 32, .shared_bytes = 233472, .block_shared_bytes = 232448,
                 .fp32 = 256, .tensor16 = 4096, .warp16 = 2560, .async_copies = true, .mma16 = true, .bulk_copies = true, .clusters = true,
                 .dependent_launch = true},
    Architecture{.name = "sm_90a", .warps = 64, .blocks = 32, .shared_bytes = 233472, .block_shared_bytes = 232448,
                 .fp32 = 256, .tensor16 = 4096, .warp16 = 2560, .async_copies = true, .mma16 = true, .bulk_copies = true, .clusters = true,
                 .dependent_launch = true, .wgmma = true},
    Architecture{.name = "sm_100a", .warps = 64, .blocks = 32, .shared_bytes = 233472, .block_shared_bytes = 232448,
                 .fp32 = 256, .tensor16 = 8192, .warp16 = 2560, .async_copies = true, .mma16 = true, .bulk_copies = true, .clusters = true,
                 .dependent_launch = true, .tcgen05 = true},
    Architecture{.name = "sm_120a", .warps = 48, .blocks = 24, .shared_bytes = 102400, .block_shared_bytes = 101376,
                 .fp32 = 256, .tensor16 = 1024, .async_copies = true, .mma16 = true, .bulk_copies = true, .clusters = true,
                 .dependent_launch = true},
};
// clang-format on

/// "sm_90" of "sm_90a".
std::string_view version(std::string_view name) {
  return name.substr(0, name.find_last_of("0123456789") + 1);
}

/// "sm_9" of "sm_90a": all but the last figure of the version.
std::string_view family(std::string_view name) {
  const std::string_view whole = version(name);
  return whole.substr(0, std::max<std::size_t>(whole.size(), 1) - 1);
}

}  // namespace

const Architecture& architecture(std::string_view name) {
  const auto exact = std::ranges::find(architectures, name, &Architecture::name);
  if (exact != architectures.end()) return *exact;
  // The first of a family has the least of it.
  for (const Architecture& one : architectures) {
    if (version(one.name) == version(name)) return one;
  }
  for (const Architecture& one : architectures) {
    if (family(one.name) == family(name)) return one;
  }
  return *std::ranges::find(architectures, std::string_view("sm_90"), &Architecture::name);
}

}  // namespace planish::backend
