#include "ship/folder.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "ship/parts.h"
#include "ship/sample.h"

using namespace planish;
namespace fs = std::filesystem;

namespace {

struct Fixture : ship::Sample {
  ship::ShipRequest& request = shipped;
  Fixture() { request.folder = dir.path() / "out"; }
  std::string text(const std::string& name) { return read_file(request.folder / name).value_or(""); }
  Json manifest() { return parse_json(text("ship.json"), "bad_text", "ship.json").value_or(Json()); }
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
  CHECK(text("reference.py") == "import torch\nclass Model: pass\n");
  CHECK(text("libplanish_rt.so") == "runtime");
  CHECK(text("kernels/k0.so") == "binary");
  CHECK(text("kernels/k0.cpp").find("k0(void** args)") != std::string::npos);
  CHECK(text("evidence.json") == request.evidence);
  CHECK(text("module.py").find("class ModelNew") != std::string::npos);
  CHECK_FALSE(text("executor.py").empty());
  CHECK_FALSE(text("guards.py").empty());
  const Json document = manifest();
  CHECK(document["mode"] == "program");
  CHECK(document["modules"][""]["reached"]["gain"] == "2.0");
  CHECK(document["twin"][""]["type"] == "GraphModule");
  CHECK(document["scalars"][0]["index"] == 1);
  CHECK(
      document["effects"] ==
      Json::array(
          {{{"kind", "mutate_buffer"}, {"target", "n"}, {"versions", 2}, {"differentiable", false}, {"read", true}}}));
  CHECK(document["binaries"] == Json::array({"kernels/k0.so"}));
  CHECK(document["files"]["reference.py"] == sha256_hex("import torch\nclass Model: pass\n"));
  CHECK_FALSE(document["files"].contains("ship.json"));
  CHECK(document["files"].size() == 8 + ship::python_parts.size());
  CHECK(ship::check_folder(request.folder).has_value());
  CHECK(neighbours() == 0);
}

TEST_CASE_FIXTURE(Fixture, "a solution ships as its file, and nothing that would run it") {
  request.program.clear();
  request.binaries.clear();
  request.solution = "class ModelNew: pass\n";
  REQUIRE(ship::write_folder(request).has_value());
  CHECK(text("solution.py") == request.solution);
  CHECK_FALSE(fs::exists(request.folder / "module.py"));
  CHECK_FALSE(fs::exists(request.folder / "libplanish_rt.so"));
  const Json document = manifest();
  CHECK(document["mode"] == "solution");
  CHECK(document["solution"] == sha256_hex(request.solution));
  CHECK(document["files"].size() == 3);
  CHECK(ship::check_folder(request.folder).has_value());
  request.task = dir.path();  // a live module
  CHECK(ship::write_folder(request).error().kind.name() == "bad_request");
}

TEST_CASE_FIXTURE(Fixture, "a baseline ships without a program") {
  request.baseline = "compile";
  request.program.clear();
  REQUIRE(ship::write_folder(request).has_value());
  CHECK(manifest()["mode"] == "baseline");
  CHECK(manifest()["baseline"] == "compile");
  CHECK_FALSE(fs::exists(request.folder / "program.json"));
  request.baseline = "magic";
  CHECK(ship::write_folder(request).error().kind.name() == "bad_request");
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
  CHECK(ship::write_folder(request).error().kind.name() == "not_shipped");
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
  CHECK(ship::check_folder(request.folder).error().kind.name() == "altered");
}

TEST_CASE_FIXTURE(Fixture, "what is no shipped folder is named") {
  CHECK(ship::check_folder(dir.path() / "none").error().kind.name() == "not_shipped");
  put("other/ship.json", "{}");
  CHECK(ship::check_folder(dir.path() / "other").error().kind.name() == "not_shipped");
}
