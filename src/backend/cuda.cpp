#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "backend/backend.h"
#include "backend/flags.h"

namespace planish::backend {
namespace {

bool cuda_flag(std::string_view flag) {
  constexpr std::array<std::string_view, 11> allowed{
      "--fmad=true",      "--fmad=false",     "--ftz=true",        "--ftz=false",     "--prec-div=true",
      "--prec-div=false", "--prec-sqrt=true", "--prec-sqrt=false", "--use_fast_math", "--extra-device-vectorization",
      "--restrict"};
  return is_definition(flag) || std::ranges::find(allowed, flag) != allowed.end() ||
         is_number_after("--maxrregcount=", flag);
}

/// `--num-warps=4`, `--num-stages=3` and `--signature=*fp32:16,i32`: those of Triton's own ahead-of-time compiler.
bool triton_flag(std::string_view flag) {
  const auto after = [flag](std::string_view prefix) {
    return flag.starts_with(prefix) ? flag.substr(prefix.size()) : std::string_view();
  };
  constexpr std::array<std::string_view, 6> warps{"1", "2", "4", "8", "16", "32"};
  if (std::ranges::find(warps, after("--num-warps=")) != warps.end()) return true;
  if (const auto stages = after("--num-stages="); stages.size() == 1) return stages[0] >= '1' && stages[0] <= '8';
  const auto types = after("--signature=");
  return !types.empty() && std::ranges::all_of(types, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '*' || c == ':' || c == ',' || c == '.' || c == '-';
  });
}

}  // namespace

std::int64_t triton_warps(const std::vector<std::string>& flags) {
  constexpr std::string_view name = "--num-warps=";
  std::int64_t warps = 4;
  for (const std::string_view flag : flags) {
    if (flag.starts_with(name)) std::from_chars(flag.data() + name.size(), flag.data() + flag.size(), warps);
  }
  return warps;
}

const Backend& cuda() {
  static const Backend gpu{
      .name = "cuda",
      .title = "CUDA",
      .languages = {{"cuda", "CUDA", "cu", "cubin", false, cuda_flag},
                    {"triton", "Triton", "py", "cubin", true, triton_flag,
                     [](const std::vector<std::string>& flags) { return 32 * triton_warps(flags); }}},
      // The same on every architecture from sm_80 on but for the consumer ones, where blocks and threads are fewer:
      // waves are then a little too few.
      .held = {},
      .certainty = {}};
  return gpu;
}

}  // namespace planish::backend
