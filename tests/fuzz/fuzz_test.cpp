// Seeded fuzzing of what reads bytes of others: the program and graph parsers, the runtime's own, and the wire's
// readers. Under `make sanitize` the same, with more cases and with ASan and UBSan watching.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "document.h"
#include "evaluate/codec.h"
#include "evaluate/json.h"
#include "fuzz/mutate.h"
#include "ir/graph.h"
#include "ir/graph_sample.h"
#include "program/program.h"
#include "worker/replies.h"

using fuzz::Json;
using fuzz::Random;

namespace {

const Json program_document = Json::parse(R"J({
  "schema": "planish.program/1", "target": "cuda", "arch": "sm_90a",
  "buffers": [
    {"role": "input", "source": {"kind": "user", "index": 0}, "dtype": "f32", "shape": [8, 4], "strides": [4, 1]},
    {"role": "param", "source": {"kind": "param", "name": "w"}, "dtype": "f32", "shape": [4, 4], "strides": [4, 1]},
    {"role": "const", "source": {"kind": "const", "blob": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}, "dtype": "bf16", "shape": [4], "strides": [1]},
    {"role": "temp", "dtype": "f32", "shape": [8, 4], "strides": [4, 1]},
    {"role": "output", "dtype": "f32", "shape": [8, 4], "strides": [4, 1]},
    {"role": "output", "dtype": "f32", "shape": [8, 4], "strides": [4, 1]}],
  "kernels": [{"language": "cuda", "entry": "k0", "flags": ["--fmad=true"], "source": "extern \"C\" __global__ void k0() {}"}],
  "steps": [
    {"kind": "aten", "op": "aten.mm.default", "args": [{"name": "self", "buffer": 0}, {"name": "mat2", "buffer": 1}], "outs": [3]},
    {"kind": "set", "buffer": 4, "value": "0x0p+0"},
    {"kind": "copy", "from": 3, "to": 5},
    {"kind": "launch", "kernel": 0, "grid": [8, 1, 1], "block": [256, 1, 1], "cluster": [2, 1, 1], "shared": 64, "cooperative": true,
     "args": [{"buffer": 3}, {"buffer": 4}, {"i64": 4096}, {"i32": -7}, {"f32": "0x1.8p+0"}, {"f64": "-inf"}]}],
  "outputs": [{"buffer": 4, "kind": "user"}, {"buffer": 5, "kind": "user"}, {"kind": "scalar", "arg": {"int": 3}}]
})J");

const Json graph_document = Json::parse(planish::samples::graph_document);

std::string at(std::uint64_t seed) {
  return "PLANISH_FUZZ_SEED=" + std::to_string(seed) + " PLANISH_FUZZ_CASES=1";
}

/// Calls `try_one(random)` for each seed; every parser takes or refuses what comes, and says why by a kind.
void for_each_case(int usual, const std::function<void(Random&)>& try_one) {
  for (std::uint64_t seed = fuzz::first_seed(), end = seed + static_cast<std::uint64_t>(fuzz::cases(usual)); seed < end;
       ++seed) {
    Random random(seed);
    const std::string where = at(seed);
    CAPTURE(where);
    try_one(random);
  }
}

/// A reader of the wire that is never content with less than a document, and a good one of its kind.
struct Reader {
  std::string name;
  Json good;
  std::function<planish::Status(const Json&)> read;
};

template <typename T>
planish::Status status_of(const planish::Result<T>& result) {
  if (result.has_value()) return {};
  return std::unexpected(result.error());
}

template <typename Message>
Reader evaluators(std::string name, const Message& message) {
  return {
      std::move(name), planish::codec::write(message), [](const Json& json) {
        Message read;
        planish::Status status = planish::codec::read(json, read);
        // What was understood can be said again, and is then understood as the same.
        if (status.has_value()) {
          Message again;
          const Json said = planish::codec::write(read);
          CHECK(planish::codec::read(said, again).has_value());
          CHECK(planish::dump_json(planish::codec::write(again)) == planish::dump_json(said));  // NaN is itself here
        }
        return status;
      }};
}

