#include "program/program.h"

#include <doctest/doctest.h>

#include <string>

#include "program/normalise.h"

using namespace planish::program;

namespace {

const std::string good = R"J({
  "schema": "planish.program/1", "target": "cuda", "arch": "sm_90a",
  "buffers": [
    {"role": "input", "source": {"kind": "user", "index": 0}, "dtype": "f32", "shape": [8, 4], "strides": [4, 1]},
    {"role": "param", "source": {"kind": "param", "name": "w"}, "dtype": "f32", "shape": [4, 4], "strides": [4, 1]},
    {"role": "temp", "dtype": "f32", "shape": [8, 4], "strides": [4, 1]},
    {"role": "output", "dtype": "f32", "shape": [8, 4], "strides": [4, 1]}],
  "kernels": [{"language": "cuda", "entry": "k0", "flags": ["--fmad=true"], "source": "extern \"C\" __global__ void k0() {}"}],
  "steps": [
    {"kind": "aten", "op": "aten.mm.default", "args": [{"name": "self", "buffer": 0}, {"name": "mat2", "buffer": 1}], "outs": [2]},
    {"kind": "set", "buffer": 3, "value": "0x0p+0"},
    {"kind": "launch", "kernel": 0, "grid": [8, 1, 1], "block": [256, 1, 1], "cluster": [1, 1, 1], "shared": 0,
     "args": [{"buffer": 2}, {"buffer": 3}, {"i64": 4096}, {"i32": -7}, {"f32": "0x1.8p+0"}, {"f64": "-inf"}]}],
  "outputs": [{"buffer": 3, "kind": "user"}, {"kind": "scalar", "arg": {"int": 3}}]
})J";

/// `good` with the first occurrence of one text replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string text = good;
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void rejected(const std::string& text, const std::string& message) {
  const auto result = parse(text);
  REQUIRE_FALSE_MESSAGE(result.has_value(), message);
  CHECK(result.error().kind.name() == "bad_program");
  CHECK_MESSAGE(result.error().message.find(message) != std::string::npos, result.error().message);
}

}  // namespace

TEST_CASE("a program survives the round trip, and its hash depends on all of it") {
  const auto program = parse(good);
  REQUIRE_MESSAGE(program.has_value(), program.error().message);
  CHECK(program->has_aten());
  const std::string text = to_json(*program);
  const auto again = parse(text);
  REQUIRE(again.has_value());
  CHECK(to_json(*again) == text);
  CHECK(text.find(' ') == text.find(" \\\"C\\\""));  // the only white space lies in the source
  CHECK(hash(*again) == hash(*program));
  auto other = *program;
  std::get<Launch>(other.steps[2]).grid[0] = 4;
  CHECK(hash(other) != hash(*program));
}

TEST_CASE("the normalised hash ignores comments, white space and entry names") {
  const auto a = parse(good);
  const auto b = parse(with("__global__ void k0() {}", "__global__   void main_7 ( ) { /* nothing */ } // end"));
  REQUIRE(b.has_value());
  auto c = *b;
  c.kernels[0].entry = "main_7";
  CHECK(hash(*a) != hash(c));
  CHECK(normalised_hash(*a) == normalised_hash(c));
  CHECK(normalise_source("int  x = a + +b; // c\n", "cpp", "f", "k0") == "int x=a+ +b;");
  CHECK(normalise_source("#define A 1\n  int y = A;", "cpp", "f", "k0") == "#define A 1\nint y=A;");
  CHECK(normalise_source("s = \"a // b\";", "cpp", "f", "k0") == "s=\"a // b\";");
  CHECK(normalise_source("fk(f, ff)", "cpp", "f", "k0") == "fk(k0,ff)");
  CHECK(normalise_source("def f(x):\n    # why\n\n    y = x  # note\n    return y", "triton", "f", "k0") ==
        "def k0(x):\n    y = x\n    return y");
}

