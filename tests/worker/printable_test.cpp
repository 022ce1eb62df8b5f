#include "worker/printable.h"

#include <doctest/doctest.h>

using planish::worker::printable;

TEST_CASE("text stays as it is, in every alphabet") {
  for (const char* text : {"", "a line\n\tand another", "naïve 4 × 4 → 日本 🙂"}) CHECK(printable(text) == text);
}

TEST_CASE("what would move a terminal's cursor or hide text is spelled out") {
  CHECK(printable("\x1b[2J\rverified") == "\\x1b[2J\\x0dverified");
  CHECK(printable("a\x08\x08\x7f") == "a\\x08\\x08\\x7f");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\xc2\\x9b31m");
  CHECK(printable("abc\xe2\x80\xae"
                  "fed") ==
        "abc\\xe2\\x80\\xae"
        "fed");
  CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
}

TEST_CASE("bytes that are no text are spelled out") {
  CHECK(printable("\xff\xc0\x80") == "\\xff\\xc0\\x80");
  CHECK(printable("cut \xe2\x82") == "cut \\xe2\\x82");
}
