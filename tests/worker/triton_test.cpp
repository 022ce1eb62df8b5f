// The compile worker with Triton: real cubins, without a GPU.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "worker/compiler.h"

using namespace planish;
using worker::CompileJob;
using worker::Compiler;
namespace fs = std::filesystem;

namespace {

const std::string head = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n";

worker::Toolbox tools() {
  return worker::Toolbox::resolve(fs::path(PLANISH_BUILD_DIR) / "bin");
}

bool can_compile() {
  if (!fs::exists(tools().compiler)) return false;
  if (!tools().has_triton()) MESSAGE("Triton is not installed: its compile worker is not tested");
  return tools().has_triton();
}

CompileJob job(const fs::path& cache, const std::string& body) {
  CompileJob out;
  out.language = "triton";
  out.source = head + body;
  out.entry = "planish_kernel";
  out.flags = {"--num-warps=2", "--signature=*fp32:16,*fp32:16"};
  out.arch = "sm_90a";
  out.cache = cache.string();
  return out;
}

/// Sets an environment variable for the children of this scope.
struct Setting {
  Setting(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Setting() {
    if (old_) {
      ::setenv(name_, old_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace

TEST_CASE("a Triton kernel becomes a cubin that brings its shared memory, and is found again") {
  if (!can_compile()) return;
  auto folder = TempDir::create();
  auto compiler = Compiler::start(tools());
  REQUIRE(compiler.has_value());
  const auto sum = job(folder->path(),
                       "def planish_kernel(x, y):\n    i = tl.arange(0, 1024)\n"
                       "    tl.store(y, tl.sum(tl.load(x + i), 0))\n");
  const auto first = compiler->compile(sum);
  REQUIRE_MESSAGE(first.has_value(), first.error().message);
  CHECK(!first->cached);
  CHECK(fs::path(first->path).filename() == first->sha256 + ".cubin");
  CHECK(read_file(first->path)->starts_with("\177ELF"));
  CHECK(first->registers > 0);
  CHECK(first->shared_bytes >= 8);  // two warps meet there
  CHECK(first->instructions.at("barrier") > 0);
  CHECK(compiler->compile(sum)->cached);
  auto wider = sum;
  wider.flags[0] = "--num-warps=4";
  const auto other = compiler->compile(wider);
  REQUIRE(other.has_value());
  CHECK(other->sha256 != first->sha256);
}

TEST_CASE("what is wrong with a Triton kernel is said with its line, and the worker goes on") {
  if (!can_compile()) return;
  auto folder = TempDir::create();
  auto compiler = Compiler::start(tools());
  REQUIRE(compiler.has_value());
  // Starts Triton, which is not part of what the limits below are about.
  const auto sound = job(folder->path(), "def planish_kernel(x, y):\n    tl.store(y, tl.load(x))\n");
  REQUIRE(compiler->compile(sound).has_value());
  const auto refused = [&](const std::string& body, std::vector<std::string> flags = {}, double limit = 20) {
    auto bad = job(folder->path(), body);
    bad.limit_seconds = limit;
    if (!flags.empty()) bad.flags = std::move(flags);
    const auto reply = compiler->compile(bad);
    REQUIRE(!reply.has_value());
    return reply.error();
  };
  const auto unknown = refused("def planish_kernel(x, y):\n    tl.store(y, nothing)\n");
  CHECK(unknown.kind.name() == "compile_error");
  CHECK(unknown.message.find("at 2:16") != std::string::npos);
  CHECK(unknown.message.find("nothing") != std::string::npos);
  const auto syntax = refused("def planish_kernel(x, y)\n    pass\n");
  CHECK(syntax.kind.name() == "compile_error");
  CHECK(syntax.message.find("line 6") != std::string::npos);
  CHECK(refused("def other(x, y):\n    pass\n").message.find("planish_kernel") != std::string::npos);
  CHECK(refused("def planish_kernel(x):\n    pass\n").message.find("takes 1 arguments") != std::string::npos);
  CHECK(refused("def planish_kernel(x, y):\n    pass\n", {"--dump"}).message.find("--dump") != std::string::npos);
  // Source is Python and runs: it may hang, die, or look around.
  const auto hung = refused("def planish_kernel(x, y):\n    pass\nwhile True: pass\n", {}, 1);
  CHECK(hung.kind.name() == "compile_timeout");
  CHECK(refused("def planish_kernel(x, y):\n    pass\nimport os\nos.abort()\n").message.find("signal 6") !=
        std::string::npos);
  const fs::path outside = folder->path() / "outside";
  const auto writer =
      refused("def planish_kernel(x, y):\n    pass\nopen('" + outside.string() + "', 'w').write('x')\n");
  CHECK(writer.kind.name() == "compile_error");
  CHECK(!fs::exists(outside));
  auto again = sound;
  again.flags[0] = "--num-warps=1";  // not from the cache
  CHECK(compiler->compile(again).has_value());
}

TEST_CASE("without Triton the worker says what to install") {
  if (!fs::exists(tools().compiler)) return;
  auto folder = TempDir::create();
  // A module of that name that cannot be imported stands before any other.
  REQUIRE(write_file(folder->path() / "triton/__init__.py", "raise ImportError('no Triton here')\n").has_value());
  const Setting setting("PYTHONPATH", folder->path().string());
  auto compiler = Compiler::start(tools());
  REQUIRE(compiler.has_value());
  const auto reply = compiler->compile(job(folder->path(), "def planish_kernel(x, y):\n    pass\n"));
  REQUIRE(!reply.has_value());
  CHECK(reply.error().kind.name() == "no_compiler");
  CHECK(reply.error().hint.find("pip install triton") != std::string::npos);
}
