#include "document.h"

#include <bit>
#include <cmath>
#include <functional>

#include "runs.h"
#include "support.h"

using namespace planish::rt;
using runtime_test::Json;

namespace {
Json good() {
  return runtime_test::program(
      {runtime_test::buffer("input", {4, 8}), runtime_test::buffer("output", {4, 8}),
       runtime_test::buffer("temp", {4, 8}, "i64")},
      {runtime_test::launch(
           0,
           {{{"buffer", 0}}, {{"buffer", 1}}, {{"i64", 32}}, {{"i32", -1}}, {{"f32", "0x1.8p+1"}}, {{"f64", "inf"}}}),
       {{"kind", "set"}, {"buffer", 2}, {"value", "-0x1p+0"}}});
}
std::string encode(const char* dtype, double value) {
  std::array<unsigned char, 8> out;
  if (!encode_element(dtype, value, &out)) return "refused";
  char text[20];
  std::snprintf(text, sizeof text, "%016lx", static_cast<unsigned long>(std::bit_cast<std::uint64_t>(out)));
  return text;
}
}  // namespace

TEST_CASE("a good document is read in full") {
  const auto doc = parse_document(good().dump());
  REQUIRE(doc.has_value());
  CHECK(doc->buffers[0].bytes() == 128);
  CHECK(doc->steps[0].args.size() == 6);
  CHECK(doc->steps[0].args[3].size == 4);
  float f = 0;
  std::memcpy(&f, doc->steps[0].args[4].value.data(), 4);
  CHECK(f == 3.0f);
  CHECK(doc->steps[1].pattern[7] == 0xff);
}

TEST_CASE("each broken document is refused by name of the place") {
  const std::pair<const char*, std::function<void(Json&)>> cases[] = {
      {"schema", [](Json& j) { j["schema"] = "planish.program/2"; }},
      {"target", [](Json& j) { j["target"] = "tpu"; }},
      {"buffers[0]", [](Json& j) { j["buffers"][0]["role"] = "scratch"; }},
      {"buffers[1]", [](Json& j) { j["buffers"][1]["strides"] = {1}; }},
      {"buffers[1]", [](Json& j) { j["buffers"][1]["shape"] = {4, -8}; }},
      {"overflows", [](Json& j) { j["buffers"][1]["shape"] = {INT64_MAX, INT64_MAX}; }},
      {"kernels[0]", [](Json& j) { j["kernels"][0]["language"] = "cuda"; }},
      {"`kernel`", [](Json& j) { j["steps"][0]["kernel"] = 1; }},
      {"grid", [](Json& j) { j["steps"][0]["grid"] = {2, 1, 1}; }},
      {"grid", [](Json& j) { j["steps"][0]["grid"] = {0, 1, 1}; }},
      {"args[0]", [](Json& j) { j["steps"][0]["args"][0]["buffer"] = 3; }},
      {"args[3]", [](Json& j) { j["steps"][0]["args"][3] = {{"i32", 3000000000}}; }},
      {"args[4]", [](Json& j) { j["steps"][0]["args"][4] = {{"f32", "1.5"}}; }},
      {"args[4]", [](Json& j) { j["steps"][0]["args"][4] = {{"f32", "0x1p+0"}, {"f64", "0x1p+0"}}; }},
      {"kind", [](Json& j) { j["steps"][0]["kind"] = "library"; }},
      {"only read", [](Json& j) { j["steps"][1]["buffer"] = 0; }},
      {"does not fit", [](Json& j) { j["steps"][1]["value"] = "0x1.8p+0"; }},
      {"different", [](Json& j) { j["steps"][1] = {{"kind", "copy"}, {"from", 0}, {"to", 2}}; }},
      {"steps", [](Json& j) { j["steps"] = 3; }},
  };
  for (const auto& [part, damage] : cases) {
    Json broken = good();
    damage(broken);
    const auto doc = parse_document(broken.dump());
    INFO(part);
    REQUIRE_FALSE(doc.has_value());
    CHECK(doc.error().kind == "bad_program");
    CHECK_MESSAGE(doc.error().message.find(part) != std::string::npos, doc.error().message);
  }
  CHECK_FALSE(parse_document("{").has_value());
  CHECK_FALSE(parse_document("[]").has_value());
}

TEST_CASE("a cpp launch has no blocks that could wait for each other") {
  Json j = good();
  j["steps"][0]["cooperative"] = true;
  CHECK_FALSE(parse_document(j.dump()).has_value());
  j["steps"][0].erase("cooperative");
  j["steps"][0]["programmatic"] = true;
  CHECK_FALSE(parse_document(j.dump()).has_value());
}

