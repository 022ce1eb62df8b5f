#include "base/error_kind.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "base/json.h"
#include "base/result.h"

using namespace planish;
namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a kind of error is its name, and compares as a number") {
  constexpr ErrorKind hang = "hang";
  CHECK(hang.name() == "hang");
  CHECK(ErrorKind::named("hang") == hang);
  CHECK(hang != ErrorKind("exit"));
  CHECK_FALSE(ErrorKind::named("hangs").has_value());
  CHECK_FALSE(ErrorKind::named("").has_value());
  CHECK(Error{}.kind.name() == "unknown");
  const std::set<std::string_view> names(error_kind_names.begin(), error_kind_names.end());
  CHECK(names.size() == error_kind_names.size());
}

TEST_CASE("an error is read from a document") {
  const Error read = error_in(Json{{"kind", "no_model"},
                                   {"message", "x.py: defines no class Model"},
                                   {"hint", "name it Model"},
                                   {"about", "x.py"},
                                   {"causes", {"a", 7, "b"}}});
  CHECK(read.kind.name() == "no_model");
  CHECK(read.message == "x.py: defines no class Model");
  CHECK(read.hint == "name it Model");
  CHECK(read.about == "x.py");
  CHECK(read.causes == std::vector<std::string>{"a", "b"});

  const Error foreign = error_in(Json{{"kind", "SegfaultError"}, {"message", "it broke"}});
  CHECK(foreign.kind.name() == "unknown");
  CHECK(foreign.message == "SegfaultError: it broke");
  for (const Json& none : {Json(), Json::array({1}), Json("text"), Json{{"kind", 3}, {"message", {1}}}}) {
    CHECK(error_in(none).kind.name() == "unknown");
    CHECK(error_in(none).message.empty());
  }
}

TEST_CASE("every kind that Python says is one, and every kind is documented") {
  const fs::path root = PLANISH_SOURCE_DIR;
  const std::regex said(R"re((?:PlanishError|task_error|ExecutorError)\(\s*"([a-z_]+)")re");
  std::set<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(root / "python")) {
    if (entry.path().extension() != ".py") continue;
    const std::string text = text_of(entry.path());
    for (auto it = std::sregex_iterator(text.begin(), text.end(), said); it != std::sregex_iterator(); ++it) {
      const std::string name = (*it)[1];
      found.insert(name);
      CHECK_MESSAGE(ErrorKind::named(name).has_value(), entry.path().string() << " says `" << name << "`");
    }
  }
  CHECK(found.size() > 40);
  const std::string document = text_of(root / "docs/formats/result.md");
  for (const std::string_view name : error_kind_names) {
    CHECK_MESSAGE(document.find("`" + std::string(name) + "`") != std::string::npos,
                  "docs/formats/result.md lacks `" << name << "`");
  }
}
