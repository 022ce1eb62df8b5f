#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "codegen/common_headers.h"

namespace planish::codegen {

/// One C++ text, compiled with `flags` into a library and loaded. Fails the test case that it is made in where that
/// does not work; library and folder go with the object.
class Compiled {
 public:
  Compiled(const std::string& source, std::string_view flags) {
    char name[] = "/tmp/planish-cc-XXXXXX";
    folder_ = mkdtemp(name);
    std::ofstream(folder_ / "k.cpp") << source;
    std::string options(flags);
    if (source.contains("#include <")) options += CommonHeaders::option(options);
    const std::string command = fmt::format("g++ {1} -shared -fPIC {0}/k.cpp -o {0}/k.so", folder_.string(), options);
    REQUIRE(std::system(command.c_str()) == 0);
    handle_ = dlopen((folder_ / "k.so").c_str(), RTLD_NOW);
    REQUIRE_MESSAGE(handle_ != nullptr, dlerror());
  }
  ~Compiled() {
    if (handle_ != nullptr) dlclose(handle_);
    std::filesystem::remove_all(folder_);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  /// The `extern "C"` function of that name.
  template <typename Function>
  Function* function(const std::string& name) const {
    auto* found = reinterpret_cast<Function*>(dlsym(handle_, name.c_str()));
    REQUIRE_MESSAGE((found != nullptr), name);
    return found;
  }

 private:
  std::filesystem::path folder_;
  void* handle_ = nullptr;
};

}  // namespace planish::codegen
