#include "coder/source_text.h"

#include <doctest/doctest.h>

#include <string>

#include "coder/patch.h"
#include "coder/proposal.h"

using namespace planish;
using namespace planish::coder;
using codegen::Emitted;
using Kind = Emitted::Argument::Kind;

namespace {

Emitted parsed(std::string_view text, const backend::Backend& target = backend::cuda()) {
  auto out = parse_source_text(text, target);
  REQUIRE_MESSAGE(out.has_value(), (out ? "" : out.error().message));
  return std::move(*out);
}

std::string refused(std::string_view text, const backend::Backend& target = backend::cuda()) {
  const auto out = parse_source_text(text, target);
  REQUIRE_FALSE(out.has_value());
  CHECK(out.error().kind.name() == "bad_source");
  CHECK_FALSE(out.error().hint.empty());
  return out.error().message;
}

constexpr std::string_view one = R"(//@ kernel cuda --use_fast_math
extern "C" __global__ void scale(const float* x, float* y, int n, float by) {}
  //@ launch scale grid=4096,2 block=256 shared=1024 args=in0, out0, i32:-5, i64:7, f32:0.5, f64:0x1.8p+1
)";

}  // namespace

TEST_CASE("a launch says how many blocks, of how many threads, and what they get") {
  const Emitted e = parsed(one);
  CHECK(e.language == "cuda");
  CHECK(e.flags == std::vector<std::string>{"--use_fast_math"});
  CHECK(e.entry == "scale");
  CHECK(e.source == "extern \"C\" __global__ void scale(const float* x, float* y, int n, float by) {}\n");
  CHECK((e.grid[0] == 4096 && e.grid[1] == 2 && e.grid[2] == 1));
  CHECK((e.block[0] == 256 && e.block[1] == 1));
  CHECK(e.cluster[0] == 1);
  CHECK(e.shared == 1024);
  CHECK_FALSE(e.cooperative);
  REQUIRE(e.args.size() == 6);
  CHECK(e.args[0] == Emitted::Argument{Kind::input, 0});
  CHECK(e.args[1] == Emitted::Argument{Kind::output, 0});
  CHECK(std::get<std::int32_t>(e.args[2].value) == -5);
  CHECK(std::get<std::int64_t>(e.args[3].value) == 7);
  CHECK(std::get<float>(e.args[4].value) == 0.5F);
  CHECK(std::get<double>(e.args[5].value) == 3.0);
}

TEST_CASE("several kernels, scratch between them, launches in order") {
  const Emitted e = parsed(R"(#@ kernel triton name=first --num-warps=8 --signature=*fp32,*u8
import triton
#@ kernel cuda name=second
code
#@ scratch 4096 zeroed
#@ scratch 16
#@ launch second:b grid=2 block=32 cluster=2 cooperative args=tmp0, out1
#@ launch first:a grid=3 args=in0, tmp1
#@ launch b args=tmp1
)");
  CHECK(e.scratch_bytes == std::vector<std::int64_t>{4096, 16});
  CHECK(e.zeroed == std::vector<int>{0});
  CHECK(e.entry == "b");
  CHECK(e.cooperative);
  CHECK(e.cluster[0] == 2);
  REQUIRE(e.after.size() == 2);
  CHECK(e.after[0].language == "triton");
  CHECK(e.after[0].block[0] == 256);
  CHECK(e.after[0].args[1] == Emitted::Argument{Kind::scratch, 1});
  CHECK(e.after[1].source == "code\n");
  CHECK(e.after[1].block[0] == 1);
}

