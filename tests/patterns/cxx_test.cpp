#include "patterns/importer/cxx.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

using namespace planish::patterns;

TEST_CASE("classes, specialisations and kernels are found where they stand") {
  const std::string text = R"(/* Copyright somebody */
#pragma once
namespace cutlass::gemm {
// Two warpgroups take turns.
template <class Shape, int N = (3 > 2 ? 1 : 0)>
struct Mma { struct Inner { int x; }; };

/// For Hopper
template <class T>
class alignas(16) Mma<T, 4> final : public Base<T> {
 public:
  const char* braces = "}}}{";   // }
  char brace = '}';
};
struct Forward;
enum class Kind { a, b };
namespace { template <int N> struct Hidden { int y = 1'000; }; }
}
extern "C" __global__ void __launch_bounds__(256, 2) scale(float* x) { x[0] = 2; }
template <class T> __global__ void add(T* a) { if (a) { *a += 1; } }
int helper(int x) { return x; }
)";
  const auto found = declarations(text);
  REQUIRE(found.size() == 5);
  CHECK(found[0].name == "Mma");
  CHECK(found[0].comment == "Two warpgroups take turns.");
  CHECK(found[0].line == 5);
  CHECK(found[1].name == "Mma<T, 4>");
  CHECK(found[1].base == "Mma");
  CHECK(found[1].comment == "For Hopper");
  CHECK(text.substr(found[1].end - 1, 1) == "}");
  CHECK(found[2].name == "Hidden");
  CHECK(found[2].namespaces.size() == 2);
  CHECK(found[3].name == "scale");
  CHECK(found[3].kernel);
  CHECK(found[4].name == "add");
  CHECK(file_comment("/* Copyright X */\n#pragma once\n// \\brief A product of two matrices.\n") ==
        "A product of two matrices.");
}

TEST_CASE("of branches of the preprocessor the first counts, so that braces stay in pairs") {
  const auto found = declarations(
      "#if A\nstruct One {\n#else\nstruct Two {\n#endif\n int x; };\n#if 0\nstruct Dead {};\n#else\nstruct Three { int "
      "y; };\n#endif\n"
      "#define BRACE {{{ \\\n {{{\nstruct Four { int z; };\n");
  REQUIRE(found.size() == 3);
  CHECK(found[0].name == "One");
  CHECK(found[1].name == "Three");
  CHECK(found[2].name == "Four");
}

TEST_CASE("text that is no C++ is survived") {
  for (const char* text : {"",
                           "{",
                           "}",
                           "}}}}",
                           "template <",
                           "template <template <class> class",
                           "struct",
                           "struct {",
                           "struct X {",
                           "\"",
                           "R\"(",
                           "/*",
                           "//",
                           "#if",
                           "#else\n#endif\n#endif",
                           "__global__",
                           "__global__ void",
                           "__global__ void (",
                           "__global__ {}",
                           "class <<<<{}",
                           "struct alignas( {}",
                           "struct [[ {}",
                           "namespace",
                           "namespace {",
                           "struct A<{};"})
    CHECK_NOTHROW(declarations(text));
  std::mt19937 random(7);
  const std::string pieces[] = {"{", "}",       "template <", ">",        "struct X ",    "__global__ ", "(",
                                ")", ";",       "/*",         "*/",       "//",           "\n",          "\"",
                                "'", "#if 1\n", "#else\n",    "#endif\n", "namespace n ", "R\"x("};
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 60; ++i) text += pieces[random() % std::size(pieces)];
    for (const auto& one : declarations(text)) {
      CHECK(one.begin <= one.body);
      CHECK(one.body < one.end);
      CHECK(one.end <= text.size());
    }
    CHECK(without_comments(text).size() == text.size());
    (void)file_comment(text);
  }
}
