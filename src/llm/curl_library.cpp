#include "llm/curl_library.h"

#include <string>

#include "base/shared_library.h"

namespace planish::llm {
namespace {

struct OpenedCurl {
  CurlLibrary library;
  std::string problem;
};

OpenedCurl open_curl() {
  OpenedCurl out;
  SharedLibrary library({"libcurl.so.4", "libcurl-gnutls.so.4"});
  decltype(&::curl_global_init) global_init = nullptr;
  library.get(global_init, "curl_global_init");
  library.get(out.library.easy_init, "curl_easy_init");
  library.get(out.library.easy_reset, "curl_easy_reset");
  library.get(out.library.easy_cleanup, "curl_easy_cleanup");
  library.get(out.library.easy_setopt, "curl_easy_setopt");
  library.get(out.library.easy_getinfo, "curl_easy_getinfo");
  library.get(out.library.easy_strerror, "curl_easy_strerror");
  library.get(out.library.slist_append, "curl_slist_append");
  library.get(out.library.slist_free_all, "curl_slist_free_all");
  library.get(out.library.multi_init, "curl_multi_init");
  library.get(out.library.multi_cleanup, "curl_multi_cleanup");
  library.get(out.library.multi_add_handle, "curl_multi_add_handle");
  library.get(out.library.multi_remove_handle, "curl_multi_remove_handle");
  library.get(out.library.multi_perform, "curl_multi_perform");
  library.get(out.library.multi_poll, "curl_multi_poll");
  library.get(out.library.multi_info_read, "curl_multi_info_read");
  out.problem = library.problem();
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
