#include "session/optimize_flow.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/json.h"
#include "flow_world.h"
#include "report/page.h"
#include "search/origin.h"
#include "session/degenerate.h"
#include "session/result_text.h"

using namespace planish;
using namespace planish::session;
using namespace planish::session::testing;

namespace {

const ClaimTime* time_of(const ResultDocument& result, std::string_view name) {
  const auto found = std::ranges::find(result.times, name, &ClaimTime::name);
  return found == result.times.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("an improvement: searched, composed, shipped with evidence, verified, timed, stored") {
  World world;
  world.evaluator.regions = 2;
  auto result = world.run();
  REQUIRE(result);
  CHECK(world.evaluator.evaluated.front() == "whole");  // the program of aten steps comes first
  CHECK(result->outcome == "improved");
  CHECK(result->form == "program");
  CHECK(result->speedup.at("max_autotune_no_cudagraphs") == doctest::Approx(7.0 / 4));
  CHECK(result->speedup_best_baseline == doctest::Approx(6.0 / 4));
  CHECK(result->best_baseline == "max_autotune");
  CHECK(world.shipper.shipped[1].program == "whole;r0=9;r1=9");
  CHECK(world.shipper.shipped.back().program == "whole;r0=9;r1=9");
  CHECK(result->accuracy->ratio == doctest::Approx(2));
  CHECK(result->accuracy->verified);
  CHECK(std::ranges::all_of(result->regions, &ResultDocument::Region::used));
  const auto evidence = parse_json(world.shipper.shipped.back().evidence, "bad_text", "evidence");
  REQUIRE(evidence);
  CHECK((*evidence)["times"]["shipped"]["samples_ms"].size() == 2);
  CHECK((*evidence)["accuracy"]["cases"].size() == 1);
  CHECK(read_file(world.request.out / "result.json").value() == to_json(*result));
  CHECK(world.kept().state == "finished");
  CHECK(world.kept().outcome == "improved");
  CHECK(world.kept().speedup == doctest::Approx(1.75));
}

TEST_CASE("one number for one run, wherever it is read") {
  World world;
  auto result = world.run();
  REQUIRE(result);
  const auto headline = headline_of(*result);
  REQUIRE(headline);
  CHECK(headline->baseline == "max_autotune_no_cudagraphs");
  CHECK(headline->speedup == doctest::Approx(7.0 / 4));
  CHECK(world.kept().speedup == headline->speedup);
  const auto read = suite::headline_of(to_json(*result));
  REQUIRE(read);
  CHECK(read->speedup == headline->speedup);
  CHECK(read->baseline == headline->baseline);
  CHECK(to_text(*result).find("fake: " + suite::headline_text(headline)) == 0);
  CHECK(to_text(*result).find("1.50x against the best baseline") != std::string::npos);
}

TEST_CASE("where a baseline ships nothing was gained, whatever its time against others") {
  World world;
  world.evaluator.shipped_ms = 20;
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->speedup.at("max_autotune_no_cudagraphs") == doctest::Approx(7.0 / 6));
  const auto headline = headline_of(*result);
  REQUIRE(headline);
  CHECK(headline->speedup == 1);
  CHECK(headline->baseline == "max_autotune");
  CHECK(world.kept().speedup == 1);
  CHECK(to_text(*result).find("no gain over") != std::string::npos);
  CHECK_FALSE(result->why);
}

TEST_CASE("the lesser gain is claimed where callers keep results, and the share of memory is said") {
  World world;
  world.evaluator.shipped_kept_ms = 5;
  world.evaluator.baseline_kept_ms = 0;
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "improved");
  CHECK(result->speedup.at("max_autotune_no_cudagraphs") == doctest::Approx(7.0 / 5));
  CHECK(*memory_share(*result, "max_autotune_no_cudagraphs") == doctest::Approx(1 - 2.0 / 3));
  const auto json = parse_json(to_json(*result), "bad_text", "result");
  REQUIRE(json);
  CHECK((*json)["times_ms"]["shipped"]["kept"]["median"] == 5);
  CHECK((*json)["headline"]["memory_share"].get<double>() == doctest::Approx(1.0 / 3));
  CHECK(to_text(*result).find("33 % of the time saved is memory") != std::string::npos);
}

TEST_CASE("a result says that others wanted the processors while it was timed") {
  for (const double busy : {0.0, 0.4, 3.0}) {
    CAPTURE(busy);
    World world;
    world.evaluator.busy = busy;
    const auto result = world.run();
    REQUIRE(result);
    const bool said = to_text(*result).find("3.0 threads of others wanted each processor") != std::string::npos;
    CHECK(said == (busy > 1));
    const auto json = parse_json(to_json(*result), "bad_text", "result");
    REQUIRE(json);
    CHECK((*json)["times_ms"]["shipped"].contains("busy") == (busy > 0));
  }
}

TEST_CASE("what loses where results are kept is no improvement") {
  World world;
  world.evaluator.shipped_kept_ms = 9;
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "no_improvement");
  CHECK(result->form == "baseline");
}

