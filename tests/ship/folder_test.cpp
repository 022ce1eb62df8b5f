#include "ship/folder.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"

using namespace planish;
namespace fs = std::filesystem;

namespace {

constexpr const char* program_text = R"({"schema":"planish.program/1","target":"cpu","arch":"x86-64","buffers":[
 {"role":"input","source":{"kind":"user","index":0},"dtype":"f32","shape":[4],"strides":[1]},
 {"role":"const","source":{"kind":"const","blob":"BLOB"},"dtype":"f32","shape":[1],"strides":[1]},
 {"role":"output","dtype":"f32","shape":[4],"strides":[1]}],
 "kernels":[{"language":"cpp","entry":"k0","flags":[],"source":"extern \"C\" void k0(void** args) { (void)args; }"}],
 "steps":[{"kind":"launch","kernel":0,"grid":[1,1,1],"block":[1,1,1],"cluster":[1,1,1],"shared":0,"args":[{"buffer":0},{"buffer":1},{"buffer":2}]}],
 "outputs":[{"buffer":2,"kind":"user"}]})";

struct Fixture {
  TempDir dir = TempDir::create().value();
  ship::ShipRequest request;
  Fixture() {
    const fs::path root = dir.path();
    const std::string bytes(4, '\0');
    const std::string blob = sha256_hex(bytes);
    std::string program = program_text;
    program.replace(program.find("BLOB"), 4, blob);
    put("blobs/" + blob, bytes);
    put("task.py", "class Model: pass\n");
    put("rt.so", "runtime");
    put("k.so", "binary");
    request = {.folder = root / "out",
               .baseline = "",
               .program = program,
               .binaries = {root / "k.so"},
               .blobs = root / "blobs",
               .task = root / "task.py",
               .graph = R"({"input_tree":"in","output_tree":"out","scalars":[{"index":1,"arg":{"int":3}}]})",
               .package = fs::path(PLANISH_SOURCE_DIR) / "python" / "planish",
               .runtime = root / "rt.so",
               .evidence = R"({"seeds":[1]})",
               .modules = R"({"":{"type":"Block","training":false,"attributes":{"gain":"2.0"}}})",
               .planish_version = "0.1.0",
               .torch_version = "2.13.0"};
  }
  void put(const std::string& name, const std::string& bytes) {
    REQUIRE(write_file(dir.path() / name, bytes).has_value());
  }
  std::string text(const std::string& name) { return read_file(request.folder / name).value_or(""); }
  Json manifest() { return parse_json(text("ship.json"), "bad", "ship.json").value_or(Json()); }
  std::size_t neighbours() {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(dir.path()))
      count += entry.path().filename().string().starts_with(".tmp-") ? 1U : 0U;
    return count;
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a program is shipped with everything it needs") {
  REQUIRE(ship::write_folder(request).has_value());
  CHECK(text("reference.py") == "class Model: pass\n");
  CHECK(text("libplanish_rt.so") == "runtime");
  CHECK(text("kernels/k0.so") == "binary");
  CHECK(text("kernels/k0.cpp").find("k0(void** args)") != std::string::npos);
  CHECK(text("evidence.json") == request.evidence);
  CHECK(text("module.py").find("class ModelNew") != std::string::npos);
  CHECK_FALSE(text("executor.py").empty());
  CHECK_FALSE(text("guards.py").empty());
  const Json document = manifest();
  CHECK(document["mode"] == "program");
  CHECK(document["modules"][""]["attributes"]["gain"] == "2.0");
  CHECK(document["scalars"][0]["index"] == 1);
  CHECK(document["binaries"] == Json::array({"kernels/k0.so"}));
  CHECK(document["files"]["reference.py"] == sha256_hex("class Model: pass\n"));
  CHECK_FALSE(document["files"].contains("ship.json"));
  CHECK(document["files"].size() == 10);
  CHECK(ship::check_folder(request.folder).has_value());
  CHECK(neighbours() == 0);
}

TEST_CASE_FIXTURE(Fixture, "a baseline ships without a program") {
  request.baseline = "compile";
  request.program.clear();
  REQUIRE(ship::write_folder(request).has_value());
  CHECK(manifest()["mode"] == "baseline");
  CHECK(manifest()["baseline"] == "compile");
  CHECK_FALSE(fs::exists(request.folder / "program.json"));
  request.baseline = "magic";
  CHECK(ship::write_folder(request).error().kind == "bad_request");
}

TEST_CASE_FIXTURE(Fixture, "a live module ships without a reference") {
  request.task = dir.path();
  REQUIRE(ship::write_folder(request).has_value());
  CHECK_FALSE(fs::exists(request.folder / "reference.py"));
  CHECK_FALSE(fs::exists(request.folder / "module.py"));
  CHECK(fs::exists(request.folder / "program.json"));
}

TEST_CASE_FIXTURE(Fixture, "a shipped folder is replaced as a whole, anything else is left alone") {
  REQUIRE(ship::write_folder(request).has_value());
  put("out/stale.txt", "old");
  request.evidence = R"({"seeds":[2]})";
  REQUIRE(ship::write_folder(request).has_value());
  CHECK(text("evidence.json") == request.evidence);
  CHECK_FALSE(fs::exists(request.folder / "stale.txt"));
  CHECK(neighbours() == 0);
  put("mine/notes.txt", "keep");
  request.folder = dir.path() / "mine";
  CHECK(ship::write_folder(request).error().kind == "not_shipped");
  CHECK(text("notes.txt") == "keep");
}

TEST_CASE_FIXTURE(Fixture, "a failure leaves nothing behind") {
  SUBCASE("a missing binary") {
    request.binaries = {dir.path() / "none.so"};
  }
  SUBCASE("too few binaries") {
    request.binaries.clear();
  }
  SUBCASE("a missing constant") {
    request.blobs = dir.path() / "none";
  }
  SUBCASE("a bad program") {
    request.program = "{";
  }
  SUBCASE("a bad graph") {
    request.graph = R"({"input_tree":"in"})";
  }
  SUBCASE("a missing task") {
    request.task = dir.path() / "none.py";
  }
  CHECK_FALSE(ship::write_folder(request).has_value());
  CHECK_FALSE(fs::exists(request.folder));
  CHECK(neighbours() == 0);
}

TEST_CASE_FIXTURE(Fixture, "an altered folder is noticed") {
  REQUIRE(ship::write_folder(request).has_value());
  SUBCASE("changed") {
    put("out/kernels/k0.so", "other");
  }
  SUBCASE("added") {
    put("out/extra.py", "x");
  }
  SUBCASE("missing") {
    fs::remove(request.folder / "evidence.json");
  }
  CHECK(ship::check_folder(request.folder).error().kind == "altered");
}

TEST_CASE_FIXTURE(Fixture, "what is no shipped folder is named") {
  CHECK(ship::check_folder(dir.path() / "none").error().kind == "not_shipped");
  put("other/ship.json", "{}");
  CHECK(ship::check_folder(dir.path() / "other").error().kind == "not_shipped");
}
