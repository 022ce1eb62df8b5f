#include "program/flags.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace planish::program {
namespace {

bool digits(std::string_view text) {
  return !text.empty() && text.size() <= 4 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// `-DNAME` or `-DNAME=value` with nothing but word characters, so that no macro rewrites more than a name.
bool definition(std::string_view flag) {
  return flag.size() > 2 && flag.starts_with("-D") && std::ranges::all_of(flag.substr(2), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '=' || c == '.' || c == '-' || c == '+';
         });
}

constexpr std::array<std::string_view, 11> cuda_flags{
    "--fmad=true",      "--fmad=false",     "--ftz=true",        "--ftz=false",     "--prec-div=true",
    "--prec-div=false", "--prec-sqrt=true", "--prec-sqrt=false", "--use_fast_math", "--extra-device-vectorization",
    "--restrict"};
constexpr std::array<std::string_view, 20> cpp_flags{"-O1",
                                                     "-O2",
                                                     "-O3",
                                                     "-funroll-loops",
                                                     "-fno-unroll-loops",
                                                     "-ftree-vectorize",
                                                     "-fno-tree-vectorize",
                                                     "-fno-math-errno",
                                                     "-fno-trapping-math",
                                                     "-fopenmp",
                                                     "-fopenmp-simd",
                                                     "-ffp-contract=fast",
                                                     "-ffp-contract=off",
                                                     "-fno-signed-zeros",
                                                     "-mfma",
                                                     "-mavx2",
                                                     "-mavx512f",
                                                     "-fno-semantic-interposition",
                                                     "-fno-stack-protector",
                                                     "-fno-plt"};

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

bool allowed_flag(std::string_view language, std::string_view flag) {
  const auto listed = [flag](const auto& list) { return std::ranges::find(list, flag) != list.end(); };
  const auto number_after = [flag](std::string_view prefix) {
    return flag.starts_with(prefix) && digits(flag.substr(prefix.size()));
  };
  if (definition(flag)) return language == "cuda" || language == "cpp";
  if (language == "triton") return triton_flag(flag);
  if (language == "cuda") return listed(cuda_flags) || number_after("--maxrregcount=");
  return language == "cpp" && (listed(cpp_flags) || number_after("-mprefer-vector-width="));
}

std::int64_t triton_warps(const std::vector<std::string>& flags) {
  constexpr std::string_view name = "--num-warps=";
  std::int64_t warps = 4;
  for (const std::string_view flag : flags) {
    if (flag.starts_with(name)) std::from_chars(flag.data() + name.size(), flag.data() + flag.size(), warps);
  }
  return warps;
}

}  // namespace planish::program