TEST_CASE("a result says what runs in place of what, and the roofline is of the call") {
  World world;
  auto result = world.run();
  REQUIRE(result);
  REQUIRE(result->why);
  const auto json = parse_json(to_json(*result), "bad_text", "result");
  REQUIRE(json);
  CHECK((*json)["why"]["fused"][0]["operators"] == "mul, relu");
  CHECK((*json)["why"]["before"]["launches"] == 3);
  CHECK((*json)["roofline"]["fraction"].get<double>() == doctest::Approx(0.1 / 4));
  CHECK((*json)["roofline"]["kernels_fraction"].get<double>() == doctest::Approx(result->roofline->fraction));
  const std::string text = to_text(*result);
  CHECK(text.find("PyTorch runs 3 operators one after the other") != std::string::npos);
  CHECK(text.find("r0: mul, relu (fake.py:3-4)") != std::string::npos);
  CHECK(text.find(fmt::format("{} kernels compiled", result->searched.compiled)) != std::string::npos);
}

TEST_CASE("a region's PyTorch form takes no more than its part of the whole") {
  World world;
  world.evaluator.aten_ms = 500;  // disturbed: the whole takes 10
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->regions[0].fallback_ms == 10);
}

TEST_CASE("the result document has the names that were promised") {
  World world;
  auto result = world.run();
  REQUIRE(result);
  const auto json = parse_json(to_json(*result), "bad_text", "result");
  REQUIRE(json);
  for (const char* field :
       {"schema_version", "run", "task", "target", "device", "outcome", "shipped", "accuracy", "times_ms", "speedup",
        "speedup_best_baseline", "roofline", "host_us_per_call", "evaluations", "seconds"}) {
    CHECK_MESSAGE(json->contains(field), field);
  }
  for (const char* field : {"gate", "error", "eager_error", "ratio", "regimes"})
    CHECK((*json)["accuracy"].contains(field));
  for (const char* mode : {"shipped", "eager", "compile", "max_autotune_no_cudagraphs", "max_autotune"}) {
    CHECK((*json)["times_ms"][mode].contains("median"));
  }
  CHECK((*json)["evaluations"]["bench"]["ok"].get<int>() > 1);
  CHECK((*json)["seconds"].contains("first_verified"));
  CHECK((*json)["latency"].is_null());
  CHECK_FALSE(to_text(*result).empty());
}

TEST_CASE("latency of single calls is reported beside the times of calls in a row") {
  World world;
  auto result = world.run();
  REQUIRE(result);
  for (ClaimTime& time : result->times) {
    time.latency_ms = time.name == "shipped" ? 0.02 : 0.05;
    time.latency_lo_ms = time.latency_ms - 0.001;
    time.latency_hi_ms = time.latency_ms + 0.001;
  }
  const auto json = parse_json(to_json(*result), "bad_text", "result");
  REQUIRE(json);
  CHECK((*json)["latency"]["ms"]["shipped"]["hi"].get<double>() == doctest::Approx(0.021));
  CHECK((*json)["latency"]["speedup"]["compile"].get<double>() == doctest::Approx(2.5));
  CHECK_FALSE((*json)["latency"]["speedup"].contains("shipped"));
}

TEST_CASE("slower than the best baseline: the baseline ships") {
  World world;
  world.evaluator.shipped_ms = 6.5;
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "no_improvement");
  CHECK(result->form == "baseline");
  CHECK(world.shipper.shipped.back().baseline == "max_autotune");
  CHECK(world.shipper.shipped.back().program.empty());
  CHECK(time_of(*result, "shipped")->median_ms == 6);
  CHECK(time_of(*result, "candidate")->median_ms == 6.5);
  CHECK(result->speedup_best_baseline == doctest::Approx(1));
}

TEST_CASE("a difference inside the noise is no improvement") {
  World world;
  world.evaluator.shipped_ms = 5.9;
  world.evaluator.shipped_spread = 0.3;
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "no_improvement");
  CHECK(result->reason.find("is inside the noise: by its times it lies between 0.") != std::string::npos);
}

TEST_CASE("where the fastest failed its last proof, that is the reason, and not the noise of what is left") {
  World world;
  world.evaluator.wrong = {"r0="};  // with any kernel of ours
  world.evaluator.shipped_ms = 6;   // what is left, beside a baseline of 6
  const auto result = world.run();
  REQUIRE(result.has_value());
  CHECK(result->outcome == "no_improvement");
  CHECK(result->reason.find("failed its last proof (wrong)") != std::string::npos);
  CHECK(result->reason.find("inside the noise") == std::string::npos);
}

