#include "patterns/library.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "codegen/templates/template.h"
#include "database/sqlite.h"
#include "patterns/folder.h"
#include "patterns/own.h"
#include "patterns/words.h"

using namespace planish;
using namespace planish::patterns;

namespace {

Pattern made(std::string name, const std::string& about, std::string family = {}) {
  Pattern out;
  out.kind = "cutlass";
  out.form = "configuration";
  out.name = std::move(name);
  out.path = "generator.py";
  out.facts = recognise(words(about));
  out.summary = about;
  out.family = std::move(family);
  return out;
}

std::vector<std::string> names(const Result<std::vector<Hit>>& hits) {
  std::vector<std::string> out;
  if (!hits) return {std::string(hits.error().kind.name())};
  for (const Hit& hit : *hits) out.push_back(hit.pattern.name);
  return out;
}

const std::vector<Pattern>& some() {
  static const std::vector<Pattern> all{made("h_small", "gemm f16 sm90 64x64x64 pingpong", "h"),
                                        made("h_large", "gemm f16 sm90 128x256x64 cooperative", "h"),
                                        made("b_large", "gemm bf16 sm90 128x256x64", "b"),
                                        made("a_large", "gemm f16 sm80 128x256x64", "a"),
                                        made("grouped", "grouped gemm f16 sm90", "g"),
                                        made("conv", "conv fprop f16 sm90 nhwc", "c")};
  return all;
}

}  // namespace

TEST_CASE("facts and words rank, families give one, filters hold") {
  const Folder folder;
  auto library = Library::open(folder.path / "deep" / "p.db");
  REQUIRE(library);
  const auto kept = library->replace({"mine", "cutlass", "/x", 0, 0}, some());
  REQUIRE(kept);
  CHECK(kept->patterns == 6);
  const auto hits = names(library->search("half precision matmul on H100 with 128x256x64 tiles", {}, 3));
  REQUIRE(hits.size() == 3);
  CHECK(hits[0] == "h_large");
  CHECK(std::ranges::find(hits, "h_small") == hits.end());
  CHECK(names(library->search("f16 gemm hopper pingpong", {}, 1)) == std::vector<std::string>{"h_small"});
  CHECK(names(library->search("grouped gemm", {}, 1)) == std::vector<std::string>{"grouped"});
  // The plain one is what a plain query means.
  CHECK(names(library->search("gemm f16 sm90", {}, 1)) != std::vector<std::string>{"grouped"});
  Filter ampere;
  ampere.facts = {{"arch", {"80"}}};
  CHECK(names(library->search("gemm", ampere, 9)) == std::vector<std::string>{"a_large"});
  ampere.facts["dtype"] = {"bf16"};
  CHECK(names(library->search("gemm", ampere, 9)).empty());
  ampere.facts["dtype"] = {"never heard of"};
  CHECK(names(library->search("gemm", ampere, 9)).empty());
  Filter bad;
  bad.facts = {{"tunable", {"x"}}};
  CHECK(names(library->search("gemm", bad, 9)) == std::vector<std::string>{"bad_filter"});
  CHECK(names(library->search("", {"cutlass", "", "", {}}, 99)).size() == 6);
  CHECK(names(library->search("gemm", {}, 0)).empty());
  CHECK(names(library->search("quux zyzzy", {}, 5)).empty());
  // Whatever a query holds, it is words.
  for (const char* text :
       {"\"", "a\" OR \"b", "NEAR(", "* ^ : -", "gemm\" AND NOT gemm", "\x01\xff", "';DROP TABLE patterns"})
    CHECK(library->search(text, {}, 5).has_value());
  CHECK(library->search(std::string(1 << 20, 'x') + " gemm", {}, 5).has_value());
}

TEST_CASE("importing again replaces, equal patterns count once, corpora go as they came") {
  const Folder folder;
  auto library = Library::open(folder.path / "p.db");
  REQUIRE(library);
  auto twice = some();
  twice.insert(twice.end(), some().begin(), some().end());
  CHECK(library->replace({"mine", "cutlass", "/x", 0, 0}, twice)->patterns == 6);
  CHECK(library->replace({"mine", "cutlass", "/x", 0, 0}, {some()[0], some()[5]})->patterns == 2);
  Pattern kernel = made("rms", "rms norm forward");
  kernel.kind = "triton";
  kernel.form = "kernel";
  kernel.source = "@triton.jit\ndef rms(): pass\x1f\x1e";
  CHECK(library->replace({"theirs", "triton", "/y", 0, 0}, {kernel})->patterns == 1);
  // The same import under another name: both stay, a search gives one.
  CHECK(library->replace({"copy", "triton", "/z", 0, 0}, {kernel})->patterns == 1);
  const auto hits = library->search("rms norm", {"triton", "", "", {}}, 9);
  REQUIRE(hits);
  REQUIRE(hits->size() == 1);
  const auto found = library->find(hits->front().pattern.id.substr(0, 8));
  REQUIRE(found);
  CHECK(found->source == kernel.source);
  CHECK(found->facts == kernel.facts);
  CHECK(found->foreign);
  CHECK(library->corpora()->size() == 4);
  CHECK(library->forget("copy")->patterns == 1);
  CHECK(library->forget("mine")->patterns == 2);
  CHECK(names(library->search("gemm", {"cutlass", "", "", {}}, 9)).empty());
  CHECK(names(library->search("rms norm", {"triton", "", "", {}}, 9)).size() == 1);
  CHECK(library->forget("mine").error().kind.name() == "no_such_corpus");
  CHECK(library->forget("planish").error().kind.name() == "bad_filter");
  CHECK(library->find("zz").error().kind.name() == "no_such_pattern");
  CHECK(library->find("").error().kind.name() == "no_such_pattern");
  CHECK(library->find("ffffffffffff").error().kind.name() == "no_such_pattern");
}

