#include "patterns/words.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace planish::patterns;

namespace {
bool has(const std::vector<std::string>& all, const char* word) {
  return std::ranges::find(all, word) != all.end();
}
}  // namespace

TEST_CASE("identifiers, prose and synonyms meet in one spelling") {
  const auto code = words("CollectiveMmaSm90TmaGmmaWarpSpecializedPingpong");
  CHECK(has(code, "sm90"));
  CHECK(has(code, "warpspecialized"));
  CHECK(has(code, "pingpong"));
  CHECK(has(words("Hopper, warp-specialised"), "sm90"));
  CHECK(has(words("warp-specialised"), "warpspecialized"));
  CHECK(words("sm_90a") == std::vector<std::string>{"sm90"});
  CHECK(words("stream-K") == words("StreamK"));
  CHECK(words("matmul") == words("gemm"));
  CHECK(words("scaled") == words("scaling"));
  CHECK(words("TMALoad") == words("tma load"));
  CHECK(words("rms norm") == words("RMSNorm"));
  CHECK(has(words("layer_norm_bwd"), "backward"));
}

TEST_CASE("any bytes give words, and never more than asked for") {
  CHECK(words("").empty());
  CHECK(words("\xff\xfe\x01 \"' OR 1=1; -- ( ) * NEAR").size() <= 8);
  CHECK(words(std::string(1 << 20, 'a')).empty());  // one word of a million letters is none
  std::string many;
  for (int i = 0; i < 10000; ++i) many += "w" + std::to_string(i) + " ";
  CHECK(words(many, 100).size() == 100);
}

TEST_CASE("words say facts") {
  const Facts facts =
      recognise(words("fp8 e4m3 grouped matmul on H100, 128x256x64 tiles, cluster 2x1x1, bias and gelu"));
  CHECK(has_fact(facts, "operation", "gemm"));
  CHECK(has_fact(facts, "variant", "grouped"));
  CHECK(has_fact(facts, "dtype", "e4m3"));
  CHECK(has_fact(facts, "dtype", "fp8"));
  CHECK(has_fact(facts, "arch", "90"));
  CHECK(has_fact(facts, "tile", "128x256x64"));
  CHECK(has_fact(facts, "cluster", "2x1x1"));
  CHECK(has_fact(facts, "epilogue", "bias"));
  CHECK(has_fact(facts, "epilogue", "gelu"));
  CHECK(recognise(words("the quick brown fox")).empty());
  CHECK(recognise(words("x 1x 1x2x3x4x5 99999999999x1x1")).empty());
}

TEST_CASE("facts keep their values sorted and once") {
  Facts facts;
  for (const char* value : {"b", "a", "b", ""}) add_fact(facts, "dtype", value);
  CHECK(text(facts) == "dtype=a,b");
  Facts more{{"arch", {"90"}}, {"dtype", {"c"}}};
  add_facts(facts, more);
  CHECK(text(facts) == "arch=90 dtype=a,b,c");
  CHECK(weight_of("operation") != nullptr);
  CHECK(weight_of("tunable") == nullptr);
}