std::vector<Reader> readers() {
  using namespace planish;
  const Json errors = {{"fro", 1e-7},
                       {"max", 2e-7},
                       {"gate_fro", 1e-6},
                       {"gate_max", 1e-6},
                       {"eager_fro", 1e-7},
                       {"eager_max", "inf"},
                       {"worst", {{"index", {3, 17}}, {"expected", 0.1}, {"actual", nullptr}, {"eager", 0.1}}}};
  const Json evaluation = {
      {"schema", "planish.evaluation/1"},
      {"program", "00"},
      {"region", "r0"},
      {"level", "screen"},
      {"tier", "bench"},
      {"outcome", "ok"},
      {"message", ""},
      {"compile",
       {{"seconds", 0.1},
        {"cached", false},
        {"log", ""},
        {"kernels",
         {{{"sha256", "00"},
           {"registers", 40},
           {"spill_bytes", 0},
           {"shared_bytes", 0},
           {"local_bytes", 0},
           {"instructions", {{"global", 12}}}}}},
        {"launches",
         {{{"kernel", 0}, {"blocks", 4096}, {"threads", 256}, {"cluster", 1}, {"shared_bytes", 0}, {"waves", 3.9}}}}}},
      {"test",
       {{"seconds", 0.2},
        {"cases", {{{"seed", 1U}, {"regime", "task"}, {"ok", true}, {"reference", "fp64"}, {"outputs", {errors}}}}},
        {"skipped", {{"wide", "why"}}}}},
      {"bench",
       {{"median_ms", 1.0},
        {"lo_ms", 1.0},
        {"hi_ms", 1.0},
        {"runs", 40},
        {"host_us", 4.1},
        {"wall_ms", 1.1},
        {"samples_ms", {1.0}},
        {"clocks_before", {{"sm_mhz", 1980}, {"mem_mhz", 3201}}},
        {"clocks_after", Json::object()}}},
      {"roofline", {{"bytes", 8589934592}, {"flops", 0}, {"bound_ms", 2.0}, {"bound", "memory"}, {"fraction", 0.95}}}};
  VerifyReply verified;
  verified.cases.push_back({});
  DeviceFacts device;
  device.target = "cpu";
  ClaimReply claim;
  return {
      {"hello",
       {{"kind", "oracle"},
        {"torch", "2"},
        {"python", "3"},
        {"device",
         {{"kind", "cpu"},
          {"name", "a"},
          {"arch", "x"},
          {"uuid", "u"},
          {"sms", 4},
          {"l2_bytes", 1},
          {"shared_bytes_optin", 2},
          {"memory", 3},
          {"cores", 2}}}},
       [](const Json& json) { return status_of(worker::read_hello(json)); }},
      {"check",
       {{"ok", true}, {"problem", ""}, {"reference", "fp64"}, {"message", ""}, {"outputs", {errors}}},
       [](const Json& json) { return status_of(worker::read_check(json)); }},
      {"time",
       {{"samples_ms", {1.0, 1.1}},
        {"median_ms", 1.0},
        {"lo_ms", 1.0},
        {"hi_ms", 1.1},
        {"host_us", 3.0},
        {"latency_ms", 1.0}},
       [](const Json& json) { return status_of(worker::read_timing(json)); }},
      {"regimes",
       {{"regimes", {"task", "wide"}}, {"skipped", {{"special", "why"}}}},
       [](const Json& json) { return status_of(worker::read_regimes(json)); }},
      {"evaluation", evaluation,
       [](const Json& json) {
         const auto read = read_evaluation(json);
         if (read.has_value()) {
           const Json said = evaluation_to_json(*read);
           const auto again = read_evaluation(said);
           REQUIRE(again.has_value());
           CHECK(dump_json(evaluation_to_json(*again)) == dump_json(said));
         }
         return status_of(read);
       }},
      evaluators("open request", OpenRequest{}),
      evaluators("region request", RegionRequest{}),
      evaluators("evaluate request", EvaluateRequest{}),
      evaluators("verify request", VerifyRequest{}),
      evaluators("claim request", ClaimRequest{}),
      evaluators("region reply", RegionReply{}),
      evaluators("verify reply", verified),
      evaluators("claim reply", claim),
      evaluators("device", device),
  };
}

}  // namespace

