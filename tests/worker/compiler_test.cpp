// The compile worker itself, with real compilers.
#include "worker/compiler.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

using namespace planish;
using worker::CompileJob;
using worker::Compiler;
namespace fs = std::filesystem;

namespace {

worker::Toolbox tools() {
  return worker::Toolbox::resolve(fs::path(PLANISH_BUILD_DIR) / "bin");
}

CompileJob cpp_job(const fs::path& cache, const std::string& source) {
  CompileJob job;
  job.language = "cpp";
  job.source = source;
  job.entry = "k0";
  job.arch = "x86-64-v2";
  job.cache = cache.string();
  return job;
}

const std::string answer_source = "extern \"C\" void k0(void** args) { *static_cast<int*>(args[0]) = 42; }\n";

}  // namespace

TEST_CASE("a C++ kernel is compiled once, found again, and found broken") {
  if (!fs::exists(tools().compiler)) return;
  auto folder = TempDir::create();
  auto compiler = Compiler::start(tools());
  REQUIRE(compiler.has_value());
  const auto job = cpp_job(folder->path(), answer_source);
  const auto first = compiler->compile(job);
  REQUIRE_MESSAGE(first.has_value(), first.error().message);
  CHECK(!first->cached);
  CHECK(fs::path(first->path).filename() == first->sha256 + ".so");
  void* library = ::dlopen(first->path.c_str(), RTLD_NOW);
  REQUIRE(library != nullptr);
  int value = 0;
  void* args[1] = {&value};
  reinterpret_cast<void (*)(void**)>(::dlsym(library, "k0"))(args);
  CHECK(value == 42);
  ::dlclose(library);
  const auto second = compiler->compile(job);
  REQUIRE(second.has_value());
  CHECK(second->cached);
  CHECK(second->sha256 == first->sha256);
  auto other = job;
  other.flags = {"-DX=1"};
  CHECK(!compiler->compile(other)->cached);
  // Cut short by a crash of the machine: a miss, not a broken kernel.
  REQUIRE(::truncate(first->path.c_str(), 100) == 0);
  const auto third = compiler->compile(job);
  REQUIRE(third.has_value());
  CHECK(!third->cached);
  CHECK(third->sha256 == first->sha256);
  // Nothing half-written stays behind.
  for (const auto& entry : fs::recursive_directory_iterator(folder->path()))
    CHECK(!entry.path().filename().string().starts_with(".tmp"));
}

TEST_CASE("what a C++ kernel is made of is counted, and found again in the cache") {
  if (!fs::exists(tools().compiler)) return;
  auto folder = TempDir::create();
  auto compiler = Compiler::start(tools());
  REQUIRE(compiler.has_value());
  auto job = cpp_job(folder->path(),
                     "extern \"C\" void k0(void** args) {\n"
                     "  float* x = static_cast<float*>(args[0]);\n"
                     "  float* volatile keep; float big[4096]; keep = big; x[1] = keep[5];\n"
                     "#pragma omp parallel num_threads(2)\n"
                     "  {\n"
                     "#pragma omp for\n"
                     "    for (int i = 0; i < 4096; ++i) x[i] = x[i] * 2 + 1;\n"
                     "#pragma omp for\n"
                     "    for (int i = 0; i < 4096; ++i) x[i] = x[4095 - i] + 1;\n"
                     "  }\n"
                     "}\n");
  job.arch = "x86-64-v3";
  const auto reply = compiler->compile(job);
  REQUIRE_MESSAGE(reply.has_value(), reply.error().message);
  auto count = reply->instructions;
  CHECK(count["parallel"] == 1);
  CHECK(count["barrier"] >= 1);
  CHECK(count["vector_256"] > 0);
  CHECK(count["vector_512"] == 0);
  CHECK(count["arithmetic"] > 0);
  CHECK(reply->local_bytes >= 4 * 4096);
  const auto again = compiler->compile(job);
  REQUIRE(again.has_value());
  CHECK(again->cached);
  CHECK(again->instructions == reply->instructions);
  CHECK(again->local_bytes == reply->local_bytes);
}

