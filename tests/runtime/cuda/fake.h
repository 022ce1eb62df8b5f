#pragma once

#include <dlfcn.h>

#include <cstdlib>

#include "support.h"

/// What tests against the fake driver share.
namespace runtime_test {

/// A symbol of the fake's: a count (`int`), or a function that sets something.
template <typename T>
T* fake_symbol(const char* name) {
  const std::string path = std::string(PLANISH_BUILD_DIR) + "/lib/fake/libcuda.so.1";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  REQUIRE(library != nullptr);
  void* found = dlsym(library, name);
  REQUIRE(found != nullptr);
  return reinterpret_cast<T*>(found);
}

/// An environment variable for as long as this lives.
struct Set {
  const char* name;
  Set(const char* variable, const char* value) : name(variable) { setenv(variable, value, 1); }
  ~Set() { unsetenv(name); }
};

/// A program of the fake's kernel `affine` alone.
inline Json affine_program(Json buffers, Json steps) {
  Json out = program(std::move(buffers), std::move(steps));
  out["target"] = "cuda";
  out["kernels"][0] = {{"language", "cuda"}, {"entry", "affine"}, {"flags", Json::array()}, {"source", ""}};
  return out;
}

/// y = 2x + 1 over 250 numbers.
inline Json affine_step(int from, int to) {
  return launch(0, {{{"buffer", from}}, {{"buffer", to}}, {{"i64", 250}}});
}

/// A program of one kernel on the fake device.
struct OnFake {
  Scratch scratch;
  prt_program* program = nullptr;
  prt_error error{};

  explicit OnFake(const Json& document) {
    const std::string path = scratch.path + "/k.cubin", text = document.dump();
    std::ofstream(path) << "\177ELF fake";
    const char* paths[] = {path.c_str()};
    prt_program_load(0, text.data(), text.size(), paths, 1, &program, &error);
    REQUIRE_MESSAGE(program != nullptr, error.message);
  }
  ~OnFake() { prt_program_free(program); }
};

}  // namespace runtime_test
