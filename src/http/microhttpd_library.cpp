#include "http/microhttpd_library.h"

#include <string>

#include "base/shared_library.h"

namespace planish::http {
namespace {

struct OpenedMicrohttpd {
  MicrohttpdLibrary library;
  std::string problem;
};

OpenedMicrohttpd open_microhttpd() {
  OpenedMicrohttpd out;
  SharedLibrary library({"libmicrohttpd.so.12"});
  library.get(out.library.start_daemon, "MHD_start_daemon");
  library.get(out.library.quiesce_daemon, "MHD_quiesce_daemon");
  library.get(out.library.stop_daemon, "MHD_stop_daemon");
  library.get(out.library.get_daemon_info, "MHD_get_daemon_info");
  library.get(out.library.get_connection_info, "MHD_get_connection_info");
  library.get(out.library.lookup_connection_value, "MHD_lookup_connection_value");
  library.get(out.library.suspend_connection, "MHD_suspend_connection");
  library.get(out.library.resume_connection, "MHD_resume_connection");
  library.get(out.library.create_response_from_buffer, "MHD_create_response_from_buffer");
  library.get(out.library.add_response_header, "MHD_add_response_header");
  library.get(out.library.queue_response, "MHD_queue_response");
  library.get(out.library.destroy_response, "MHD_destroy_response");
  out.problem = library.problem();
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
