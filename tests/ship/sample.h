#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/hash.h"
#include "ship/folder.h"

namespace planish::ship {

/// A program of one kernel and one constant with all that shipping it needs, in a folder of a test's own.
struct Sample {
  static constexpr const char* program_text =
      R"({"schema":"planish.program/1","target":"cpu","arch":"x86-64","buffers":[
 {"role":"input","source":{"kind":"user","index":0},"dtype":"f32","shape":[4],"strides":[1]},
 {"role":"const","source":{"kind":"const","blob":"BLOB"},"dtype":"f32","shape":[1],"strides":[1]},
 {"role":"output","dtype":"f32","shape":[4],"strides":[1]}],
 "kernels":[{"language":"cpp","entry":"k0","flags":["-O2"],"source":"extern \"C\" void k0(void** args) { (void)args; }"}],
 "steps":[{"kind":"launch","kernel":0,"grid":[1,1,1],"block":[1,1,1],"cluster":[1,1,1],"shared":0,"args":[{"buffer":0},{"buffer":1},{"buffer":2},{"f32":"0x1p+1"}]}],
 "outputs":[{"buffer":2,"kind":"user"}]})";

  TempDir dir = TempDir::create().value();
  std::string blob = sha256_hex(std::string(4, '\0'));
  ShipRequest shipped;

  Sample() {
    std::string program = program_text;
    program.replace(program.find("BLOB"), 4, blob);
    put("blobs/" + blob, std::string(4, '\0'));
    put("task.py", "import torch\nclass Model: pass\n");
    put("rt.so", "runtime");
    put("k.so", "binary");
    shipped = {.folder = dir.path() / "shipped",
               .baseline = "",
               .program = program,
               .binaries = {dir.path() / "k.so"},
               .blobs = dir.path() / "blobs",
               .task = dir.path() / "task.py",
               .graph = R"({"input_tree":"in","output_tree":"out","scalars":[{"index":1,"arg":{"int":3}}],
 "outputs":[{"kind":"user","value":0},{"kind":"mutate_buffer","value":1,"target":"n","versions":2,"differentiable":false,"read":true}]})",
               .package = std::filesystem::path(PLANISH_SOURCE_DIR) / "python" / "planish",
               .runtime = dir.path() / "rt.so",
               .evidence = R"({"seeds":[1]})",
               .modules = R"({"":{"type":"Block","training":false,"reached":{"gain":"2.0"}}})",
               .twin = R"({"":{"type":"GraphModule","training":false,"reached":{}}})",
               .planish_version = "0.1.0",
               .torch_version = "2.13.0"};
  }
  void put(const std::string& name, const std::string& bytes) const {
    REQUIRE(write_file(dir.path() / name, bytes).has_value());
  }
};

}  // namespace planish::ship
