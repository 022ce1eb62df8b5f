// How well and how fast patterns are found: `planish-patterns-retrieval INDEX [QUERIES] [--half tune|held_out] [--scale
// N] [--vectors WEIGHT|default] [--verbose]`.
//
// Queries are labelled with predicates on names and paths (bench/patterns/queries.json). A query is answered at rank r
// where the r-th hit is the first that one of its predicates accepts. recall@5: share of the queries answered at rank 5
// or better; MRR: mean of 1/r within the first 10; precision@5: accepted hits of the first five. Times are of
// Library::search in one thread (by the clock, and of that thread's processor), each query 20 times, after one round
// unmeasured.
// --vectors ranks by vectors too: those of INDEX, and of queries that `planish patterns search` has asked before; with
// --scale any 384 numbers. WEIGHT is what the nearest text counts in place of the default.
// --scale N makes an index of N patterns of INDEX in which each is a document of its own: nothing shares a text.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "patterns/library.h"
#include "patterns/vectors.h"

namespace {

using namespace planish;
using patterns::Library;
using patterns::Pattern;

struct Alternative {
  std::string kind;
  std::vector<std::pair<bool, std::regex>> on;  ///< of the name, or else of the path
};
struct Query {
  std::string text, half;
  std::vector<Alternative> accept;
};

bool accepts(const Query& query, const Pattern& p) {
  return std::ranges::any_of(query.accept, [&](const Alternative& one) {
    return one.kind == p.kind && std::ranges::all_of(one.on, [&](const auto& test) {
             return std::regex_search(test.first ? p.name : p.path, test.second);
           });
  });
}

std::vector<Query> read_queries(const Json& json) {
  std::vector<Query> out;
  for (const Json& one : json["queries"]) {
    Query query{one["query"], one["half"], {}};
    for (const Json& label : one["accept"]) {
      Alternative made{label["kind"], {}};
      for (const char* field : {"name", "path"}) {
        if (label.contains(field))
          made.on.emplace_back(std::string_view(field) == "name",
                               std::regex(label[field].get<std::string>(), std::regex::icase));
      }
      query.accept.push_back(std::move(made));
    }
    out.push_back(std::move(query));
  }
  return out;
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Of this thread's own work: what other processes take is not in it.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Score {
  int queries = 0, at1 = 0, at5 = 0;
  double mrr = 0, precision = 0;
};

int complain(const Error& error) {
  std::fputs(fmt::format("error: {}\nhint: {}\n", error.message, error.hint).c_str(), stderr);
  return 2;
}

/// What stands for a query beside its words; filled where --vectors is given.
std::map<std::string, patterns::QueryVector> meanings;
const patterns::QueryVector& meaning_of(const Query& query) {
  return meanings[query.text];
}

/// Vectors in no direction that means anything: for time alone.
std::vector<std::vector<float>> anyhow(std::size_t count, std::size_t dimensions) {
  static std::mt19937 rng(1);
  std::normal_distribution<float> draw;
  std::vector<std::vector<float>> out(count, std::vector<float>(dimensions));
  for (auto& one : out) std::ranges::generate(one, [&] { return draw(rng); });
  return out;
}

Json times_of(const Library& library, const std::vector<Query>& queries) {
  std::vector<double> ms, cpu;
  for (int round = 0; round < 21; ++round) {
    for (const Query& query : queries) {
      const double start = seconds(), cpu_start = cpu_seconds();
      const auto hits = library.search(query.text, {}, 5, meaning_of(query));
      if (round == 0 || !hits) continue;
      ms.push_back(1e3 * (seconds() - start));
      cpu.push_back(1e3 * (cpu_seconds() - cpu_start));
    }
  }
  const auto summary = [](std::vector<double>& all) {
    std::ranges::sort(all);
    const auto at = [&](double share) {
      return all[static_cast<std::size_t>(share * static_cast<double>(all.size() - 1))];
    };
    double sum = 0;
    for (const double one : all) sum += one;
    return Json{
        {"mean", sum / static_cast<double>(all.size())}, {"median", at(0.5)}, {"p95", at(0.95)}, {"max", all.back()}};
  };
  return {{"wall", summary(ms)}, {"cpu", summary(cpu)}};
}

}  // namespace

