// The benchmark of searches on recorded tables (bench/search): what it reads, and what it counts.
#include "table.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "comparison.h"

using namespace planish;
using namespace planish::bench;

namespace {

std::filesystem::path recorded(const std::string& name) {
  return std::filesystem::path(PLANISH_SOURCE_DIR) / "docs/results/search/tables" / (name + ".jsonl.gz");
}

std::unique_ptr<Surface> open(const std::string& name) {
  auto table = read_table(recorded(name));
  REQUIRE_MESSAGE(table.has_value(), (table ? "" : table.error().message));
  return std::move(*table);
}

std::filesystem::path written(const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("planish-table-{}.jsonl", ::getpid());
  std::ofstream(path) << text;
  return path;
}

}  // namespace

TEST_CASE("a recorded space is all there is: its genomes are legal, and no others") {
  const auto table = open("transpose_add");
  const auto domain = table->domain();
  CHECK(table->measured());
  CHECK(table->floor_ms() > 0);
  std::mt19937_64 rng(1);
  REQUIRE(!domain->seeds().empty());
  for (const auto& seed : domain->seeds()) CHECK(domain->legal(seed));
  codegen::Genome genome = domain->seeds().front();
  std::set<codegen::Genome> drawn;
  for (int i = 0; i < 200; ++i) {
    drawn.insert(domain->random(rng));
    genome = domain->mutate(genome, rng);
    CHECK(domain->legal(genome));
    for (const auto& next : domain->neighbours(genome)) CHECK(domain->legal(next));
    const auto time = table->time(genome, rng);
    REQUIRE(time.kind == Surface::Time::Kind::ok);
    CHECK(time.true_ms >= table->floor_ms());
    CHECK(time.ms == doctest::Approx(time.true_ms).epsilon(0.2));
  }
  CHECK(drawn.size() > 150);
  genome["threads"] = 7;
  CHECK_FALSE(domain->legal(genome));
}

TEST_CASE("what the compiler said is there for a judge, and equal programs have equal names") {
  const auto table = open("row_stats");  // half of its genomes are another one's code
  std::mt19937_64 rng(1);
  std::set<std::string> programs;
  const auto domain = table->domain();
  std::set<codegen::Genome> genomes;
  for (int i = 0; i < 1000; ++i) genomes.insert(domain->random(rng));
  for (const auto& genome : genomes) programs.insert(table->program(genome));
  CHECK(programs.size() < genomes.size() * 9 / 10);
  const auto seed = domain->seeds().front();
  const auto evaluation = table->evaluation(seed, table->time(seed, rng));
  REQUIRE(evaluation);
  CHECK(evaluation->ok());
  REQUIRE(!evaluation->compile->kernels.empty());
  CHECK(evaluation->compile->kernels.front().registers > 0);
  CHECK(evaluation->compile->launches.front().waves > 0);
  CHECK(evaluation->roofline->fraction < 1.2);
}

TEST_CASE("tables that are none are refused") {
  const std::string head =
      R"({"schema": "planish.search_table/2", "name": "t", "genes": [{"name": "a", "choices": [1, 2]}], "seeds": []})";
  const auto fine = written(head + "\n{\"genome\": \"a=1\", \"ms\": 2}\n");
  CHECK(read_table(fine).has_value());
  CHECK(read_table(written(head + "\n{\"genome\": \"a=3\", \"ms\": 2}\n")).error().kind.name() == "bad_text");
  CHECK(read_table(written(head + "\n")).error().kind.name() == "bad_text");
  CHECK(read_table(written("{\"schema\": \"other\"}\n")).error().kind.name() == "bad_text");
  CHECK(read_table(written(head + "\n{\"genome\": \"a=1\", \"kernels\": [[1]], \"launches\": []}\n"))
            .error()
            .kind.name() == "bad_text");
  std::filesystem::remove(fine);
  CHECK_FALSE(read_table(fine).has_value());
}

TEST_CASE("contenders are strategies with something taken away") {
  const auto less = contender_from_name("swarm-advice-surrogate");
  REQUIRE(less);
  CHECK(less->kind == search::StrategyKind::swarm);
  CHECK_FALSE(less->advice);
  CHECK_FALSE(less->surrogate);
  CHECK(name(*less) == "swarm-advice-surrogate");
  CHECK(name(*contender_from_name("hillclimb")) == "hillclimb");
  CHECK(contender_from_name("swarm-hope").error().kind.name() == "usage");
  CHECK(contender_from_name("hope").error().kind.name() == "usage");
}

TEST_CASE("on a recorded space the swarm is no worse than drawing, and the comparison says who leads") {
  const auto table = open("group_norm");
  const Comparison found = compare(*table, {*contender_from_name("swarm"), *contender_from_name("random")}, 3, 100);
  REQUIRE(found.rows.size() == 2);
  const auto& swarm = found.rows[0].at.at(100);
  const auto& random = found.rows[1].at.at(100);
  CHECK(swarm.ratio.median >= 1);
  CHECK(swarm.mean_log < random.mean_log);
  CHECK(swarm.leads);
  CHECK(found.least_ms == table->floor_ms());
  CHECK(overall({found}).front().leads.at(100) == 1);
  CHECK(to_json({found}, 3, 100).find("\"group_norm\"") != std::string::npos);
}