TEST_CASE("where the best baseline fails the gate itself, the next one ships") {
  World world;
  world.evaluator.shipped_ms = 50;
  world.evaluator.unverified_baselines = {"max_autotune"};
  auto result = world.run();
  REQUIRE(result);
  CHECK(world.shipper.shipped.back().baseline == "max_autotune_no_cudagraphs");
  CHECK(time_of(*result, "shipped")->median_ms == 7);
  CHECK(result->refused_baselines == std::vector<std::string>{"max_autotune"});

  World none;
  none.evaluator.shipped_ms = 50;
  none.evaluator.unverified_baselines = {"max_autotune", "max_autotune_no_cudagraphs", "compile"};
  result = none.run();
  REQUIRE(result);
  CHECK(none.shipper.shipped.back().baseline == "eager");
  CHECK(time_of(*result, "shipped")->median_ms == 10);
}

TEST_CASE("a baseline that fails the gate is no measure: what beats the others ships") {
  World world;
  world.evaluator.shipped_ms = 6.5;
  world.evaluator.unverified_baselines = {"max_autotune"};
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "improved");
  CHECK(result->best_baseline == "max_autotune_no_cudagraphs");
  CHECK(result->speedup_best_baseline == doctest::Approx(7 / 6.5));
  CHECK(result->speedup.at("max_autotune") == doctest::Approx(6 / 6.5));  // still said
  CHECK(world.shipper.shipped.back().baseline.empty());
  CHECK_FALSE(world.shipper.shipped.back().program.empty());
  CHECK(result->accuracy->verified);
  const auto json = parse_json(to_json(*result), "bad_text", "result");
  REQUIRE(json);
  CHECK((*json)["refused_baselines"].size() == 1);
}

TEST_CASE(
    "a baseline whose results are anything but the task's is no measure either, and the result says which and why") {
  for (const Outcome fault : {Outcome::nan, Outcome::unwritten, Outcome::nondeterministic, Outcome::wrong_when_timed}) {
    CAPTURE(name(fault));
    World world;
    world.evaluator.shipped_ms = 50;
    world.evaluator.fault = fault;
    world.evaluator.unverified_baselines = {"max_autotune", "max_autotune_no_cudagraphs", "compile"};
    const auto result = world.run();
    REQUIRE(result);
    CHECK(result->refused_baselines.size() == 3);
    CHECK(world.shipper.shipped.back().baseline == "eager");
    CHECK(result->best_baseline == "eager");
    CHECK(headline_of(*result)->baseline == "eager");
    CHECK(result->shipped_baseline == "eager");
    CHECK(to_text(*result).starts_with("fake: no gain over PyTorch eager, which is what ships\n"));
    CHECK(to_text(*result).contains(fmt::format("refused ({}): 25 % of it is nothing", name(fault))));
    const auto json = parse_json(to_json(*result), "bad_text", "result");
    REQUIRE(json);
    CHECK((*json)["baseline_faults"]["compile"]["kind"] == name(fault));
    CHECK((*json)["shipped_baseline"] == "eager");
  }
}

TEST_CASE("a baseline whose timed results are wrong is no headline, whatever ships") {
  World world;
  world.evaluator.wrong_when_timed = "max_autotune_no_cudagraphs";
  const auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "improved");
  CHECK(result->shipped_baseline.empty());
  CHECK(headline_of(*result)->baseline == "max_autotune");
  CHECK(result->refused_baselines == std::vector<std::string>{"max_autotune_no_cudagraphs"});
  CHECK(result->baseline_faults.at("max_autotune_no_cudagraphs").kind == "wrong_when_timed");
  CHECK(to_text(*result).contains("refused: it returned NaN"));
}

TEST_CASE("a program that gives NaN only when it is shipped is tried without its approximations too") {
  World world;
  world.planner.approximates = true;
  world.evaluator.fault = Outcome::nan;
  world.evaluator.unverified = "~";
  const auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "improved");
  CHECK(world.shipper.shipped.back().program == "whole;r0=9");
}

TEST_CASE("a region that was never tried is not one whose candidates all failed") {
  ResultDocument result;
  result.regions.resize(3);
  result.regions[0].tried = 5;
  result.regions[1].tried = 0;
  const std::string text = to_text(result);
  const std::size_t failed = text.find("no candidate passed"),
                    untried = text.find("not tried: the budget ended before");
  CHECK(failed < untried);
  CHECK(untried < text.find("not searched"));
  CHECK(text.contains("not searched"));

  World world;
  world.request.budget = {0, 1};
  world.evaluator.regions = 8;
  const auto searched = world.run();
  REQUIRE(searched);
  CHECK(std::ranges::any_of(searched->regions, [](const auto& region) { return region.tried == 0; }));
  CHECK(std::ranges::any_of(searched->regions, [](const auto& region) { return region.tried > 0; }));
  CHECK(to_text(*searched).contains("not tried: the budget ended before its turn"));
}

