#include "ship/export.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "ship/embed.h"
#include "ship/folder.h"
#include "ship/neighbours.h"
#include "ship/sample.h"

using namespace planish;
namespace fs = std::filesystem;

namespace {

/// A shipped folder, and a request to export it.
struct Fixture : ship::Sample {
  ship::ExportRequest request{shipped.folder, dir.path() / "out", shipped.package};

  std::string text(const fs::path& path) { return read_file(path).value_or(""); }
  void ship() { REQUIRE(ship::write_folder(shipped).has_value()); }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "the folder form is the same folder elsewhere") {
  ship();
  REQUIRE(ship::export_folder(request).has_value());
  CHECK(ship::check_folder(request.out).has_value());
  CHECK(text(request.out / "kernels" / "k0.so") == "binary");
  CHECK(ship::shipped_facts(request.out).value().task == "task");
  CHECK(ship::export_folder(request).has_value());  // replaces its own
  put("mine/notes.txt", "keep");
  request.out = dir.path() / "mine";
  CHECK(ship::export_folder(request).error().kind.name() == "not_shipped");
}

TEST_CASE_FIXTURE(Fixture, "a single file holds everything and is replaced only by its like") {
  ship();
  REQUIRE(ship::export_file(request).has_value());
  const std::string made = text(request.out);
  for (const char* part : {"class ModelNew(Model)", "extern \"C\" void k0", "_BINARIES[\"kernels/k0.so\"]",
                           "libplanish_rt.so", "class Model: pass"})
    CHECK(made.find(part) != std::string::npos);
  CHECK(made.find("_BINARIES[\"blobs/" + blob) != std::string::npos);
  CHECK(made.find(dir.path().string()) == std::string::npos);
  CHECK(ship::export_file(request).has_value());
  CHECK(text(request.out) == made);
  put("mine.py", "x = 1\n");
  request.out = dir.path() / "mine.py";
  CHECK(ship::export_file(request).error().kind.name() == "in_the_way");
  CHECK(text(request.out) == "x = 1\n");
}

TEST_CASE_FIXTURE(Fixture, "the source form has launch code and a way to build") {
  ship();
  REQUIRE(ship::export_source(request).has_value());
  const std::string model = text(request.out / "model.py");
  CHECK(model.find("k0(b0, b1, b2, c_float(float.fromhex(\"0x1p+1\")))") != std::string::npos);
  CHECK(model.find("b2 = torch.empty_strided((4,), (1,), dtype=torch.float32, device=device)") != std::string::npos);
  CHECK(text(request.out / "Makefile").find("$(CXX) $(CXXFLAGS) -O2 -o $@ $<") != std::string::npos);
  CHECK_FALSE(fs::exists(request.out / "kernels" / "k0.so"));
  CHECK(ship::export_source(request).has_value());
}

TEST_CASE_FIXTURE(Fixture, "what cannot be exported is refused with its reason") {
  SUBCASE("an altered folder") {
    ship();
    put("shipped/kernels/k0.so", "other");
    for (auto form : {ship::export_folder, ship::export_file, ship::export_source})
      CHECK(form(request).error().kind.name() == "altered");
  }
  SUBCASE("a live module") {
    fs::create_directory(dir.path() / "live");
    shipped.task = dir.path() / "live";
    ship();
    for (auto form : {ship::export_file, ship::export_source})
      CHECK(form(request).error().kind.name() == "live_module");
    CHECK(ship::export_folder(request).has_value());
  }
  SUBCASE("a baseline as source") {
    shipped.baseline = "compile";
    ship();
    CHECK(ship::export_source(request).error().kind.name() == "unsupported");
    CHECK(ship::export_file(request).has_value());
  }
  SUBCASE("neighbours in one file") {
    put("helper.py", "y = 1\n");
    put("task.py", "import helper\nclass Model: pass\n");
    ship();
    const auto refused = ship::export_file(request);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().kind.name() == "unsupported");
    CHECK(refused.error().message.find("helper.py") != std::string::npos);
    CHECK(fs::exists(request.folder / "neighbours" / "helper.py"));
  }
  SUBCASE("a task that is not UTF-8") {
    put("task.py", "# \xff\n");
    ship();
    CHECK(ship::export_file(request).error().kind.name() == "bad_text");
  }
}

TEST_CASE_FIXTURE(Fixture, "neighbours are what the task imports from its own folder, and what those import") {
  put("task.py",
      "import torch, os as system\nfrom  package.part import thing # import no\ndef f():\n    import lazy as l, math\n"
      "text = 'x'; import late\n# import comment\nfrom . import relative\n");
  for (const char* name :
       {"package/__init__", "package/part", "lazy", "deeper", "late", "comment", "relative", "no", "unused"})
    put(std::string(name) + ".py", std::string(name) == "lazy" ? "import deeper\n" : "\n");
  put("package/data.json", "{}");
  put("package/__pycache__/part.pyc", "x");
  const auto found = ship::neighbours(dir.path() / "task.py");
  REQUIRE(found.has_value());
  std::string names;
  for (const auto& [name, path] : *found) names += name + " ";
  CHECK(names == "deeper.py late.py lazy.py package/__init__.py package/data.json package/part.py ");
}

TEST_CASE("texts become Python literals") {
  CHECK(ship::python_text("a\\n\n").value() == "r\"\"\"a\\n\n\"\"\"");
  CHECK(ship::python_text("a \"\"\" b\n").value() == "r'''a \"\"\" b\n'''");
  CHECK(ship::python_text("say \"").value() == "r'''say \"'''");
  CHECK(ship::python_text("\"\"\" '''\\").value() == "\"\"\"\\\"\\\"\\\" '''\\\\\"\"\"");
  CHECK(ship::python_text("a\r\n").value() == "\"\"\"a\\x0d\n\"\"\"");
  CHECK(ship::python_text("\xC3\xA9").has_value());
  for (const char* bad : {"\xC3", "\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82"})
    CHECK(ship::python_text(bad).error().kind.name() == "bad_text");
  CHECK(ship::python_string("a\"\\\n") == "\"a\\\"\\\\\\x0a\"");
}