TEST_CASE("what a program parser takes survives the round trip, and the runtime takes it too") {
  REQUIRE_MESSAGE(planish::program::parse(program_document.dump()).has_value(),
                  planish::program::parse(program_document.dump()).error().message);
  int taken = 0, refused = 0;
  for_each_case(4000, [&](Random& random) {
    const std::string text = fuzz::mutated_text(program_document, random);
    const auto program = planish::program::parse(text);
    if (!program.has_value()) {
      ++refused;
      CHECK(program.error().kind.name() == "bad_program");
      CHECK_FALSE(program.error().message.empty());
      return;
    }
    ++taken;
    const std::string said = planish::program::to_json(*program);
    const auto again = planish::program::parse(said);
    REQUIRE(again.has_value());
    CHECK(planish::program::to_json(*again) == said);
    CHECK(planish::program::hash(*again) == planish::program::hash(*program));
    CHECK_FALSE(planish::program::normalised_hash(*program).empty());
    const auto loaded = planish::rt::parse_document(said);
    CHECK_MESSAGE(loaded.has_value(), said << "\n" << (loaded.has_value() ? "" : loaded.error().message));
  });
  if (fuzz::cases(4000) >= 1000)
    CHECK((taken > 20 && refused > 500));  // it is the parser that is tried, not its first line
}

TEST_CASE("the runtime's own parser refuses or takes what a shipped folder may hold") {
  int taken = 0, refused = 0;
  for_each_case(4000, [&](Random& random) {
    const auto document = planish::rt::parse_document(fuzz::mutated_text(program_document, random));
    (document.has_value() ? taken : refused) += 1;
    if (!document.has_value()) CHECK(document.error().kind == "bad_program");
    if (!document.has_value()) return;
    for (const auto& step : document->steps)
      for (const int touched : step.touches)
        CHECK((touched >= 0 && touched < static_cast<int>(document->buffers.size())));
    for (const auto& buffer : document->buffers) CHECK(buffer.bytes() >= 0);
  });
  if (fuzz::cases(4000) >= 1000) CHECK((taken > 20 && refused > 500));
}

TEST_CASE("the graph parser refuses or takes what a capture may say") {
  REQUIRE_MESSAGE(planish::ir::parse_graph(graph_document.dump()).has_value(),
                  planish::ir::parse_graph(graph_document.dump()).error().message);
  int taken = 0, refused = 0;
  for_each_case(3000, [&](Random& random) {
    const auto graph = planish::ir::parse_graph(fuzz::mutated_text(graph_document, random));
    (graph.has_value() ? taken : refused) += 1;
    if (!graph.has_value()) CHECK_FALSE(graph.error().message.empty());
  });
  if (fuzz::cases(3000) >= 1000) CHECK((taken > 20 && refused > 500));
}

TEST_CASE("readers of the wire refuse or take what a peer may say") {
  for (const Reader& reader : readers()) {
    CAPTURE(reader.name);
    const auto good = reader.read(reader.good);
    REQUIRE_MESSAGE(good.has_value(), good.error().message);
    int refused = 0;
    for_each_case(400, [&](Random& random) {
      const auto json = planish::parse_json(fuzz::mutated_text(reader.good, random), "protocol", "message");
      const auto status = json.has_value() ? reader.read(*json) : status_of(json);
      if (status.has_value()) return;
      ++refused;
      CHECK(status.error().kind.name() != "unknown");
      CHECK_FALSE(status.error().message.empty());
    });
    if (fuzz::cases(400) >= 400) CHECK(refused > 40);
  }
}

TEST_CASE("brackets without end are refused, not followed") {
  for (const char* one : {"[", "{\"a\":", "{\"buffers\":["}) {
    std::string text;
    for (int i = 0; i < 200000; ++i) text += one;
    CHECK_FALSE(planish::program::parse(text).has_value());
    CHECK_FALSE(planish::ir::parse_graph(text).has_value());
    CHECK_FALSE(planish::rt::parse_document(text).has_value());
  }
  // As above, closed again, where a message would print the value.
  std::string deep =
      R"({"schema": "planish.program/1", "target": "cpu", "arch": "x", "buffers": [], "kernels": [], "steps": [{"kind": "copy", "to": 0, "from": )";
  deep += std::string(200000, '[') + std::string(200000, ']') + "}]}";
  CHECK_FALSE(planish::rt::parse_document(deep).has_value());
}