TEST_CASE(
    "kernels for regions that nothing was tried for are compiled where that takes no longer than a person waits") {
  const auto guessed = [](double compile_seconds, double budget_seconds) {
    World world;
    world.request.budget = {budget_seconds, 1};
    world.evaluator.regions = 8;
    world.evaluator.compile_seconds = compile_seconds;
    world.evaluator.cores = 2;
    REQUIRE(world.run());
    // All eight regions have a kernel in a program that was looked at.
    return std::ranges::any_of(world.evaluator.evaluated, [](const std::string& program) {
      return program.contains("r0=") && program.contains("r7=") && !program.ends_with("=aten");
    });
  };
  CHECK(guessed(4, 0));
  CHECK_FALSE(guessed(100, 0));
  CHECK(guessed(100, 1000));
}

TEST_CASE("a ratio of errors is short however large it is") {
  ResultDocument result;
  result.accuracy.emplace();
  result.accuracy->error = 1;
  result.accuracy->ratio = 1e300;
  CHECK(to_text(result).contains("(ratio 1e+300, gate )"));
  result.accuracy->ratio = 1.25;
  CHECK(to_text(result).contains("(ratio 1.25, gate )"));
}

TEST_CASE("a baseline on which there is no verdict stays a measure, and eager ships") {
  World world;
  world.evaluator.shipped_ms = 6.5;
  world.evaluator.crashing_baselines = {"max_autotune"};
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "no_improvement");
  CHECK(result->best_baseline == "max_autotune");
  CHECK(result->refused_baselines.empty());
  CHECK(world.shipper.shipped.back().baseline == "eager");
  CHECK(result->shipped_baseline == "eager");
  CHECK(to_text(*result).starts_with(
      "fake: no gain over torch.compile (max-autotune, CUDA graphs); what ships is PyTorch eager\n"));
  CHECK(to_text(*result).contains("could not be judged (crash)"));
}

TEST_CASE("a shipped module that does not verify is never claimed") {
  World world;
  world.evaluator.shipped_verifies = false;
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "no_improvement");
  CHECK(world.evaluator.claims.back().path.empty());
  CHECK(world.shipper.shipped.back().baseline == "max_autotune");
}

TEST_CASE("what fails only when it is shipped is shipped without its approximations") {
  World world;
  world.planner.approximates = true;
  world.evaluator.regions = 2;
  world.evaluator.unverified = "~";
  auto result = world.run();
  REQUIRE(result);
  REQUIRE(world.shipper.shipped.size() == 3);  // as found, exact, and again with the evidence
  CHECK(world.shipper.shipped.front().program == "whole;r0=9~;r1=9~");
  CHECK(world.shipper.shipped[1].program == "whole;r0=9;r1=9");
  CHECK(world.shipper.shipped.back().program == "whole;r0=9;r1=9");
  CHECK(result->outcome == "improved");
  CHECK(result->reason.empty());
  CHECK(result->accuracy->verified);
  CHECK(result->regions[1].genome == "fast=0 speed=9");
  CHECK(world.evaluator.claims.back().path == world.shipper.shipped.back().folder.string());
}

TEST_CASE("what fails only when it is shipped is shipped with the best kernels that round no factors") {
  for (const bool approximates : {false, true}) {
    CAPTURE(approximates);
    World world;
    world.planner.rounds = true;
    world.planner.approximates = approximates;
    world.evaluator.unverified = "'";
    auto result = world.run();
    REQUIRE(result);
    CHECK(world.shipper.shipped.front().program == (approximates ? "whole;r0=9~'" : "whole;r0=9'"));
    CHECK(world.shipper.shipped.back().program == "whole;r0=7");
    CHECK(result->outcome == "improved");
    CHECK(result->accuracy->verified);
  }
}

TEST_CASE("what fails without approximations too is not claimed") {
  World world;
  world.planner.approximates = true;
  world.evaluator.unverified = "r0=9";
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "no_improvement");
  CHECK(result->reason.find("did not pass verification") != std::string::npos);
  CHECK(world.shipper.shipped.back().baseline == "max_autotune");
}

TEST_CASE("a shipped module whose original ran in place of its program is never claimed") {
  World world;
  world.evaluator.program_runs = 9;
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "no_improvement");
  CHECK(result->reason.find("in 9 of 10 calls") != std::string::npos);
  CHECK(result->reason.find("no such luck") != std::string::npos);
  CHECK(world.evaluator.claims.back().path.empty());
}

TEST_CASE("no claim is made on a degenerate task") {
  World world;
  world.evaluator.degenerate = {"zeros"};
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "no_improvement");
  CHECK(result->reason.find("zeros") != std::string::npos);
  CHECK(result->reason.find("give inputs and parameters") != std::string::npos);
}

TEST_CASE("a lower precision that the whole hides is a note where it fails in every region that ships") {
  World world;
  world.evaluator.degenerate = {"tf32 products"};
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "improved");
  CHECK(result->accuracy->degenerate.empty());
  REQUIRE(result->accuracy->notes.size() == 1);
  CHECK(result->accuracy->notes[0].kind == "fails_in_regions");
  CHECK(result->accuracy->notes[0].about == "tf32 products");

  World passes;
  passes.evaluator.degenerate = passes.evaluator.degenerate_in_region = {"tf32 products"};
  auto none = passes.run();
  REQUIRE(none);
  CHECK(none->outcome == "no_improvement");
  CHECK(none->accuracy->degenerate == std::vector<std::string>{"tf32 products"});
}