TEST_CASE("a Triton kernel's launch follows from its flags") {
  const auto triton = [](const std::string& flags, const std::string& launch) {
    std::string text = with("\"language\": \"cuda\", \"entry\": \"k0\", \"flags\": [\"--fmad=true\"]",
                            "\"language\": \"triton\", \"entry\": \"k0\", \"flags\": [" + flags + "]");
    const std::string old = "\"block\": [256, 1, 1], \"cluster\": [1, 1, 1], \"shared\": 0";
    return text.replace(text.find(old), old.size(), launch);
  };
  const std::string flags = "\"--num-warps=8\", \"--num-stages=2\", \"--signature=*fp32:16,i64,1024\"";
  const std::string launch = "\"block\": [256, 1, 1], \"cluster\": [1, 1, 1], \"shared\": 0";
  CHECK(parse(triton(flags, launch)).has_value());
  rejected(triton("", launch), "128 threads");
  rejected(triton("\"--num-warps=3\"", launch), "not allowed");
  rejected(triton("\"--num-warps=8\", \"--fmad=true\"", launch), "not allowed");
  rejected(triton("\"--num-warps=8\", \"--signature=*fp32; import os\"", launch), "not allowed");
  rejected(triton(flags, "\"block\": [128, 2, 1], \"cluster\": [1, 1, 1], \"shared\": 0"), "256 threads");
  rejected(triton(flags, "\"block\": [256, 1, 1], \"cluster\": [1, 1, 1], \"shared\": 64"), "shared");
  rejected(triton(flags, "\"block\": [256, 1, 1], \"cluster\": [2, 1, 1], \"shared\": 0"), "cluster");
}

TEST_CASE("a launch says that it is cooperative where it is, and only there") {
  const auto plain = parse(good);
  REQUIRE(plain.has_value());
  CHECK(to_json(*plain).find("cooperative") == std::string::npos);
  const std::string old = "\"cluster\": [1, 1, 1], \"shared\": 0";
  const auto asked = parse(with(old, old + ", \"cooperative\": true"));
  REQUIRE(asked.has_value());
  CHECK(hash(*asked) != hash(*plain));
  CHECK(to_json(*parse(to_json(*asked))) == to_json(*asked));
  CHECK(to_json(*asked).find("\"cooperative\":true") != std::string::npos);
  CHECK(hash(*parse(with(old, old + ", \"cooperative\": false"))) == hash(*plain));
  rejected(with(old, old + ", \"cooperative\": 1"), "cooperative");
}

TEST_CASE("a launch says that it is programmatic where it is, and only there") {
  const auto plain = parse(good);
  REQUIRE(plain.has_value());
  CHECK(to_json(*plain).find("programmatic") == std::string::npos);
  const std::string old = "\"cluster\": [1, 1, 1], \"shared\": 0";
  const auto asked = parse(with(old, old + ", \"programmatic\": true"));
  REQUIRE(asked.has_value());
  CHECK(hash(*asked) != hash(*plain));
  CHECK(to_json(*parse(to_json(*asked))) == to_json(*asked));
  CHECK(hash(*parse(with(old, old + ", \"programmatic\": false"))) == hash(*plain));
  rejected(with(old, old + ", \"programmatic\": 1"), "programmatic");
  rejected(with(old, old + ", \"programmatic\": true, \"cooperative\": true"), "cooperative");
}

TEST_CASE("a program may draw from a generator, whose state it is given and leaves") {
  std::string text = with(R"("source": {"kind": "user", "index": 0})", R"("source": {"kind": "generator"})");
  const std::string user = R"({"buffer": 3, "kind": "user"})";
  text.replace(text.find(user), user.size(), R"({"buffer": 3, "kind": "mutate_generator"})");
  const auto program = parse(text);
  REQUIRE_MESSAGE(program.has_value(), program.error().message);
  CHECK(parse(to_json(*program)).has_value());
  CHECK(program->buffers[0].source.kind == "generator");
  rejected(with(R"({"kind": "user", "index": 0})", R"({"kind": "generator", "index": 0})"), "`source` does not fit");
  rejected(with(R"({"kind": "param", "name": "w"})", R"({"kind": "generator", "name": "w"})"), "`source` does not fit");
}