TEST_CASE("what was written is read back the same, and written the same") {
  for (const std::string_view text : {one, std::string_view(R"(//@ kernel cuda name=k0
a
//@ kernel cuda name=k1 --ftz=true
b
//@ scratch 8 zeroed
//@ launch k0:f grid=2 block=4 args=in0, tmp0
//@ launch k1:g args=tmp0, out0
//@ launch k0:f block=1,2,3 args=
)")}) {
    auto first = parse_source_text(text, backend::cuda());
    if (!first) {  // an empty argument is none
      CHECK(first.error().message.contains("``"));
      continue;
    }
    const std::string written = source_text(*first);
    CHECK(source_text(parsed(written)) == written);
    const Emitted again = parsed(written);
    CHECK(again.args == first->args);
    CHECK(again.after.size() == first->after.size());
  }
}

TEST_CASE("a region's program is read as the source that made it") {
  program::Program program;
  program.target = "cuda";
  program.buffers = {{program::Role::input, {"user", 0, {}, {}}, "f32", {4}, {1}},
                     {program::Role::temp, {}, "u8", {4096}, {1}},
                     {program::Role::output, {}, "f32", {4}, {1}}};
  program.kernels = {{"cuda", "f", {"--ftz=true"}, "code\n"}};
  program::Launch launch;
  launch.kernel = 0;
  launch.grid = {7, 1, 1};
  launch.args = {program::BufferArg{0}, program::BufferArg{1}, program::BufferArg{2}, program::I32Arg{3}, 0.5};
  program.steps = {program::Set{1, 0}, launch};
  program.outputs = {{"user", 2, {}, -1, {}}};
  CHECK(source_text(program) ==
        "//@ kernel cuda --ftz=true\ncode\n//@ scratch 4096 zeroed\n"
        "//@ launch f grid=7 args=in0, tmp0, out0, i32:3, f64:0x1p-1\n");
  program.steps.emplace_back(program::Copy{0, 2});
  CHECK_FALSE(source_text(program));
}

TEST_CASE("a text without directives for its kernel is of the target's language") {
  CHECK(parsed("void f(void** a) {}\n//@ launch f args=in0, out0\n", backend::cpu()).language == "cpp");
  CHECK(parsed("k\n//@ launch f args=in0, out0\n").language == "cuda");
}

TEST_CASE("remarks above the first kernel are no kernel") {
  const auto e = parsed("// One block a row.\n\n// And so on.\n//@ kernel cuda\nk\n//@ launch f args=in0, out0\n");
  CHECK(e.language == "cuda");
  CHECK(e.source == "k\n");
  CHECK(refused("int x;\n//@ kernel cuda\nk\n//@ launch f args=in0, out0").contains("name of its own"));
}

TEST_CASE("what is wrong is named with its line") {
  CHECK(refused("").contains("launches nothing"));
  CHECK(refused("code").contains("launches nothing"));
  CHECK(refused("//@ launch f args=in0").contains("line 1"));
  CHECK(refused("c\n//@ lunch f args=in0").contains("line 2: `lunch`"));
  CHECK(refused("c\n//@ launch f grid=0 args=in0").contains("`grid=0`"));
  CHECK(refused("c\n//@ launch f grid=1,2,3,4 args=in0").contains("grid=1,2,3,4"));
  CHECK(refused("c\n//@ launch f warps=4 args=in0").contains("`warps=4`"));
  CHECK(refused("c\n//@ launch f shared=-1 args=in0").contains("shared=-1"));
  CHECK(refused("c\n//@ launch f grid=1").contains("what it passes"));
  CHECK(refused("c\n//@ launch args=in0").contains("names the function"));
  CHECK(refused("c\n//@ launch f args=x0").contains("`x0` is no argument"));
  CHECK(refused("c\n//@ launch f args=i32:99999999999").contains("no argument"));
  CHECK(refused("c\n//@ launch f args=f32:abc").contains("no argument"));
  CHECK(refused("c\n//@ launch f args=in-1").contains("no argument"));
  CHECK(refused("c\n//@ launch f args=tmp0").contains("tmp0 is not declared"));
  CHECK(refused("c\n//@ launch g:f args=in0").contains("no kernel is named `g`"));
  CHECK(refused("//@ kernel cpp\nc\n//@ launch f args=in0").contains("does not run here"));
  CHECK(refused("//@ kernel cuda\nc\n//@ launch f args=in0", backend::cpu()).contains("does not run here"));
  CHECK(refused("//@ kernel cuda -include/etc/passwd\nc").contains("is not allowed"));
  CHECK(refused("//@ kernel cuda\nc\n//@ kernel cuda\nd").contains("a name of its own"));
  CHECK(refused("//@ kernel cuda\n\n//@ launch f args=in0").contains("no code"));
  CHECK(refused("c\n//@ scratch").contains("scratch takes"));
  CHECK(refused("c\n//@ scratch 0").contains("scratch is at most"));
  CHECK(refused("c\n//@ scratch 99999999999999").contains("scratch is at most"));
  CHECK(refused("c\n//@ scratch 8 cleared").contains("scratch takes"));
  CHECK(refused(std::string(2 << 20, 'x')).contains("bytes"));
  CHECK(refused(std::string_view("a\0b", 3)).contains("zero byte"));
  std::string many = "c\n";
  for (int i = 0; i < 300; ++i) many += "//@ launch f args=in0\n";
  CHECK(refused(many).contains("launches"));
}

TEST_CASE("edits are made in order, each in one place") {
  CHECK(*apply_edits("a b c", {{"b", "d"}, {"d c", "e"}}) == "a e");
  const auto refused_edit = [](const std::vector<Edit>& edits) {
    const auto out = apply_edits("a b a", edits);
    REQUIRE_FALSE(out.has_value());
    CHECK(out.error().kind.name() == "bad_patch");
    return out.error().message;
  };
  CHECK(refused_edit({}).contains("no edits"));
  CHECK(refused_edit({{"", "x"}}).contains("edit 1"));
  CHECK(refused_edit({{"b", "c"}, {"b", "c"}}).contains("edit 2: `b` stands nowhere"));
  CHECK(refused_edit({{"a", "c"}}).contains("several places"));
  CHECK(refused_edit({{"b", "b"}}).contains("changes nothing"));
}

TEST_CASE("a proposal is its text and its document") {
  const Proposal genome = codegen::Genome{{"threads", 256}};
  const Proposal source = Source{std::string(one)};
  const Proposal patch = Patch{std::string(one), "1234", {{"0.5", "0.25"}, {"scale(", "grow("}}};
  for (const Proposal& p : {genome, source, patch}) {
    const auto again = proposal_from(text(p), document(p));
    REQUIRE(again);
    CHECK(*again == p);
  }
  CHECK(text(genome) == "threads=256");
  CHECK(document(genome).empty());
  CHECK(text(source).starts_with("source "));
  CHECK(text(patch).starts_with("patch "));
  CHECK(text(source).size() == 7 + 64);
  CHECK(proposal_from(text(source), "another text").error().kind.name() == "bad_proposal");
  CHECK_FALSE(proposal_from(text(patch), document(source)));
  CHECK_FALSE(proposal_from("threads", ""));
  CHECK(genome_of(genome) != nullptr);
  CHECK(genome_of(patch) == nullptr);
}