TEST_CASE("cuda launches are checked against the hardware's limits") {
  Json j = good();
  j["target"] = "cuda";
  j["kernels"][0]["language"] = "cuda";
  Json& step = j["steps"][0];
  step["grid"] = {32, 2, 1};
  step["block"] = {256, 1, 1};
  step["cluster"] = {16, 1, 1};
  CHECK(parse_document(j.dump()).has_value());
  step["cluster"] = {16, 2, 1};
  CHECK_FALSE(parse_document(j.dump()).has_value());
  step["cluster"] = {3, 1, 1};
  CHECK_FALSE(parse_document(j.dump()).has_value());
  step["cluster"] = {1, 1, 1};
  CHECK_FALSE(parse_document(j.dump())->steps[0].cooperative);
  step["cooperative"] = true;
  CHECK(parse_document(j.dump())->steps[0].cooperative);
  step["cooperative"] = 1;
  CHECK_FALSE(parse_document(j.dump()).has_value());
  step.erase("cooperative");
  step["programmatic"] = true;
  CHECK(parse_document(j.dump())->steps[0].programmatic);
  step["cooperative"] = true;
  CHECK_FALSE(parse_document(j.dump()).has_value());
  step.erase("cooperative");
  step["programmatic"] = 1;
  CHECK_FALSE(parse_document(j.dump()).has_value());
  step.erase("programmatic");
  step["block"] = {512, 4, 1};
  CHECK_FALSE(parse_document(j.dump()).has_value());
}

TEST_CASE("hexadecimal floats") {
  double d = 0;
  CHECK((parse_hex_float("0x1.8000000000000p+1", &d) && d == 3));
  CHECK((parse_hex_float("-0x1.0p-3", &d) && d == -0.125));
  CHECK((parse_hex_float("-0x0.0p+0", &d) && d == 0 && std::signbit(d)));
  CHECK((parse_hex_float("-inf", &d) && std::isinf(d) && d < 0));
  CHECK((parse_hex_float("nan", &d) && std::isnan(d)));
  for (const char* text : {"", "1", "0x", "0x1p+0 ", "0x-1p+0", "--0x1p+0", "infinity", "0x1,8p+0"})
    CHECK_FALSE(parse_hex_float(text, &d));
}

TEST_CASE("elements are encoded in every dtype") {
  CHECK(encode("f32", 1) == "000000003f800000");
  CHECK(encode("f64", 1) == "3ff0000000000000");
  CHECK(encode("f16", 1) == "0000000000003c00");
  CHECK(encode("f16", -65504) == "000000000000fbff");
  CHECK(encode("f16", 65520) == "0000000000007c00");
  CHECK(encode("f16", 0x1p-24) == "0000000000000001");
  CHECK(encode("f16", 1 + 0x1p-11) == "0000000000003c00");  // tie to even
  CHECK(encode("bf16", -INFINITY) == "000000000000ff80");
  CHECK(encode("bf16", 3.140625) == "0000000000004049");
  CHECK(encode("i64", -2) == "fffffffffffffffe");
  CHECK(encode("i8", -128) == "0000000000000080");
  CHECK(encode("i8", 128) == "refused");
  CHECK(encode("u8", -1) == "refused");
  CHECK(encode("i32", NAN) == "refused");
  CHECK(encode("bool", 1) == "0000000000000001");
  CHECK(encode("bool", 2) == "refused");
  CHECK(encode("complex64", 0) == "refused");
}

TEST_CASE("strided tensors become few dense runs") {
  const auto make = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
    Buffer b;
    b.shape = std::move(shape);
    b.strides = std::move(strides);
    b.elements = 1;
    for (const auto n : b.shape) b.elements *= n;
    return b;
  };
  const Buffer dense = make({4, 8, 2}, {16, 2, 1}), padded = make({4, 8, 2}, {32, 2, 1}),
               swapped = make({4, 8, 2}, {2, 8, 1});
  CHECK(dense_runs(dense, dense).elements == 64);
  CHECK(dense_runs(padded, padded).count == 4);
  CHECK(dense_runs(padded, dense).elements == 16);
  CHECK(dense_runs(make({3, 0}, {0, 1}), make({3, 0}, {0, 1})).count == 0);
  CHECK(dense_runs(make({}, {}), make({}, {})).elements == 1);
  std::int64_t sum = 0;
  const Runs runs = dense_runs(swapped, dense);
  runs.each([&](std::int64_t a, std::int64_t b) { sum += a * 1000 + b; });
  std::int64_t expected = 0;
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 8; ++k) expected += (2 * i + 8 * k) * 1000 + 16 * i + 2 * k;
  }
  CHECK(runs.count == 32);
  CHECK(sum == expected);
}
