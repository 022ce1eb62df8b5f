#include "worker/compiler_main/flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace planish::worker {
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

}  // namespace

Status check_flags(std::string_view language, const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    bool allowed = definition(flag);
    if (language == "cuda") {
      allowed = allowed || std::ranges::find(cuda_flags, flag) != cuda_flags.end() ||
                (flag.starts_with("--maxrregcount=") && digits(std::string_view(flag).substr(15)));
    } else if (language == "cpp") {
      allowed = allowed || std::ranges::find(cpp_flags, flag) != cpp_flags.end() ||
                (flag.starts_with("-mprefer-vector-width=") && digits(std::string_view(flag).substr(22)));
    }
    if (!allowed)
      return fail("compile_error", fmt::format("compiler flag {} is not on the list of allowed ones", flag));
  }
  return {};
}

}  // namespace planish::worker