TEST_CASE("a source reads nothing of the user's while it is compiled") {
  if (!fs::exists(tools().compiler)) return;
  constexpr long version_asked = 1;
  if (::syscall(SYS_landlock_create_ruleset, nullptr, 0, version_asked) <= 0) {
    MESSAGE("skipped: this kernel has no Landlock");
    return;
  }
  auto folder = TempDir::create();
  auto compiler = Compiler::start(tools());
  REQUIRE(compiler.has_value());
  const std::string secret = (folder->path() / "secret").string();
  REQUIRE(write_file(secret, "int found = 1;\n").has_value());
  const std::string kernel = "extern \"C\" void k0(void**) {}\n";
  for (const std::string& line :
       {"#include \"" + secret + "\"\n", "asm(\".incbin \\\"" + secret + "\\\"\");\n",
        std::string("#include \"/proc/self/environ\"\n"), std::string("#include \"/etc/passwd\"\n")}) {
    const auto reply = compiler->compile(cpp_job(folder->path() / "cache", line + kernel));
    REQUIRE_MESSAGE(!reply.has_value(), line);
    CHECK(reply.error().kind.name() == "compile_error");
    CHECK_MESSAGE((reply.error().message.find("ermission denied") != std::string::npos ||
                   reply.error().message.find("o such file") != std::string::npos ||
                   reply.error().message.find("file not found") != std::string::npos),
                  reply.error().message);
  }
  // The same, without what it may not have.
  const auto plain =
      compiler->compile(cpp_job(folder->path() / "cache", "#include <cmath>\n#include <omp.h>\n" + kernel));
  REQUIRE_MESSAGE(plain.has_value(), plain.error().message);
}

TEST_CASE("errors have names") {
  if (!fs::exists(tools().compiler)) return;
  auto folder = TempDir::create();
  auto compiler = Compiler::start(tools());
  REQUIRE(compiler.has_value());
  auto job = cpp_job(folder->path(), "extern \"C\" void k0(void**) { nonsense; }");
  auto reply = compiler->compile(job);
  REQUIRE(!reply.has_value());
  CHECK(reply.error().kind.name() == "compile_error");
  CHECK(reply.error().message.find("nonsense") != std::string::npos);
  job.source = answer_source;
  for (const char* flag :
       {"-ffast-math", "-fplugin=x.so", "-include/etc/passwd", "-o/tmp/x", "@/etc/passwd", "-DA=$(x)"}) {
    job.flags = {flag};
    const auto refused = compiler->compile(job);
    REQUIRE(!refused.has_value());
    CHECK(refused.error().message.find("not on the list") != std::string::npos);
  }
  job.flags.clear();
  job.arch = "native; rm";
  CHECK(compiler->compile(job).error().kind.name() == "compile_error");
  job.arch = "x86-64-v2";
  job.language = "fortran";
  CHECK(compiler->compile(job).error().kind.name() == "compile_error");
  // A source that takes for ever: the compiler is ended, the worker lives.
  job.language = "cpp";
  job.source =
      "template <int N, int M> struct F { static const int v = F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v; };"
      "template <int M> struct F<0, M> { static const int v = M; }; extern \"C\" void k0(void** a) { *(int*)a[0] = "
      "F<26, 0>::v; }";
  job.limit_seconds = 0.5;
  CHECK(compiler->compile(job).error().kind.name() == "compile_timeout");
  CHECK(compiler->alive());
  // A file in the cache folder's place: what cannot be written to, also for root, whom no mode stops.
  const fs::path blocked = folder->path() / "blocked";
  REQUIRE(write_file(blocked, "x").has_value());
  auto unwritable = cpp_job(blocked, answer_source);
  const auto kept = compiler->compile(unwritable);
  REQUIRE(!kept.has_value());
  CHECK(kept.error().kind.name() == "cache_unwritable");
  CHECK(!kept.error().hint.empty());
}