TEST_CASE("bad programs are named for what is wrong") {
  rejected("{", "program");
  rejected(with("planish.program/1", "planish.program/9"), "schema");
  rejected(with("\"target\": \"cuda\"", "\"target\": \"tpu\""), "target");
  rejected(with("\"arch\"", "\"march\": 1, \"arch\""), "march");
  rejected(with("\"role\": \"temp\"", "\"role\": \"spare\""), "spare");
  rejected(with("\"kind\": \"user\", \"index\": 0", "\"kind\": \"param\", \"name\": \"w\""), "source");
  rejected(with("\"shape\": [8, 4]", "\"shape\": [8, -4]"), "negative");
  rejected(with("\"shape\": [8, 4]", "\"shape\": [8, 4, 1]"), "strides");
  rejected(with("\"language\": \"cuda\"", "\"language\": \"cpp\""), "target cuda");
  rejected(with("--fmad=true", "-fplugin=evil.so"), "not allowed");
  rejected(with("\"entry\": \"k0\"", "\"entry\": \"k 0\""), "entry");
  rejected(with("aten.mm.default", "aten.add_.Tensor"), "writes to its arguments");
  rejected(with("aten.mm.default", "torch.mm"), "operator name");
  rejected(with("\"name\": \"self\", \"buffer\": 0", "\"name\": \"self\", \"buffer\": 3"), "before it is defined");
  rejected(with("\"name\": \"self\", \"buffer\": 0", "\"name\": \"self\", \"buffer\": 77"), "id below");
  rejected(with("\"outs\": [2]", "\"outs\": [0]"), "belongs to the caller");
  rejected(with("\"kind\": \"set\", \"buffer\": 3", "\"kind\": \"set\", \"buffer\": 1"), "belongs to the caller");
  rejected(with("\"kernel\": 0", "\"kernel\": 1"), "no such kernel");
  rejected(with("\"block\": [256, 1, 1]", "\"block\": [256, 8, 1]"), "1024 threads");
  rejected(with("\"cluster\": [1, 1, 1]", "\"cluster\": [3, 1, 1]"), "cluster");
  rejected(with("\"i32\": -7", "\"i32\": 3000000000"), "32 bits");
  rejected(with("0x1.8p+0", "1.5"), "hexadecimal");
  rejected(with("\"buffer\": 3, \"kind\": \"user\"", "\"buffer\": 2, \"kind\": \"user\""), "temp");
  rejected(with("{\"buffer\": 3, \"kind\": \"user\"}, ", ""), "not in `outputs`");
  rejected(with("\"kind\": \"set\"", "\"kind\": \"jump\""), "jump");
}

TEST_CASE("what the runtime would refuse to load is refused here") {
  const std::string out = R"({"role": "output", "dtype": "f32")", temp = R"({"role": "temp", "dtype": "f32")";
  rejected(with(temp, R"({"role": "temp", "dtype": "int4")"), "only operators can touch");
  rejected(with(out, R"({"role": "output", "dtype": "complex64")"), "cannot be filled");
  CHECK(parse(with(temp, R"({"role": "temp", "dtype": "float8_e4m3fn")")).has_value());
  std::string many = "\"args\": [";
  for (int i = 0; i < 260; ++i) many += "{\"i32\": 1}, ";
  rejected(with("\"args\": [{\"buffer\": 2}", many + "{\"buffer\": 2}"), "more than 256 arguments");
  const std::string far = "1152921504606846976";  // 2^60: each dim fits, their sum does not
  rejected(with(R"("temp", "dtype": "f32", "shape": [8, 4], "strides": [4, 1])",
                R"("temp", "dtype": "f32", "shape": [1, 1, 1], "strides": [)" + far + ", " + far + ", " + far + "]"),
           "larger than can be addressed");
}