TEST_CASE("regions settle precision alone, and only where it was tried") {
  std::vector<std::string> would_pass{"zeros", "input x", "bf16", "tf32 products"};
  CHECK(settled_by_regions(would_pass, {}).empty());
  RegionReply bites, untried, passes;
  untried.notes = {{.kind = "not_tried", .about = "bf16", .text = ""}};
  passes.degenerate = {"tf32 products"};
  CHECK(settled_by_regions(would_pass, {bites, untried, passes}).empty());
  CHECK(would_pass.size() == 4);
  CHECK(settled_by_regions(would_pass, {bites, untried}).size() == 1);
  CHECK(would_pass == std::vector<std::string>{"zeros", "input x", "bf16"});
  CHECK(settled_by_regions(would_pass, {bites}).size() == 1);
  CHECK(would_pass == std::vector<std::string>{"zeros", "input x"});
}

TEST_CASE("what would pass says what to do about it") {
  CHECK(degenerate_words({"input x", "bf16"}).find("gives back what it is given") != std::string::npos);
  CHECK(degenerate_words({"constant", "bf16"}).find("hardly depend") != std::string::npos);
  CHECK(degenerate_words({"bf16", "tf32 products"}).find("bf16, tf32 products would pass") != std::string::npos);
  CHECK(degenerate_words({"bf16"}).find("--accuracy") != std::string::npos);
}

TEST_CASE("an eager coarser than a mutant is a note, and the claim stands") {
  World world;
  world.evaluator.notes = {{"coarse_eager", "tf32 products", "eager's own rounding is coarser", 2e-4, 1e-4}};
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "improved");
  CHECK(result->reason.empty());
  REQUIRE(result->accuracy.has_value());
  CHECK(result->accuracy->degenerate.empty());
  REQUIRE(result->accuracy->notes.size() == 1);
  const std::string document = to_json(*result), text = to_text(*result);
  CHECK(document.find("\"coarse_eager\"") != std::string::npos);
  CHECK(document.find("\"tf32 products\"") != std::string::npos);
  CHECK(text.find("note      eager's own rounding is coarser") != std::string::npos);
}

TEST_CASE("TF32 that eager did not use is named where it was asked for") {
  ResultDocument::Accuracy accuracy;
  accuracy.gate = "permitted";
  accuracy.error = 3e-4;
  accuracy.eager_error = 2e-7;
  accuracy.ratio = 1500;
  const auto note = permitted_rounding(accuracy);
  REQUIRE(note.has_value());
  CHECK(note->text.find("--accuracy eager forbids it") != std::string::npos);
  for (const auto change :
       {+[](ResultDocument::Accuracy& a) { a.gate = "eager"; }, +[](ResultDocument::Accuracy& a) { a.error = 1e-6; },
        +[](ResultDocument::Accuracy& a) { a.ratio = 2; }}) {
    ResultDocument::Accuracy other = accuracy;
    change(other);
    CHECK_FALSE(permitted_rounding(other).has_value());
  }
}

TEST_CASE("where the whole fails, the region at fault falls back and the others stay") {
  World world;
  world.evaluator.regions = 3;
  world.evaluator.wrong = {";r1="};
  auto result = world.run();
  REQUIRE(result);
  CHECK(world.shipper.shipped.front().program == "whole;r0=9;r2=9");
  CHECK(result->outcome == "improved");
  CHECK_FALSE(result->regions[1].used);
}

TEST_CASE("kernels that are no faster by themselves are taken where the whole is faster with all of them") {
  World world;
  world.evaluator.regions = 2;
  world.evaluator.aten_ms = 0.5;  // no kernel takes less than 1
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "improved");
  CHECK(world.shipper.shipped.front().program == "whole;r0=9;r1=9");
  CHECK(result->regions[0].used);
  World failing;
  failing.evaluator.regions = 2;
  failing.evaluator.aten_ms = 0.5;
  failing.evaluator.wrong = {";r1="};
  result = failing.run();
  REQUIRE(result);
  CHECK(failing.shipper.shipped.front().program == "whole");
}

TEST_CASE("where nothing passes, a baseline ships and it says why") {
  World world;
  world.evaluator.wrong = {"whole"};
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "no_improvement");
  CHECK(result->reason.find("wrong") != std::string::npos);
  CHECK(world.shipper.shipped.back().baseline == "max_autotune");
}

TEST_CASE("a task without regions is still verified and shipped") {
  World world;
  world.evaluator.regions = 0;
  auto result = world.run();
  REQUIRE(result);
  CHECK(world.shipper.shipped.front().program == "whole");
}

TEST_CASE("a bad task leaves no store behind") {
  World world;
  world.evaluator.open_fails = ErrorKind("no_model");
  auto result = world.run();
  REQUIRE_FALSE(result);
  CHECK(result.error().kind.name() == "no_model");
  CHECK(world.stores_opened == 0);
  CHECK_FALSE(std::filesystem::exists(world.request.out));
}

