#include <dlfcn.h>

#include "program.h"

namespace planish::rt {

Status load_cpu_kernel(const Kernel& kernel, const std::string& path, LoadedKernel* out) {
  // A name without a slash would be looked up on the library path.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  out->library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (out->library == nullptr) {
    const char* why = dlerror();
    return fail("load_failed", "cannot load kernel `" + kernel.entry + "`: " + (why != nullptr ? why : path.c_str()));
  }
  // OpenMP's threads outlive the kernel: unloading the last kernel must not unmap the code they wait in.
  static_cast<void>(dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE));
  void* symbol = dlsym(out->library, kernel.entry.c_str());
  if (symbol == nullptr) return fail("load_failed", path + " has no entry point `" + kernel.entry + "`");
  out->entry = reinterpret_cast<CpuEntry>(symbol);
  return {};
}

}  // namespace planish::rt
