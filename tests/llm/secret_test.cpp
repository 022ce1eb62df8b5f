// Keys stay where they belong.
#include <doctest/doctest.h>

#include "base/file.h"
#include "base/hidden_environment.h"
#include "base/subprocess.h"
#include "fakes.h"
#include "llm/cassette.h"
#include "llm/config.h"

using namespace planish;
using namespace planish::llm;

TEST_CASE("a key is taken out whole, in part and at the edges") {
  const Secret key(secret_text);
  CHECK(redact("Incorrect key " + secret_text + ".", key) == "Incorrect key [key].");
  CHECK(redact(secret_text + secret_text, key) == "[key]");
  CHECK(redact("sk-test-0123***klmnop", key) == "[key]***klmnop");
  CHECK(redact("nothing here", key) == "nothing here");
  CHECK(redact("key abc", Secret("abc")) == "key [key]");
  CHECK(redact("kept", Secret()) == "kept");
}

TEST_CASE("a server that echoes the key says it to nobody") {
  for (const int status : {200, 400, 401, 500}) {
    const std::string echo = "\\u0022Bearer " + secret_text;
    const std::string body =
        status == 200
            ? R"({"model":")" + secret_text + R"(","choices":[{"message":{"content":")" + echo +
                  R"(","tool_calls":[{"id":"x","function":{"name":"f","arguments":")" + secret_text +
                  R"("}}]},"finish_reason":"stop"}]})"
            : R"({"error":{"message":"Incorrect API key provided: )" + echo + R"(","type":")" + secret_text + R"("}})";
    World world([&](const HttpRequest&) { return HttpReply{status, {{"x-key", secret_text}}, body}; });
    std::string seen;
    Call call;
    call.listener = [&](const CallEvent& event) { seen += event.text; };
    const auto answer = world.provider->complete(sample_request(), call);
    CHECK(world.transport.sent[0].headers.back().second == "Bearer " + secret_text);
    CHECK(world.transport.sent[0].body.find(secret_text) == std::string::npos);
    if (answer) {
      seen += answer->text + answer->model + answer->calls.at(0).arguments;
    } else {
      seen += answer.error().error.message + answer.error().error.hint;
      for (const auto& cause : answer.error().error.causes) seen += cause;
    }
    CAPTURE(seen);
    CHECK(seen.find("0123456789abcdef") == std::string::npos);
    CHECK(seen.find("[key]") != std::string::npos);
  }
}

TEST_CASE("a recording holds no key, even where a provider let one through") {
  auto folder = TempDir::create();
  REQUIRE(folder);
  struct Leaky : Provider {
    ModelConfig settings = sample_config();
    Answer complete(const ChatRequest&, const Call& call) override {
      call.tell({CallEvent::Kind::waiting, "first", secret_text, 1, {}});
      return std::unexpected(
          Failure{{"model_rejected", "echo " + secret_text, {secret_text}, {}}, false, false, false, {}});
    }
    const ModelConfig& config() const override { return settings; }
  };
  auto writer = CassetteWriter::create(folder->path(), {Secret(secret_text)});
  REQUIRE(writer);
  (void)recording(std::make_shared<Leaky>(), std::shared_ptr(std::move(*writer)))
      ->complete(sample_request(secret_text), {});
  const auto text = read_file(folder->path() / "cassette.jsonl");
  REQUIRE(text);
  CHECK(text->find("[key]") != std::string::npos);
  CHECK(text->find("0123456789abcdef") == std::string::npos);
  CHECK(CassetteReader::open(folder->path()).has_value());
}

TEST_CASE("children do not get the variables that hold keys") {
  ::setenv("PLANISH_TEST_MODEL_KEY", "open sesame", 1);
  ModelsConfig config;
  config.models.push_back(sample_config());
  config.models[0].key_env = "PLANISH_TEST_MODEL_KEY";
  hide_keys(config);
  SpawnOptions options;
  options.command = {"/usr/bin/env"};
  options.env = {{"PLANISH_TEST_MODEL_KEY", "again"}, {"OTHER", "kept"}};
  const auto out = run_command(options, 60);
  REQUIRE(out);
  CHECK(out->output.find("PLANISH_TEST_MODEL_KEY") == std::string::npos);
  CHECK(out->output.find("OTHER=kept") != std::string::npos);
  CHECK(hidden_value("PLANISH_TEST_MODEL_KEY") == "open sesame");
  CHECK(std::getenv("PLANISH_TEST_MODEL_KEY") == nullptr);
  hide_keys(config);  // again, as a second reader of the same file does
  CHECK(hidden_value("PLANISH_TEST_MODEL_KEY") == "open sesame");
  CHECK(!hidden_value("OTHER"));
}

TEST_CASE("keys that are missing or cannot be sent are errors that do not show them") {
  const ModelConfig config = sample_config();
  const auto missing = read_key(config, [](const std::string&) { return std::nullopt; });
  CHECK(missing.error().kind.name() == "no_model_key");
  CHECK(missing.error().message.find("SAMPLE_KEY") != std::string::npos);
  const auto broken = read_key(config, [](const std::string&) { return "sekrit\r\nX-Evil: 1"; });
  CHECK(broken.error().kind.name() == "bad_model_key");
  CHECK(broken.error().message.find("sekrit") == std::string::npos);
  ModelConfig open = config;
  open.key_env.clear();
  CHECK(read_key(open, [](const std::string&) { return "x"; })->empty());
}
