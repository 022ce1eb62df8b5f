#include "llm/curl_library.h"

#include <dlfcn.h>

namespace planish::llm {
namespace {

struct OpenedCurl {
  CurlLibrary library;
  std::string problem;
};

OpenedCurl open_curl() {
  OpenedCurl out;
  void* handle = nullptr;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    if (out.problem.empty()) out.problem = ::dlerror();
  }
  if (handle == nullptr) return out;
  out.problem.clear();
  const auto get = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
    if (function == nullptr) out.problem = std::string("it has no ") + name;
  };
  decltype(&::curl_global_init) global_init = nullptr;
  get(global_init, "curl_global_init");
  get(out.library.easy_init, "curl_easy_init");
  get(out.library.easy_reset, "curl_easy_reset");
  get(out.library.easy_cleanup, "curl_easy_cleanup");
  get(out.library.easy_setopt, "curl_easy_setopt");
  get(out.library.easy_getinfo, "curl_easy_getinfo");
  get(out.library.easy_strerror, "curl_easy_strerror");
  get(out.library.slist_append, "curl_slist_append");
  get(out.library.slist_free_all, "curl_slist_free_all");
  get(out.library.multi_init, "curl_multi_init");
  get(out.library.multi_cleanup, "curl_multi_cleanup");
  get(out.library.multi_add_handle, "curl_multi_add_handle");
  get(out.library.multi_remove_handle, "curl_multi_remove_handle");
  get(out.library.multi_perform, "curl_multi_perform");
  get(out.library.multi_poll, "curl_multi_poll");
  get(out.library.multi_info_read, "curl_multi_info_read");
  if (out.problem.empty() && global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) out.problem = "it could not be initialised";
  return out;
}

}  // namespace

Result<const CurlLibrary*> CurlLibrary::open() {
  static const OpenedCurl opened = open_curl();
  if (!opened.problem.empty())
    return fail("no_libcurl", "models are reached through libcurl, which could not be opened: " + opened.problem,
                "install it (Debian: apt-get install libcurl4)");
  return &opened.library;
}

}  // namespace planish::llm