TEST_CASE("an id's beginning must be one pattern's") {
  const Folder folder;
  auto library = Library::open(folder.path / "p.db");
  REQUIRE(library);
  std::vector<Pattern> many;
  for (int i = 0; i < 40; ++i) many.push_back(made(fmt::format("k{}", i), fmt::format("gemm f16 sm90 n{}", i)));
  REQUIRE(library->replace({"mine", "cutlass", "", 0, 0}, many));
  int ambiguous = 0;
  for (const char c : std::string("0123456789abcdef")) {
    const auto found = library->find(std::string(1, c));
    if (!found && found.error().kind.name() == "ambiguous_pattern") ++ambiguous;
  }
  CHECK(ambiguous > 0);
}

TEST_CASE("every template is a pattern, with what was published of it") {
  const auto own = own_patterns();
  REQUIRE(own.size() == codegen::all_templates().size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    CHECK(own[i].name == codegen::all_templates()[i]->name());
    CHECK(!own[i].foreign);
    CHECK(!own[i].summary.empty());
    CHECK(own[i].facts.contains("operation"));
    CHECK(std::filesystem::is_directory(std::filesystem::path(PLANISH_SOURCE_DIR) / own[i].path));
    CHECK(own[i].source.find("**Achieved.**") != std::string::npos);
  }
  // Every anchor that results are filed under has a template that shows them.
  CHECK(templates_of_anchor("row") == std::vector<std::string>{"column", "row"});
  CHECK(templates_of_anchor("no anchor").empty());
}

TEST_CASE("what our templates achieved here moves them") {
  const Folder folder;
  auto library = Library::open(folder.path / "p.db");
  REQUIRE(library);
  const std::string query = "reduction";
  const Filter ours{"planish", "", "", {}};
  const auto before = library->search(query, ours, 8);
  REQUIRE(before);
  REQUIRE(before->size() >= 3);
  const std::string second = (*before)[1].pattern.name, first = before->front().pattern.name;
  library->set_measured({{second, "a GPU", 50, 900, 1000, 0.97}, {first, "a GPU", 50, 10, 1000, 0.10}});
  const auto after = library->search(query, ours, 8);
  REQUIRE(after);
  const auto rank = [](const auto& hits, const std::string& name) {
    return std::ranges::find(*hits, name, [](const Hit& hit) { return hit.pattern.name; }) - hits->begin();
  };
  CHECK(rank(after, second) < rank(before, second));
  CHECK(rank(after, first) > rank(before, first));
  CHECK(after->front().by_measurements > 0);
  // A few lucky kernels say less than many.
  library->set_measured({{second, "a GPU", 1, 1, 1, 0.97}});
  const auto few = library->search(query, ours, 8);
  CHECK((*few)[static_cast<std::size_t>(rank(few, second))].by_measurements <
        (*after)[static_cast<std::size_t>(rank(after, second))].by_measurements);
}

TEST_CASE("many threads search while a corpus is replaced") {
  const Folder folder;
  auto library = Library::open(folder.path / "p.db");
  REQUIRE(library);
  REQUIRE(library->replace({"mine", "cutlass", "", 0, 0}, some()));
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0, searches = 0;
  std::vector<std::jthread> readers;
  for (int t = 0; t < 4; ++t) {
    readers.emplace_back([&] {
      do {
        const auto hits = library->search("gemm f16 sm90 128x256x64", {"cutlass", "", "", {}}, 5);
        // The old state or the new one: never a corpus half written.
        if (!hits || (hits->size() != 5 && hits->size() != 1)) ++wrong;
        ++searches;
      } while (!stop);
    });
  }
  for (int i = 0; i < 20; ++i) {
    REQUIRE(library->replace({"mine", "cutlass", "", 0, 0}, {some()[1]}));
    REQUIRE(library->replace({"mine", "cutlass", "", 0, 0}, some()));
  }
  stop = true;
  readers.clear();
  CHECK(wrong == 0);
  CHECK(searches >= 4);
}

TEST_CASE("a second process sees what the first one wrote, and our own patterns follow the program") {
  const Folder folder;
  const auto file = folder.path / "p.db";
  auto one = Library::open(file);
  REQUIRE(one);
  auto other = Library::open(file);
  REQUIRE(other);
  CHECK(names(other->search("gemm f16", {"cutlass", "", "", {}}, 9)).empty());
  REQUIRE(one->replace({"mine", "cutlass", "", 0, 0}, some()));
  CHECK(!names(other->search("gemm f16", {"cutlass", "", "", {}}, 9)).empty());
  // An earlier version's own patterns.
  REQUIRE(one->replace({"planish", "planish", "", 0, 0}, {some()[0]}));
  auto again = Library::open(file);
  REQUIRE(again);
  CHECK(names(again->search("", {"planish", "", "", {}}, 99)).size() == own_patterns().size());
  CHECK(names(again->search("", {"cutlass", "", "", {}}, 99)).size() == 6);
}

TEST_CASE("files that are no index have errors of their own") {
  const Folder folder;
  folder.put("text.db", std::string(4096, 'x'));
  CHECK(Library::open(folder.path / "text.db").error().kind.name() == "store_corrupt");
  CHECK(!Library::open(folder.put("file", "x") / "p.db"));
  const auto newer = folder.path / "newer.db";
  {
    auto database = database::Database::open(newer.string(), true);
    REQUIRE(database);
    REQUIRE(database->execute("PRAGMA user_version=99"));
  }
  const auto refused = Library::open(newer);
  REQUIRE(!refused);
  CHECK(refused.error().kind.name() == "store_newer");
  CHECK(refused.error().hint.find("--index") != std::string::npos);
}