TEST_CASE("Ctrl-C: what was found is verified and shipped, against eager alone") {
  World world;
  world.evaluator.cancel_after = 6;
  world.request.budget = {0, 10000};
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "interrupted");
  CHECK(result->accuracy->verified);
  CHECK(world.evaluator.claims.back().modes == std::vector<std::string>{"eager"});
  CHECK(world.kept().state == "interrupted");
  World early;
  early.evaluator.cancel_after = 1;
  auto first = early.run();
  REQUIRE(first);
  CHECK(first->outcome == "interrupted");
  CHECK(early.evaluator.evaluated.size() == 1);
}

TEST_CASE("a run that was to search only ends there, and --resume takes it to the end") {
  World world;
  world.request.search_only = true;
  world.evaluator.bandwidth_gbs = 100;
  auto searched = world.run();
  REQUIRE(searched);
  CHECK(searched->outcome == "searched");
  CHECK(searched->regions.front().best_ms > 0);
  CHECK_FALSE(searched->regions.front().used);
  CHECK(world.shipper.shipped.empty());
  CHECK(world.kept().state == "finished");
  const auto json = parse_json(read_file(world.request.out / "result.json").value(), "bad_text", "result");
  REQUIRE(json);
  CHECK((*json)["shipped"].is_null());
  std::vector<std::string> phases;
  for (const auto& [name, spent] : (*json)["seconds"]["in"].items()) {
    phases.push_back(name);
    CHECK(spent.get<double>() >= 0);
  }
  CHECK(phases == std::vector<std::string>{"capture", "check", "prepare", "search"});

  const std::size_t measured = world.records().size();
  world.request.search_only = false;
  world.request.resume = true;
  world.evaluator.bandwidth_gbs = 103;  // measured again
  auto whole = world.run();
  REQUIRE(whole);
  CHECK(whole->outcome == "improved");
  // Its decisions followed bounds that follow from the rates that it began with.
  CHECK(whole->device.bandwidth_gbs == 100);
  CHECK(whole->regions.front().best_ms == searched->regions.front().best_ms);
  CHECK(whole->seconds_in.back().first == "claim");
  // Of regions nothing was measured again: what is new is the whole program.
  const auto records = world.records();
  for (std::size_t i = measured; i < records.size(); ++i) CHECK(records[i].region == "task");
}

TEST_CASE("a run whose evaluator died goes on with --resume and measures nothing twice") {
  World whole;
  REQUIRE(whole.run());
  World world;
  world.evaluator.gone_after = 6;
  auto broken = world.run();
  REQUIRE_FALSE(broken);
  CHECK(broken.error().kind.name() == "closed");
  CHECK(broken.error().hint.find("--resume run1") != std::string::npos);
  CHECK(world.kept().state == "failed");
  const auto before = world.evaluator.evaluated.size() - 1;
  world.evaluator.gone_after = 0;
  world.evaluator.evaluated.clear();
  world.request.resume = true;
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "improved");
  CHECK(world.shipper.shipped.back().program == whole.shipper.shipped.back().program);
  CHECK(world.evaluator.evaluated.size() <= whole.evaluator.evaluated.size() - before + 1);
  CHECK(world.kept().state == "finished");
}

TEST_CASE("a run is not resumed on another source") {
  World world;
  world.evaluator.gone_after = 3;
  REQUIRE_FALSE(world.run());
  world.evaluator.gone_after = 0;
  world.evaluator.source = "other";
  world.request.resume = true;
  auto result = world.run();
  REQUIRE_FALSE(result);
  CHECK(result.error().kind.name() == "task_changed");
}

TEST_CASE("every strategy improves the task, is recorded, and counts its funnel") {
  for (const auto kind : {search::StrategyKind::swarm, search::StrategyKind::tree, search::StrategyKind::random,
                          search::StrategyKind::sample, search::StrategyKind::hillclimb}) {
    World world;
    world.evaluator.regions = 2;
    world.request.strategy = kind;
    auto result = world.run();
    REQUIRE(result);
    CHECK(result->outcome == "improved");
    CHECK(result->searched.strategy == search::name(kind));
    CHECK(world.kept().settings.find(search::name(kind)) != std::string::npos);
    const auto& s = result->searched;
    CHECK(s.funnel.drawn >= s.funnel.legal);
    CHECK(s.funnel.legal >= 10);
    CHECK(s.funnel.legal >= s.compiled);
    CHECK(s.compiled >= s.tested);
    CHECK(s.tested >= s.timed);
    CHECK(s.timed > 10);
    auto json = parse_json(to_json(*result), "bad_text", "result");
    REQUIRE(json);
    CHECK((*json)["search"]["funnel"]["timed"] == s.timed);
  }
}

