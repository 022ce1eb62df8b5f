#include "llm/config.h"

#include <doctest/doctest.h>

#include "base/file.h"

using namespace planish;
using namespace planish::llm;

namespace {

const std::string minimal = "[[model]]\nname = \"m\"\nbase_url = \"http://localhost:8000/v1/\"\n";

std::string whole(const Error& error) {
  return std::string(error.kind.name()) + " " + error.message + " " + error.hint;
}

}  // namespace

TEST_CASE("a model needs a name and an address; the rest has defaults") {
  const auto config = parse_models(minimal, "planish.toml");
  REQUIRE(config);
  REQUIRE(config->models.size() == 1);
  CHECK(config->models[0].base_url == "http://localhost:8000/v1");
  CHECK(config->models[0].label == "m");
  CHECK(config->models[0].roles.size() == 3);
  CHECK(!config->spending.tokens);
}

TEST_CASE("everything that can be set is read") {
  const auto config = parse_models(R"([optimize]
budget = "60s"
[spending]
dollars = 5.0
tokens = 2_000_000
[[model]]
name = "claude"
label = "thinker"
wire = "anthropic"
base_url = "https://api.anthropic.com"
key_env = "ANTHROPIC_API_KEY"
role = ["coder", "judge"]
temperature = 0.5
effort = "low"
reasoning = true
structured = "tool"
max_output_tokens = 4096
parallel = 4
timeout = 120
first_byte = 60
stall = 20.5
price = { input = 3, output = 15.0, cached = 0.3 }
)",
                                   "planish.toml");
  REQUIRE(config);
  const ModelConfig& model = config->models.at(0);
  CHECK(model.label == "thinker");
  CHECK(model.wire == WireKind::anthropic);
  CHECK(model.roles == std::vector{Role::coder, Role::judge});
  CHECK(*model.temperature == 0.5);
  CHECK(model.structured == Structured::tool);
  CHECK(model.stall_seconds == 20.5);
  CHECK(model.price->cache_write == 3.75);
  CHECK(*config->spending.nanodollars == 5'000'000'000);
  CHECK(nanodollars(*model.price, Usage{1'000'000, 0, 0, 0, 0, true}) == 3'000'000'000);
}

TEST_CASE("what is wrong is named, with its place") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[[model]]\nbase_url = \"http://a/v1\"\n", "`name` is missing"},
      {"[[model]]\nname = \"m\"\n", "`base_url` is missing"},
      {"[[model]]\nname = \"m\"\nbase_url = \"localhost\"\n", "http://"},
      {"[[model]]\nname = \"m\"\nbase_url = \"http://\"\n", "host"},
      {minimal + "wire = \"grpc\"\n", "`wire`"},
      {minimal + "role = \"poet\"\n", "planner, coder and judge"},
      {minimal + "temperature = 3.0\n", "`temperature`"},
      {minimal + "temperature = \"hot\"\n", "`temperature`"},
      {minimal + "temperatur = 0.5\n", "did you mean 'temperature'"},
      {minimal + "max_output_tokens = 1.5\n", "whole number"},
      {minimal + "parallel = 0\n", "`parallel`"},
      {minimal + "timeout = 0\n", "`timeout`"},
      {minimal + "structured = \"xml\"\n", "`structured`"},
      {minimal + "price = 3\n", "must be a table"},
      {minimal + "price = { input = 3 }\n", "`input` and `output`"},
      {minimal + "price = { input = -3, output = 1 }\n", "`input`"},
      {minimal + minimal, "label 'm' is taken"},
      {"[model]\nname = \"m\"\n", "[[model]]"},
      {"model = 3\n", "[[model]]"},
      {minimal + "name = \n", "not TOML at line 4"},
      {minimal + "[spending]\ndollars = 1.0\n", "has no price"},
      {minimal + "[spending]\ntokens = -1\n", "`tokens`"},
      {minimal + "[spending]\neuros = 1\n", "no field `euros`"},
      {"spending = 3\n" + minimal, "[spending]"},
  };
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    const auto config = parse_models(text, "planish.toml");
    REQUIRE(!config);
    CHECK(config.error().kind.name() == "models_config");
    CAPTURE(whole(config.error()));
    CHECK(whole(config.error()).find(expected) != std::string::npos);
    CHECK(whole(config.error()).find("planish.toml") != std::string::npos);
  }
}

TEST_CASE("a key in the file is refused, and not repeated") {
  for (const std::string& line :
       {std::string("key_env = \"sk-abcdefgh12345678\""), std::string("api_key = \"sk-abcdefgh12345678\""),
        std::string("base_url = \"http://user:sk-abcdefgh12345678@host/v1\""),
        std::string("base_url = \"http://host/v1?key=sk-abcdefgh12345678\"")}) {
    CAPTURE(line);
    const auto config = parse_models(
        "[[model]]\nname = \"m\"\n" + line + (line.starts_with("base") ? "\n" : "\nbase_url = \"http://h\"\n"),
        "planish.toml");
    REQUIRE(!config);
    CHECK(whole(config.error()).find("abcdefgh") == std::string::npos);
  }
}

TEST_CASE("files without models are nobody's business here") {
  CHECK(parse_models("", "planish.toml")->models.empty());
  CHECK(parse_models("[optimize]\ntarget = 'cpu'\n", "planish.toml")->models.empty());
  CHECK(read_models("/nowhere/planish.toml")->models.empty());
}

TEST_CASE("the examples of the guide are read") {
  const auto guide = read_file(std::string(PLANISH_SOURCE_DIR) + "/docs/models.md");
  REQUIRE(guide);
  std::size_t at = 0, models = 0;
  while ((at = guide->find("```toml\n", at)) != std::string::npos) {
    at += 8;
    const auto config = parse_models(guide->substr(at, guide->find("```", at) - at), "planish.toml");
    CAPTURE(guide->substr(at, 80));
    REQUIRE(config);
    models += config->models.size();
  }
  CHECK(models >= 3);
}