TEST_CASE("a CUDA kernel, with its registers, where NVRTC is found") {
  if (!fs::exists(tools().compiler)) return;
  auto folder = TempDir::create();
  auto compiler = Compiler::start(tools());
  REQUIRE(compiler.has_value());
  CompileJob job;
  job.language = "cuda";
  job.entry = "k0";
  job.arch = "sm_90a";
  job.cache = folder->path().string();
  job.source =
      "extern \"C\" __global__ void k0(float* x, int n) { __shared__ float s[64]; s[threadIdx.x] = x[threadIdx.x]; "
      "__syncthreads();"
      " if (threadIdx.x < n) x[threadIdx.x] = s[threadIdx.x ^ 1] * 2; }";
  const auto reply = compiler->compile(job);
  if (!reply.has_value() && reply.error().kind.name() == "no_compiler") {
    CHECK(!reply.error().hint.empty());
    MESSAGE("skipped: no NVRTC");
    return;
  }
  REQUIRE_MESSAGE(reply.has_value(), reply.error().message);
  CHECK(reply->registers > 0);
  CHECK(reply->shared_bytes == 256);
  CHECK(reply->spill_bytes == 0);
  CHECK_MESSAGE(reply->log.empty(), reply->log);
  CHECK(reply->path.ends_with(".cubin"));
  CHECK(compiler->compile(job)->cached);
  auto count = reply->instructions;
  CHECK(count["barrier"] == 1);
  CHECK(count["shared"] == 2);
  CHECK(count["global"] == 2);
  CHECK(count["tensor"] == 0);
  CHECK(compiler->compile(job)->instructions == reply->instructions);
  job.source =
      "extern \"C\" __global__ void k0(float* x, unsigned a) { float c0 = 0, c1 = 0, c2 = 0, c3 = 0;"
      " asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%4,%4,%4},{%4,%4},"
      "{%0,%1,%2,%3};\" : \"+f\"(c0), \"+f\"(c1), \"+f\"(c2), \"+f\"(c3) : \"r\"(a));"
      " atomicAdd(x, c0 + c1 + c2 + c3); }";
  const auto tensor = compiler->compile(job);
  REQUIRE_MESSAGE(tensor.has_value(), tensor.error().message);
  count = tensor->instructions;
  CHECK(count["tensor"] == 1);
  CHECK(count["atomic"] == 1);
  job.source = "extern \"C\" __global__ void k0() { nonsense; }";
  const auto broken = compiler->compile(job);
  REQUIRE(!broken.has_value());
  CHECK(broken.error().kind.name() == "compile_error");
  CHECK(broken.error().message.find("nonsense") != std::string::npos);
}

TEST_CASE("the kernels of examples/by_hand compile for Hopper without spills") {
  if (!fs::exists(tools().compiler)) return;
  auto folder = TempDir::create();
  auto compiler = Compiler::start(tools());
  REQUIRE(compiler.has_value());
  int found = 0;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(PLANISH_SOURCE_DIR) / "examples" / "by_hand")) {
    if (entry.path().extension() != ".cu") continue;
    CAPTURE(entry.path().string());
    ++found;
    CompileJob job;
    job.language = "cuda";
    job.arch = "sm_90a";
    job.cache = folder->path().string();
    job.source = read_file(entry.path()).value();
    constexpr std::string_view directive = "//@ launch ";
    const auto at = job.source.find(directive);
    REQUIRE(at != std::string::npos);
    job.entry =
        job.source.substr(at + directive.size(), job.source.find(' ', at + directive.size()) - at - directive.size());
    const auto reply = compiler->compile(job);
    if (!reply.has_value() && reply.error().kind.name() == "no_compiler") {
      MESSAGE("skipped: no NVRTC");
      return;
    }
    REQUIRE_MESSAGE(reply.has_value(), reply.error().message);
    CHECK(reply->spill_bytes == 0);
  }
  CHECK(found == 8);
}
