#include "llm/cassette.h"

#include <doctest/doctest.h>

#include <thread>

#include "base/file.h"
#include "fakes.h"
#include "llm/cassette_json.h"
#include "llm/retry.h"

using namespace planish;
using namespace planish::llm;

namespace {

/// Everything that a caller sees of some calls, as text.
std::string transcript(Provider& provider) {
  std::string out;
  for (int i = 0; i < 6; ++i) {
    ChatRequest request = sample_request(i % 3 == 0 ? "again" : "question " + std::to_string(i));
    if (i == 4) request.output = OutputSchema{"x", R"({"type":"object"})"};
    std::vector<CallEvent> events;
    Call call;
    call.listener = [&](const CallEvent& event) { events.push_back(event); };
    out += outcome_text(events, provider.complete(request, call)) + "\n";
  }
  return out;
}

std::filesystem::path record(const TempDir& folder, std::string& said, Amount& spent) {
  int number = 0;
  World world([&](const HttpRequest&) -> Result<HttpReply> {
    ++number;
    if (number == 2) return HttpReply{429, {{"retry-after", "3"}}, "{}"};
    if (number == 4) return HttpReply{401, {}, R"({"error":{"message":"no, )" + secret_text + R"("}})"};
    if (number == 5) return fail("model_cut", "cut");
    return HttpReply{200,
                     {},
                     number % 2 == 0 ? openai_stream
                                     : R"({"model":"m","choices":[{"message":{"content":"n. )" +
                                           std::to_string(number) + R"( ü \u0000"},"finish_reason":"stop"}]})"};
  });
  auto writer = CassetteWriter::create(folder.path() / "tape", {Secret(secret_text)});
  REQUIRE(writer);
  auto inner = std::make_shared<RetryingProvider>(world.provider, RetryPolicy{}, world.clock, 1);
  said = transcript(*recording(inner, std::shared_ptr(std::move(*writer))));
  spent = world.ledger.spent();
  return folder.path() / "tape";
}

}  // namespace

TEST_CASE("a recording gives back every bit: texts, failures, waits and costs") {
  auto folder = TempDir::create();
  REQUIRE(folder);
  std::string said;
  Amount spent;
  const auto tape = record(*folder, said, spent);
  auto reader = CassetteReader::open(tape);
  REQUIRE(reader);
  Ledger ledger({});
  auto again = replaying(sample_config(), std::shared_ptr(std::move(*reader)), ledger);
  CHECK(transcript(*again) == said);
  CHECK(said.find("waiting") != std::string::npos);
  CHECK(said.find("model_unauthorized") != std::string::npos);
  CHECK(ledger.spent().tokens == spent.tokens);
  CHECK(ledger.spent().nanodollars == spent.nanodollars);
}

TEST_CASE("what was not recorded is a miss, and says why that may be") {
  auto folder = TempDir::create();
  std::string said;
  Amount spent;
  const auto tape = record(*folder, said, spent);
  auto reader = CassetteReader::open(tape);
  REQUIRE(reader);
  Ledger ledger({});
  auto again = replaying(sample_config(), std::shared_ptr(std::move(*reader)), ledger);
  const auto other = again->complete(sample_request("never asked"), {});
  CHECK(other.error().error.kind.name() == "cassette_miss");
  for (int i = 0; i < 2; ++i) (void)again->complete(sample_request("again"), {});
  CHECK(again->complete(sample_request("again"), {}).error().error.hint.find("more often") != std::string::npos);
  ChatRequest lane = sample_request("again");
  lane.lane = "agent 9";
  CHECK(again->complete(lane, {}).error().error.kind.name() == "cassette_miss");
}

TEST_CASE("seats that ask at once get their own answers back") {
  auto folder = TempDir::create();
  std::atomic<int> number = 0;
  World world([&](const HttpRequest&) {
    return HttpReply{
        200,
        {},
        R"({"choices":[{"message":{"content":")" + std::to_string(++number) + R"("},"finish_reason":"stop"}]})"};
  });
  auto writer = CassetteWriter::create(folder->path() / "tape", {});
  REQUIRE(writer);
  const auto swarm = [&](const std::shared_ptr<Provider>& provider) {
    std::vector<std::string> said(32);
    std::vector<std::thread> seats;
    for (std::size_t seat = 0; seat < said.size(); ++seat) {
      seats.emplace_back([&, seat] {
        ChatRequest request = sample_request("the same for all");
        request.lane = "agent " + std::to_string(seat);
        for (int i = 0; i < 5; ++i) {
          const auto answer = provider->complete(request, {});
          said[seat] += answer ? answer->text + " " : answer.error().error.message;
        }
      });
    }
    for (std::thread& seat : seats) seat.join();
    return said;
  };
  const auto first = swarm(recording(world.provider, std::shared_ptr(std::move(*writer))));
  auto reader = CassetteReader::open(folder->path() / "tape");
  REQUIRE(reader);
  CHECK((*reader)->entries() == 160);
  Ledger ledger({});
  CHECK(swarm(replaying(sample_config(), std::shared_ptr(std::move(*reader)), ledger)) == first);
}

TEST_CASE("recordings that are broken, foreign or in the way are told apart") {
  auto folder = TempDir::create();
  std::string said;
  Amount spent;
  const auto tape = record(*folder, said, spent);
  CHECK(CassetteWriter::create(tape, {}).error().kind.name() == "cassette_exists");
  CHECK(CassetteReader::open(folder->path() / "none").error().kind.name() == "no_such_file");
  const std::string text = *read_file(tape / "cassette.jsonl");
  const auto opened = [&](const std::string& content) {
    REQUIRE(write_file(folder->path() / "other" / "cassette.jsonl", content));
    return CassetteReader::open(folder->path() / "other");
  };
  // A kill in the middle of the last line loses that line alone.
  const auto cut = opened(text.substr(0, text.size() - 20));
  REQUIRE(cut);
  CHECK((*cut)->entries() == 5);
  CHECK(opened("").error().kind.name() == "cassette_corrupt");
  CHECK(opened("{\"planish_cassette\":99}\n").error().kind.name() == "cassette_version");
  CHECK(opened("{\"something\":1}\n").error().kind.name() == "cassette_corrupt");
  const auto broken = opened(text.substr(0, 25) + "#" + text.substr(25));
  REQUIRE(!broken);
  CHECK(broken.error().kind.name() == "cassette_corrupt");
  CHECK(broken.error().message.find("line 2") != std::string::npos);
  const auto second = text.substr(text.find('\n') + 1);
  CHECK(opened(text + second.substr(0, second.find('\n') + 1)).error().message.find("twice") != std::string::npos);
}
