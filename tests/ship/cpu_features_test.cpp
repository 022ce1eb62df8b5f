#include "ship/cpu_features.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "ship/manifest.h"

namespace planish::ship {
namespace {

using Set = std::set<std::string>;

TEST_CASE("instructions are told by the sets they came with") {
  const auto of = [](const std::string& line) { return cpu_features("    1139:\t" + line + "\n"); };
  const Set wide{"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};
  CHECK(of("addps  %xmm0,%xmm1") == Set{});
  CHECK(of("mov    0x8(%rdi),%rax") == Set{});
  CHECK(of("verr   %ax") == Set{});
  CHECK(of("vaddps %ymm0,%ymm1,%ymm2") == Set{"avx"});
  CHECK(of("vpaddd %xmm0,%xmm1,%xmm2") == Set{"avx"});
  CHECK(of("vpaddd %ymm0,%ymm1,%ymm2") == Set{"avx", "avx2"});
  CHECK(of("vbroadcastss (%rax),%ymm1") == Set{"avx"});
  CHECK(of("vbroadcastss %xmm0,%ymm1") == Set{"avx", "avx2"});
  CHECK(of("vfmadd213ps %ymm0,%ymm1,%ymm12") == Set{"avx", "fma"});
  CHECK(of("vcvtph2ps (%rax),%ymm1") == Set{"avx", "f16c"});
  CHECK(of("vcvtph2ps (%rax),%zmm1") == wide);
  CHECK(of("vaddps %ymm0,%ymm1,%ymm16") == wide);
  CHECK(of("vcmpltps %zmm0,%zmm1,%k1") == wide);
  CHECK(of("kmovd  %k1,%eax") == wide);
  CHECK(of("vmovaps %zmm0,(%rdx)") == wide);
  CHECK(of("vaddph %zmm0,%zmm1,%zmm2").contains("avx512_fp16"));
  CHECK(of("vpdpbusd %ymm0,%ymm1,%ymm2").contains("avx_vnni"));
  CHECK(of("vpdpbusd %zmm0,%zmm1,%zmm2").contains("avx512_vnni"));
  CHECK(of("vpermb %zmm0,%zmm1,%zmm2").contains("avx512vbmi"));
  CHECK(of("lock cmpxchg %rdx,(%rdi)") == Set{});
  CHECK(of("andn   %eax,%ebx,%ecx") == Set{"bmi1"});
  CHECK(of("shlx   %rax,%rbx,%rcx") == Set{"bmi2"});
  CHECK(of("lzcnt  %eax,%ebx") == Set{"abm"});
  CHECK(of("movntss %xmm0,(%rax)") == Set{"sse4a"});
  CHECK(of("pshufb %xmm0,%xmm1") == Set{"ssse3"});
  CHECK(of("roundps $0x1,%xmm0,%xmm1") == Set{"sse4_1"});
  CHECK(cpu_features("0000000000001139 <vaddps>:\n\nDisassembly of section .text:\n") == Set{});
}

TEST_CASE("a kernel needs what it was compiled to use, and no more") {
  const std::filesystem::path folder = "/tmp/planish-features-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "k.cpp")
      << "extern \"C\" void k(float* a, const float* b) { for (int i = 0; i < 4096; ++i) a[i] "
         "+= b[i] * 3; }\n";
  const auto made = [&](const std::string& flags) {
    const std::string at = folder.string();
    REQUIRE(std::system(("g++ -O3 -shared -fPIC " + flags + " -o " + at + "/k.so " + at + "/k.cpp").c_str()) == 0);
    return cpu_features_of(folder / "k.so");
  };
  CHECK(made("-march=x86-64") == Set{});
  // Barcelona and its successors have SSE4a, which no other CPU has and this kernel does not use.
  const auto amd = made("-march=bdver4");
  REQUIRE(amd.has_value());
  CHECK(*amd == Set{"avx", "fma4"});
  CHECK(made("-march=haswell") == Set{"avx", "fma"});
  CHECK(made("-march=skylake-avx512 -mprefer-vector-width=512")->contains("avx512f"));
  // The manifest names what all kernels together use; where that cannot be told, what a compiler may use of this CPU.
  made("-march=x86-64");
  CHECK(cpu_flags(folder, {"k.so"}).empty());
  std::ofstream(folder / "text.so") << "no binary";
  for (const std::string& flag : cpu_flags(folder, {"k.so", "text.so"})) CHECK(flag != "sse4a");
  CHECK(cpu_features_of(folder / "text.so") == std::nullopt);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace planish::ship
