#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>
#include <type_traits>

namespace planish {

/// A library that is opened when it is wanted, by dlopen, and stays for the life of the process: who never wants it
/// needs not have it. Not thread-safe; make one where a static is made.
class SharedLibrary {
 public:
  /// The first of these names that can be opened.
  explicit SharedLibrary(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      handle_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) break;
      if (problem_.empty()) problem_ = ::dlerror();
    }
    if (handle_ != nullptr) problem_.clear();
  }

  /// Puts the function of this name into a pointer of its type. Does nothing where the library is not open.
  template <typename Function>
  void get(Function& function, const char* name) {
    if (handle_ == nullptr) return;
    function = reinterpret_cast<std::remove_reference_t<Function>>(::dlsym(handle_, name));
    if (function == nullptr) problem_ = std::string("it has no ") + name;
  }

  /// Why the library or one of its functions is not there; empty where all are.
  const std::string& problem() const { return problem_; }

 private:
  void* handle_ = nullptr;
  std::string problem_;
};

}  // namespace planish