TEST_CASE("every evaluation says who proposed it, from what, and where it stands in the archive") {
  for (const auto kind : {search::StrategyKind::swarm, search::StrategyKind::hillclimb, search::StrategyKind::tree,
                          search::StrategyKind::random, search::StrategyKind::sample}) {
    World world;
    world.request.strategy = kind;
    REQUIRE(world.run());
    const auto rows = world.records();
    std::set<std::string> programs;
    std::int64_t last = 0;
    int children = 0, agents = 0, finals = 0;
    for (const auto& row : rows) {
      programs.insert(row.program);
      if (row.genome.empty()) {
        CHECK(row.asked == -1);
        CHECK(row.proposer.empty());
        continue;
      }
      CHECK(row.asked > last);
      last = row.asked;
      const search::Origin origin = search::origin_from_text(row.proposer);
      CHECK_FALSE(origin.by.empty());
      agents += origin.agent >= 0 && !origin.focus.empty() && origin.island >= 0 ? 1 : 0;
      finals += origin.by == "final" ? 1 : 0;
      CHECK((row.level == "full") == (origin.by == "final" || origin.by == "recheck"));
      if (row.parent.empty()) continue;
      ++children;
      CHECK(programs.contains(row.parent));
      CHECK(row.parent != row.program);
    }
    CHECK(finals > 0);
    CHECK((agents > 0) == (kind == search::StrategyKind::swarm));
    const bool parents = kind != search::StrategyKind::random && kind != search::StrategyKind::tree;
    CHECK((children > 0) == parents);
    const auto regions = store::Store::open_existing(world.store_path())->regions("run1").value();
    REQUIRE(regions.size() == 1);
    CHECK(regions.front().genes == "speed=1,2,3,4,5,6,7,8,9");
    CHECK(regions.front().searched);
    CHECK(regions.front().fallback_ms == 10);
    CHECK(regions.front().bound_ms == doctest::Approx(0.1));
  }
}

TEST_CASE("settings survive the store") {
  OptimizeRequest a;
  a.target = "cuda";
  a.accuracy = "tf32";
  a.budget = {12.5, 7};
  a.seed = 99;
  a.baselines = {"eager"};
  a.strategy = search::StrategyKind::tree;
  a.cold = true;
  a.draws = 1000000;
  OptimizeRequest b;
  REQUIRE(apply_settings(settings_text(a), b));
  CHECK(settings_text(b) == settings_text(a));
  CHECK(b.strategy == search::StrategyKind::tree);
  CHECK(b.cold);
  CHECK(b.draws == 1000000);
  // Runs of before there was a choice.
  OptimizeRequest old;
  REQUIRE(apply_settings(R"({"target": "cpu", "accuracy": "eager", "budget_seconds": 1, "evaluations": 0, "seed": 1,
                             "baselines": []})",
                         old));
  CHECK(old.strategy == search::StrategyKind::hillclimb);
  CHECK(old.cold);
  CHECK(apply_settings(R"({"target": "cpu", "accuracy": "eager", "budget_seconds": 1, "evaluations": 0, "seed": 1,
                           "baselines": [], "strategy": "magic"})",
                       old)
            .error()
            .kind.name() == "usage");
  CHECK(apply_settings("[]", b).error().kind.name() == "store_corrupt");
}

TEST_CASE("another way to cut the task is used where the whole is faster with it") {
  for (const bool faster : {true, false}) {
    World world;
    world.evaluator.regions = 2;
    world.planner.other_way = true;
    world.evaluator.way_ms = faster ? -10 : 10;  // r2 alone takes 1 ms, r0 and r1 together 2
    auto result = world.run();
    REQUIRE(result);
    CHECK(world.shipper.shipped.back().program == (faster ? "whole;way0;r2=9" : "whole;r0=9;r1=9"));
    REQUIRE(result->regions.size() == 3);
    CHECK(result->regions[2].used == faster);
    CHECK(result->regions[0].used != faster);
    REQUIRE(result->fusions.size() == 1);
    CHECK(result->fusions[0].used == faster);
    CHECK(result->fusions[0].before_ms == doctest::Approx(2));
    CHECK(result->fusions[0].after_ms == doctest::Approx(1));
    CHECK(std::ranges::count(world.evaluator.described, "r2") == 1);
    const auto json = parse_json(to_json(*result), "bad_text", "result");
    REQUIRE(json);
    CHECK((*json)["fusion_plans"][0]["by"][0]["region"] == "r2");
    CHECK(std::ranges::any_of(world.records(), [](const auto& r) { return r.proposer.starts_with("partition"); }));
    const auto report = report::load_report(*store::Store::open_existing(world.store_path()), world.kept());
    REQUIRE(report);
    REQUIRE(report->fusions.size() == 1);
    CHECK(report->fusions[0].replaces == "r0 + r1");
    CHECK(report->fusions[0].used == faster);
    CHECK(report::report_page(*report).find("Other ways to cut the task") != std::string::npos);
  }
}

