#pragma once

#include <microhttpd.h>

#include "base/result.h"

namespace planish::http {

/// The functions of libmicrohttpd that are used, by dlopen: only who serves needs the library.
struct MicrohttpdLibrary {
  decltype(&::MHD_start_daemon) start_daemon = nullptr;
  decltype(&::MHD_quiesce_daemon) quiesce_daemon = nullptr;
  decltype(&::MHD_stop_daemon) stop_daemon = nullptr;
  decltype(&::MHD_get_daemon_info) get_daemon_info = nullptr;
  decltype(&::MHD_get_connection_info) get_connection_info = nullptr;
  decltype(&::MHD_lookup_connection_value) lookup_connection_value = nullptr;
  decltype(&::MHD_suspend_connection) suspend_connection = nullptr;
  decltype(&::MHD_resume_connection) resume_connection = nullptr;
  decltype(&::MHD_create_response_from_buffer) create_response_from_buffer = nullptr;
  decltype(&::MHD_add_response_header) add_response_header = nullptr;
  decltype(&::MHD_queue_response) queue_response = nullptr;
  decltype(&::MHD_destroy_response) destroy_response = nullptr;

  /// Opened once for the process. Kind `no_libmicrohttpd`.
  static Result<const MicrohttpdLibrary*> open();
};

}  // namespace planish::http
