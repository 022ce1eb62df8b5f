#include "worker/compiler_main/nvrtc.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "worker/compiler_main/instructions.h"

namespace planish::worker {
namespace fs = std::filesystem;

struct Nvrtc::Api {
  using Program = void*;
  int (*version)(int*, int*) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, std::size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*ptx_size)(Program, std::size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  const char* (*error_text)(int) = nullptr;
};

namespace {

/// Every libnvrtc.so* of a folder, plain names before versioned ones, the alternative build never.
std::vector<fs::path> libraries_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with("libnvrtc.so")) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

std::vector<fs::path> candidates() {
  std::vector<fs::path> found;
  const auto folder = [&](const fs::path& path) {
    for (fs::path& library : libraries_in(path)) found.push_back(std::move(library));
  };
  if (const char* named = std::getenv("PLANISH_NVRTC"); named != nullptr && *named != '\0') {
    std::error_code ignored;
    if (fs::is_directory(named, ignored)) {
      folder(named);
    } else {
      found.emplace_back(named);
    }
    return found;  // who names one wants that one or an error
  }
  for (const char* root : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* path = std::getenv(root); path != nullptr && *path != '\0') folder(fs::path(path) / "lib64");
  }
  folder("/usr/local/cuda/lib64");
  std::error_code ignored;
  std::vector<fs::path> toolkits;
  for (const auto& entry : fs::directory_iterator("/usr/local", ignored)) {
    if (entry.path().filename().string().starts_with("cuda-")) toolkits.push_back(entry.path() / "lib64");
  }
  std::ranges::sort(toolkits, std::greater<>());
  for (const fs::path& path : toolkits) folder(path);
  const std::string sites = std::getenv("PLANISH_SITE_PACKAGES") != nullptr ? std::getenv("PLANISH_SITE_PACKAGES") : "";
  std::size_t begin = 0;
  while (begin < sites.size()) {
    const std::size_t end = std::min(sites.find(':', begin), sites.size());
    const fs::path nvidia = fs::path(sites.substr(begin, end - begin)) / "nvidia";
    folder(nvidia / "cu13" / "lib");
    folder(nvidia / "cuda_nvrtc" / "lib");
    begin = end + 1;
  }
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) found.emplace_back(name);
  return found;
}

/// NVRTC looks for its builtins by name alone and fails ("builtin operation failure") where the folder is not on the
/// loader's path.
void load_builtins(const fs::path& library) {
  if (!library.has_parent_path()) return;
  std::error_code ignored;
  const fs::path real = fs::canonical(library, ignored);
  for (const fs::path& folder : {library.parent_path(), real.parent_path()}) {
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("libnvrtc-builtins.so") && ::dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr)
        return;
    }
  }
}

template <typename F>
bool symbol(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Result<Nvrtc> Nvrtc::load() {
  std::string last = "none found";
  for (const fs::path& path : candidates()) {
    load_builtins(path);
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      if (const char* reason = ::dlerror(); path.has_parent_path() && reason != nullptr) last = reason;
      continue;
    }
    auto api = std::make_shared<Api>();
    if (symbol(library, "nvrtcVersion", api->version) && symbol(library, "nvrtcCreateProgram", api->create) &&
        symbol(library, "nvrtcDestroyProgram", api->destroy) && symbol(library, "nvrtcCompileProgram", api->compile) &&
        symbol(library, "nvrtcGetProgramLogSize", api->log_size) && symbol(library, "nvrtcGetProgramLog", api->log) &&
        symbol(library, "nvrtcGetCUBINSize", api->cubin_size) && symbol(library, "nvrtcGetCUBIN", api->cubin) &&
        symbol(library, "nvrtcGetPTXSize", api->ptx_size) && symbol(library, "nvrtcGetPTX", api->ptx) &&
        symbol(library, "nvrtcGetErrorString", api->error_text)) {
      Nvrtc nvrtc;
      nvrtc.api_ = std::move(api);
      nvrtc.path_ = path.string();
      return nvrtc;
    }
    last = path.string() + " lacks functions that are needed (NVRTC 11.1 or newer)";
    ::dlclose(library);
  }
  Error error{"no_compiler", "there is no NVRTC to compile CUDA kernels with", {last}, {}};
  error.hint =
      "install a CUDA toolkit, or `pip install 'nvidia-cuda-nvrtc==13.*'` into the Python that has torch, or set "
      "PLANISH_NVRTC";
  return std::unexpected(std::move(error));
}

std::string Nvrtc::version() const {
  int major = 0, minor = 0;
  api_->version(&major, &minor);
  return fmt::format("nvrtc {}.{}", major, minor);
}

Result<Compiled> Nvrtc::compile(const CompileJob& job) const {
  Api::Program program = nullptr;
  if (const int code = api_->create(&program, job.source.c_str(), (job.entry + ".cu").c_str(), 0, nullptr, nullptr);
      code != 0) {
    return fail("compile_error",
                fmt::format("NVRTC cannot take the source of {}: {}", job.entry, api_->error_text(code)));
  }
  const auto destroy = [this](Api::Program* p) { api_->destroy(p); };
  const std::unique_ptr<Api::Program, decltype(destroy)> guard(&program, destroy);
  std::vector<std::string> options{"--gpu-architecture=" + job.arch, "-default-device", "-std=c++17",
                                   "--ptxas-options=-v"};
  options.insert(options.end(), job.flags.begin(), job.flags.end());
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());
  const int code = api_->compile(program, static_cast<int>(pointers.size()), pointers.data());
  std::string log;
  if (std::size_t size = 0; api_->log_size(program, &size) == 0 && size > 1) {
    log.resize(size);
    api_->log(program, log.data());
    log.resize(size - 1);
    while (!log.empty() && (log.back() == '\0' || log.back() == '\n' || log.back() == ' ')) log.pop_back();
  }
  Compiled compiled;
  read_ptxas_report(log, job.entry, compiled);
  if (code != 0) {
    return fail("compile_error",
                compiled.log.empty() ? fmt::format("NVRTC: {}", api_->error_text(code)) : compiled.log);
  }
  std::size_t size = 0;
  if (api_->cubin_size(program, &size) != 0 || size == 0)
    return fail("compile_error", "NVRTC gave no machine code for " + job.arch);
  compiled.binary.resize(size);
  api_->cubin(program, compiled.binary.data());
  // What the machine code was made from, and unlike it text.
  if (std::size_t text = 0; api_->ptx_size(program, &text) == 0 && text > 1) {
    std::string ptx(text, '\0');
    api_->ptx(program, ptx.data());
    compiled.instructions = count_ptx(ptx);
  }
  return compiled;
}

}  // namespace planish::worker
