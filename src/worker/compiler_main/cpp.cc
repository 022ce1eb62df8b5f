#include "worker/compiler_main/cpp.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/file.h"
#include "base/owned_folder.h"
#include "base/subprocess.h"
#include "worker/compiler_main/instructions.h"
#include "worker/toolbox.h"

namespace planish::worker {

namespace {

/// Where a compiler of this name, its headers and libraries lie: the system's folders, and its own prefix where that is
/// elsewhere.
std::vector<std::string> parts_of(const std::string& program) {
  namespace fs = std::filesystem;
  std::vector<std::string> out{"/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/alternatives", "/etc/ld.so.cache"};
  std::vector<fs::path> places;
  if (program.find('/') != std::string::npos) {
    places.emplace_back(program);
  } else if (const char* path = std::getenv("PATH"); path != nullptr) {
    for (std::string_view rest = path; !rest.empty();) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
      if (!folder.empty()) places.push_back(fs::path(folder) / program);
    }
  }
  for (const fs::path& place : places) {
    std::error_code failed;
    const fs::path file = fs::canonical(place, failed);
    if (failed) continue;
    const fs::path prefix = file.parent_path().parent_path();
    if (prefix != "/" && prefix != "/usr") out.push_back(prefix.string());
    out.push_back(place.parent_path().string());
    break;
  }
  return out;
}

}  // namespace

Result<CppCompiler> CppCompiler::find() {
  CppCompiler compiler;
  const char* named = std::getenv("PLANISH_CXX");
  compiler.program_ = named != nullptr && *named != '\0' ? named : "g++";
  SpawnOptions options;
  options.command = {compiler.program_, "--version"};
  auto result = run_command(options, 20);
  if (!result.has_value() || !result->status.ok()) {
    Error error{
        "no_compiler", fmt::format("{} does not run, and CPU kernels need a C++ compiler", compiler.program_), {}, {}};
    error.causes.push_back(result.has_value() ? result->status.text() : result.error().message);
    error.hint = "install g++, or set PLANISH_CXX";
    return std::unexpected(std::move(error));
  }
  compiler.runner_ = Toolbox::resolve().runner;
  std::error_code ignored;
  if (!std::filesystem::exists(compiler.runner_, ignored)) {
    return fail("no_compiler",
                fmt::format("{} is missing, which makes the place that compilers run in", compiler.runner_.string()),
                "run `make build`");
  }
  compiler.readable_ = parts_of(compiler.program_);
  compiler.version_ = compiler.program_ + " " + result->output.substr(0, result->output.find('\n'));
  return compiler;
}

Result<Compiled> CppCompiler::compile(const CompileJob& job) const {
  auto folder = OwnedFolder::create("planish-cc-");
  if (!folder.has_value()) return std::unexpected(std::move(folder).error());
  const auto object = folder->path() / "kernel.so";
  SpawnOptions options;
  options.command = {runner_.string(), "--guest", "--scratch", folder->path().string(), "--device", "cpu"};
  for (const std::string& part : readable_) options.command.insert(options.command.end(), {"--readable", part});
  // Never -ffast-math: it breaks NaN and Inf, and linked into a shared object it changes the whole process's denormal
  // mode.
  const std::vector<std::string> compile = {"--",
                                            program_,
                                            "-O3",
                                            "-march=" + job.arch,
                                            "-std=c++17",
                                            "-fopenmp",
                                            "-fno-math-errno",
                                            "-fno-trapping-math",
                                            "-fPIC",
                                            "-shared",
                                            "-fvisibility=hidden",
                                            "-fdiagnostics-color=never",
                                            "-save-temps=obj"};  // its assembly is counted
  options.command.insert(options.command.end(), compile.begin(), compile.end());
  options.command.insert(options.command.end(), job.flags.begin(), job.flags.end());
  options.command.insert(options.command.end(), {"-x", "c++", "-", "-o", object.string()});
  options.directory = folder->path();
  options.env.emplace_back("LC_ALL", "C");
  options.channel = true;  // the guest's maker says there what holds it
  // Visible whatever the source says: the entry is found by dlsym.
  options.input = "#pragma GCC visibility push(default)\n#line 1 \"" + job.entry + ".cpp\"\n" + job.source;
  auto result = run_command(std::move(options), job.limit_seconds);
  if (!result.has_value()) {
    Error error = std::move(result).error();
    if (error.kind == "timeout") {
      error.kind = "compile_timeout";
      error.message = fmt::format("compiling kernel {} took longer than {:.0f} s", job.entry, job.limit_seconds);
    }
    return std::unexpected(std::move(error));
  }
  if (!result->status.ok()) {
    return fail(
        result->output.find("No space left on device") != std::string::npos ? ErrorKind("disk_full")
                                                                            : ErrorKind("compile_error"),
        result->output.empty() ? fmt::format("{} ended with {}", program_, result->status.text()) : result->output);
  }
  PLANISH_TRY(std::string binary, read_file(object));
  Compiled compiled;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder->path(), ignored)) {
    if (entry.path().extension() != ".s") continue;
    if (const auto assembly = read_file(entry.path())) {
      compiled.instructions = count_assembly(*assembly);
      compiled.local_bytes = largest_frame(*assembly);
    }
  }
  compiled.binary = std::move(binary);
  compiled.log = std::move(result->output);
  return compiled;
}

}  // namespace planish::worker
