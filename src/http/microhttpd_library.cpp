#include "http/microhttpd_library.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>

namespace planish::http {
namespace {

struct OpenedMicrohttpd {
  MicrohttpdLibrary library;
  std::string problem;
};

OpenedMicrohttpd open_microhttpd() {
  OpenedMicrohttpd out;
  void* handle = ::dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    out.problem = ::dlerror();
    return out;
  }
  const auto get = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
    if (function == nullptr) out.problem = std::string("it has no ") + name;
  };
  get(out.library.start_daemon, "MHD_start_daemon");
  get(out.library.quiesce_daemon, "MHD_quiesce_daemon");
  get(out.library.stop_daemon, "MHD_stop_daemon");
  get(out.library.get_daemon_info, "MHD_get_daemon_info");
  get(out.library.lookup_connection_value, "MHD_lookup_connection_value");
  get(out.library.suspend_connection, "MHD_suspend_connection");
  get(out.library.resume_connection, "MHD_resume_connection");
  get(out.library.create_response_from_buffer, "MHD_create_response_from_buffer");
  get(out.library.add_response_header, "MHD_add_response_header");
  get(out.library.queue_response, "MHD_queue_response");
  get(out.library.destroy_response, "MHD_destroy_response");
  return out;
}

}  // namespace

Result<const MicrohttpdLibrary*> MicrohttpdLibrary::open() {
  static const OpenedMicrohttpd opened = open_microhttpd();
  if (!opened.problem.empty()) {
    return fail("no_libmicrohttpd", "HTTP is served by libmicrohttpd, which could not be opened: " + opened.problem,
                "install it (Debian: apt-get install libmicrohttpd12)");
  }
  return &opened.library;
}

}  // namespace planish::http
