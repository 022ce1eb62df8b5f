#include "codegen/device/device_files.h"

#include <doctest/doctest.h>

#include <array>
#include <string>

namespace planish::codegen {
namespace {

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST_CASE("device files are embedded, and their texts stand alone") {
  CHECK(device_files().size() >= 2);
  for (const DeviceFile& file : device_files()) {
    CAPTURE(file.name);
    const std::array names{file.name};
    const std::string text = device_text(names);
    CHECK(text.find("#include") == text.npos);
    CHECK(text.find("#pragma once") == text.npos);
    // Those for processors, too, come behind vector_prelude(), which has the types.
    if (file.name.ends_with(".cuh")) CHECK(text.find("typedef unsigned int u32;") != text.npos);
  }
}

TEST_CASE("a file that two others include is there once") {
  const std::array<std::string_view, 3> names{"sm90/ptx.cuh", "types.cuh", "sm90/ptx.cuh"};
  const std::string text = device_text(names);
  CHECK(count(text, "typedef unsigned int u32;") == 1);
  CHECK(count(text, "void bulk_load(") == 2);
  CHECK(text.find("u32;") < text.find("bulk_load"));
}

TEST_CASE("another file of the same name takes a file's place") {
  const std::array<DeviceFile, 1> instead{{{"sm90/ptx.cuh", "#include \"types.cuh\"\nint on_a_cpu;\n"}}};
  const std::array<std::string_view, 1> names{"sm90/ptx.cuh"};
  const std::string text = device_text(names, instead);
  CHECK(text.find("asm") == text.npos);
  CHECK(count(text, "int on_a_cpu;") == 1);
  CHECK(count(text, "typedef unsigned int u32;") == 1);
}

TEST_CASE("an unknown file is a defect that is named") {
  const std::array<std::string_view, 1> names{"sm90/none.cuh"};
  CHECK_THROWS_WITH(device_text(names), "there is no device file sm90/none.cuh");
}

}  // namespace
}  // namespace planish::codegen
