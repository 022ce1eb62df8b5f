#include "llm/open.h"

#include <doctest/doctest.h>

#include "base/file.h"
#include "fakes.h"
#include "loopback.h"

using namespace planish;
using namespace planish::llm;

TEST_CASE("a configuration opens to models that answer, and their recording answers without key and server") {
  auto folder = TempDir::create();
  REQUIRE(folder);
  ModelsConfig config;
  config.models.push_back(sample_config());
  config.models[0].key_env = "PLANISH_TEST_OPEN_KEY";
  OpenOptions options;
  options.seed = 3;
  options.record = folder->path() / "tape";
  options.keys = [](const std::string&) { return secret_text; };
  std::string said;
  std::int64_t spent = 0;
  {
    Loopback server([](const std::string&) { return Loopback::stream(openai_stream); });
    config.models[0].base_url = server.url();
    auto opened = open_models(config, options, real_clock());
    REQUIRE(opened);
    const auto choice = opened->ensemble->choose(Role::coder);
    const Outcome outcome = opened->ensemble->complete(*choice, sample_request(), {});
    REQUIRE(outcome.answer);
    said = outcome.answer->text;
    spent = opened->ledger->spent().nanodollars;
    CHECK(server.requests().at(0).find("uthorization: Bearer " + secret_text) != std::string::npos);
  }
  const auto tape = read_file(folder->path() / "tape" / "cassette.jsonl");
  REQUIRE(tape);
  CHECK(tape->find(secret_text) == std::string::npos);
  CHECK(tape->find("earer") == std::string::npos);
  options.replay = std::exchange(options.record, {});
  options.keys = [](const std::string&) { return std::nullopt; };
  auto again = open_models(config, options, real_clock());
  REQUIRE(again);
  const auto choice = again->ensemble->choose(Role::coder);
  const Outcome outcome = again->ensemble->complete(*choice, sample_request(), {});
  REQUIRE(outcome.answer);
  CHECK(outcome.answer->text == said);
  CHECK(again->ledger->spent().nanodollars == spent);
}

TEST_CASE("what cannot be opened is said") {
  ModelsConfig config;
  CHECK(open_models(config, {}, real_clock()).error().kind.name() == "no_models");
  config.models.push_back(sample_config());
  OpenOptions options;
  options.keys = [](const std::string&) { return std::nullopt; };
  CHECK(open_models(config, options, real_clock()).error().kind.name() == "no_model_key");
  options.replay = "/nowhere/tape";
  CHECK(open_models(config, options, real_clock()).error().kind.name() == "no_such_file");
  options.record = "/nowhere/other";
  CHECK(open_models(config, options, real_clock()).error().kind.name() == "usage");
}