int main(int argc, char** argv) {
  std::string index, file = "bench/patterns/queries.json", half;
  int scale = 0;
  bool vectors = false;
  std::optional<double> weight;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--verbose") {
      verbose = true;
    } else if (word == "--vectors" && i + 1 < argc) {
      vectors = true;
      if (const std::string_view given = argv[++i]; given != "default") weight = std::stod(std::string(given));
    } else if (word == "--half" && i + 1 < argc) {
      half = argv[++i];
    } else if (word == "--scale" && i + 1 < argc) {
      scale = std::stoi(argv[++i]);
    } else {
      (index.empty() ? index : file) = word;
    }
  }
  if (index.empty()) {
    std::fputs(
        "usage: planish-patterns-retrieval INDEX [QUERIES] [--half tune|held_out] [--scale N] [--vectors "
        "WEIGHT|default] "
        "[--verbose]\n",
        stderr);
    return 2;
  }
  auto library = Library::open(index);
  if (!library) return complain(library.error());
  const auto bytes = read_file(file);
  if (!bytes) return complain(bytes.error());
  const auto json = parse_json(*bytes, "bad_text", file);
  if (!json) return complain(json.error());
  const std::vector<Query> queries = read_queries(*json);
  const auto all = library->search("", {}, 10'000'000);
  if (!all) return complain(all.error());
  Json out{{"patterns", all->size()}, {"queries", queries.size()}};

  if (vectors && scale == 0) {
    auto known = patterns::Vectors::open(index);
    if (!known) return complain(known.error());
    const auto state = known->state();
    if (!state) return complain(state.error());
    const auto refuse = [](const std::vector<std::string>& texts) -> Result<std::vector<std::vector<float>>> {
      return fail("bad_text", "no vector is kept of: " + texts.front(), "search it with `planish patterns search`");
    };
    for (const Query& query : queries) {
      auto vector = known->of_query(state->model.value_or(patterns::VectorModel{}), query.text, refuse);
      if (!vector) return complain(vector.error());
      meanings[query.text] = {std::move(*vector), weight};
    }
  }

  if (scale > 0) {
    std::vector<Pattern> some;
    const double step = static_cast<double>(all->size()) / scale;
    for (int i = 0; i < scale; ++i) {
      Pattern one = (*all)[static_cast<std::size_t>(i * step) % all->size()].pattern;
      one.more_words = one.source.substr(0, 4000);
      one.path += fmt::format("/{}", i);
      one.source += fmt::format("\n// {}", i);
      one.form = one.form == "configuration" ? "kernel" : one.form;
      some.push_back(std::move(one));
    }
    auto folder = TempDir::create();
    if (!folder) return complain(folder.error());
    auto scaled = Library::open(folder->path() / "scaled.db");
    if (!scaled) return complain(scaled.error());
    const auto kept = scaled->replace({"scaled", "cutlass", "", 0, 0}, some);
    if (!kept) return complain(kept.error());
    if (vectors) {
      auto any = patterns::Vectors::open(scaled->file());
      if (!any) return complain(any.error());
      const auto made = any->embed(
          {"anyhow", 0},
          [](const auto& texts) -> Result<std::vector<std::vector<float>>> { return anyhow(texts.size(), 384); }, 4096,
          nullptr, {});
      if (!made) return complain(made.error());
      for (const Query& query : queries) meanings[query.text] = {patterns::pack_vector(anyhow(1, 384).front()), weight};
    }
    out["scaled"] = {{"patterns", kept->patterns}, {"ms", times_of(*scaled, queries)}};
    std::puts(out.dump(1).c_str());
    return 0;
  }

  std::map<std::string, Score> scores;
  for (const Query& query : queries) {
    if (!half.empty() && query.half != half) continue;
    const auto hits = library->search(query.text, {}, 10, meaning_of(query));
    if (!hits) return complain(hits.error());
    int rank = 0, good = 0;
    for (std::size_t i = 0; i < hits->size(); ++i) {
      if (!accepts(query, (*hits)[i].pattern)) continue;
      if (rank == 0) rank = static_cast<int>(i) + 1;
      if (i < 5) ++good;
    }
    for (const std::string& name : {query.half, std::string("all")}) {
      Score& score = scores[name];
      ++score.queries;
      score.at1 += rank == 1 ? 1 : 0;
      score.at5 += rank >= 1 && rank <= 5 ? 1 : 0;
      score.mrr += rank > 0 ? 1.0 / rank : 0;
      score.precision += good / 5.0;
    }
    if (verbose) {
      const auto could =
          std::ranges::count_if(*all, [&](const patterns::Hit& hit) { return accepts(query, hit.pattern); });
      std::fputs(fmt::format("{} {} [{} acceptable] {}\n", query.half, rank, could, query.text).c_str(), stderr);
      if (rank == 0 || rank > 5) {
        for (std::size_t i = 0; i < std::min<std::size_t>(5, hits->size()); ++i) {
          const auto& hit = (*hits)[i];
          std::fputs(
              fmt::format("     {:5.1f} = {:4.1f} + {:4.1f} + {:4.1f} {} {} {}\n", hit.score, hit.by_text, hit.by_facts,
                          hit.by_measurements, hit.pattern.form, hit.pattern.name.substr(0, 80), hit.pattern.path)
                  .c_str(),
              stderr);
        }
      }
    }
  }
  for (const auto& [name, score] : scores) {
    const double n = score.queries;
    out["halves"][name] = {{"queries", score.queries},
                           {"recall@1", score.at1 / n},
                           {"recall@5", score.at5 / n},
                           {"mrr", score.mrr / n},
                           {"precision@5", score.precision / n}};
  }
  out["ms"] = times_of(*library, queries);
  std::puts(out.dump(1).c_str());
  return 0;
}
