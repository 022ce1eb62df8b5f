// search_replay [--seeds N] [--evals N] [--only NAME] [--strategies LIST] [--json FILE] [TABLE…]: runs every strategy
// on tables of measured genomes (table.h), or without tables on synthetic surfaces (surface.h), and prints the best
// time found after 50, 100, 200 and 400 evaluations over the least there is (median and quartiles over seeds; 1.000 is
// perfect), and how many evaluations a strategy took to what random search had at its end. In LIST, `swarm-advice` is
// the swarm without a judge's advice and `swarm-surrogate` the one without its model of what was measured.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "comparison.h"
#include "table.h"

namespace planish::bench {
namespace {

struct Options {
  int seeds = 20, evaluations = 400;
  std::string only, json;
  std::vector<Contender> contenders;
  std::vector<std::unique_ptr<Surface>> surfaces;
};

constexpr const char* usage =
    "search_replay [--seeds N] [--evals N] [--only NAME] [--strategies LIST] [--json FILE] [TABLE…]";

int number(const char* text, int least) {
  return std::max(std::atoi(text), least);
}

Result<std::vector<Contender>> contenders(std::string list) {
  std::vector<Contender> out;
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    PLANISH_TRY(const Contender one, contender_from_name(list.substr(0, comma)));
    out.push_back(one);
    list.erase(0, comma + 1);
  }
  return out;
}

Result<Options> read(int argc, char** argv) {
  Options out;
  std::string list = "swarm,hillclimb,tree,random,sample";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--seeds" && more) {
      out.seeds = number(argv[++i], 1);
    } else if (word == "--evals" && more) {
      out.evaluations = number(argv[++i], marks.front());
    } else if (word == "--only" && more) {
      out.only = argv[++i];
    } else if (word == "--json" && more) {
      out.json = argv[++i];
    } else if (word == "--strategies" && more) {
      list = argv[++i];
    } else if (word.starts_with("--")) {
      return fail("usage", fmt::format("unknown argument {}", word), usage);
    } else {
      PLANISH_TRY(auto table, read_table(word));
      out.surfaces.push_back(std::move(table));
    }
  }
  PLANISH_TRY(out.contenders, contenders(list));
  if (out.contenders.empty()) return fail("usage", "no strategies", usage);
  if (out.surfaces.empty()) out.surfaces = synthetic_surfaces();
  std::erase_if(out.surfaces, [&](const auto& one) { return one->name().find(out.only) == std::string::npos; });
  return out;
}

Status run(int argc, char** argv) {
  PLANISH_TRY(const Options options, read(argc, argv));
  std::vector<Comparison> done;
  for (const auto& surface : options.surfaces) {
    done.push_back(compare(*surface, options.contenders, options.seeds, options.evaluations));
    fmt::print("{}", to_text(done.back()));
    std::fflush(stdout);
  }
  fmt::print("{}", to_text(overall(done), done.size()));
  if (!options.json.empty())
    PLANISH_CHECK(write_file(options.json, to_json(done, options.seeds, options.evaluations) + "\n"));
  return {};
}

}  // namespace
}  // namespace planish::bench

int main(int argc, char** argv) {
  const auto done = planish::bench::run(argc, argv);
  if (done) return 0;
  fmt::print(stderr, "error: {}\n", done.error().message);
  if (!done.error().hint.empty()) fmt::print(stderr, "hint: {}\n", done.error().hint);
  return 2;
}
