#include "base/loopback.h"

#include <doctest/doctest.h>

using namespace planish;

TEST_CASE("this machine is told by its addresses and its one name, and by nothing that begins like them") {
  for (const char* url : {"http://localhost:8000/v1", "http://127.0.0.1/v1", "https://127.9.8.7:1",
                          "http://[::1]:8000/v1", "localhost", "127.0.0.1:80"}) {
    CAPTURE(url);
    CHECK(is_loopback(host_of(url)));
  }
  for (const char* url : {"http://127.example.org/v1", "http://localhost.example.org:8000", "http://10.0.0.1",
                          "http://[::2]/", "http://example.org/127.0.0.1", "http://example.org/?u=://localhost", ""}) {
    CAPTURE(url);
    CHECK_FALSE(is_loopback(host_of(url)));
  }
}