TEST_CASE("a way that does not pass, or whose region cannot be set up, is left") {
  World wrong;
  wrong.evaluator.regions = 2;
  wrong.planner.other_way = true;
  wrong.evaluator.way_ms = -10;
  wrong.evaluator.wrong = {";way0"};
  auto result = wrong.run();
  REQUIRE(result);
  CHECK(wrong.shipper.shipped.back().program == "whole;r0=9;r1=9");
  CHECK_FALSE(result->fusions[0].used);

  World none;
  none.evaluator.regions = 2;
  none.planner.other_way = true;
  none.evaluator.no_region = {"r2"};
  result = none.run();
  REQUIRE(result);
  CHECK(none.shipper.shipped.back().program == "whole;r0=9;r1=9");
  CHECK(result->fusions[0].after_ms == 0);
  CHECK(result->outcome == "improved");
}

TEST_CASE("a baseline whose time varies too much is compared with nothing, and nothing is won against it") {
  World world;
  world.evaluator.spread["max_autotune_no_cudagraphs"] = 4;  // 3 to 11 ms
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "no_improvement");
  CHECK(result->reason.starts_with("too noisy"));
  CHECK_FALSE(result->speedup.contains("max_autotune_no_cudagraphs"));
  CHECK(result->too_noisy == std::vector<std::string>{"max_autotune_no_cudagraphs"});
  const auto json = parse_json(to_json(*result), "bad_text", "result");
  REQUIRE(json);
  CHECK((*json)["too_noisy"][0] == "max_autotune_no_cudagraphs");
  CHECK(to_text(*result).find("too noisy to be compared") != std::string::npos);
}

TEST_CASE("a wide interval that is slower throughout takes no gain away, and its near end is the gain") {
  World world;
  world.evaluator.shipped_ms = 2;
  world.evaluator.baseline_ms["eager"] = 1000;
  world.evaluator.spread["eager"] = 600;
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "improved");
  CHECK(result->speedup.at("eager") == result->gains.at("eager").lo);
  CHECK(result->speedup.at("eager") < 210);
  CHECK(result->too_noisy == std::vector<std::string>{"eager"});
  CHECK(result->speedup.contains("compile"));
  CHECK(to_text(*result).find("   at least ") != std::string::npos);
}

TEST_CASE("a program whose own time varies too much is claimed by its near end, if that gains a quarter") {
  World world;
  world.evaluator.shipped_ms = 2;
  world.evaluator.shipped_spread = 0.9;
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "improved");
  CHECK(result->speedup_best_baseline == result->gains.at(result->best_baseline).lo);
  CHECK(result->speedup_best_baseline < 0.75 * result->gains.at(result->best_baseline).ratio);
  CHECK(result->too_noisy == std::vector<std::string>{"shipped"});

  World near;
  near.evaluator.shipped_ms = 3.5;
  near.evaluator.shipped_spread = 2.4;
  result = near.run();
  REQUIRE(result);
  CHECK(result->outcome == "no_improvement");
  CHECK(result->reason.starts_with("too noisy"));
}

TEST_CASE("where PyTorch's own steps take longer than all of eager, the search is left out and it says so") {
  World world;
  world.planner.kept_steps = 51;
  world.evaluator.kept_ms = 15;
  auto result = world.run();
  REQUIRE(result);
  CHECK(result->outcome == "no_improvement");
  CHECK(result->reason.find("51 steps stay PyTorch's") != std::string::npos);
  CHECK(world.evaluator.claims.front().modes == std::vector<std::string>{"eager"});
  CHECK(world.evaluator.evaluated.size() == 4);  // the whole, the region's own PyTorch form, the whole twice more
  CHECK(result->reason.find("measured 3 times in turn") != std::string::npos);
  CHECK(world.shipper.shipped.back().baseline == "max_autotune");
  // Where it is close, or where nothing stays PyTorch's, there is hope.
  for (const int steps : {51, 0}) {
    World close;
    close.planner.kept_steps = steps;
    close.evaluator.kept_ms = steps == 0 ? 15 : 12.5;
    auto searched = close.run();
    REQUIRE(searched);
    CHECK(close.evaluator.evaluated.size() > 3);
  }
  // Where it only seemed so, because the machine did other work.
  World disturbed;
  disturbed.planner.kept_steps = 51;
  disturbed.evaluator.kept_ms = 9;
  disturbed.evaluator.disturbed_ms = 8;
  auto searched = disturbed.run();
  REQUIRE(searched);
  CHECK(searched->reason.find("cannot win") == std::string::npos);
  CHECK(disturbed.evaluator.evaluated.size() > 4);
  // Where times of one thing differ, its parts may well seem longer than the whole.
  World busy;
  busy.planner.kept_steps = 51;
  busy.evaluator.kept_ms = 15;
  busy.evaluator.disturbed_ms = 6;
  searched = busy.run();
  REQUIRE(searched);
  CHECK(searched->reason.find("cannot win") == std::string::npos);
  CHECK(busy.evaluator.evaluated.size() > 4);
}
