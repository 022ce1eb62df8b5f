#include "environment/completion.h"

#include <doctest/doctest.h>

using namespace planish;
using environment::code_in;
using environment::Form;

namespace {
const std::string module_text = "import torch\nclass ModelNew(torch.nn.Module):\n    pass\n";
const std::string source_text = "//@ kernel cuda\n//@ launch f args=in0, out0\n";
}  // namespace

TEST_CASE("the last block that defines a module is the answer") {
  const auto code = code_in("First:\n```python\nclass ModelNew(A):\n  x = 1\n```\nbetter:\n```python\n" + module_text +
                            "```\nand a note:\n```\npip install torch\n```\n");
  REQUIRE(code.has_value());
  CHECK(code->form == Form::module);
  CHECK(code->text == module_text);
}

TEST_CASE("a module may be a class, a function or a name") {
  for (const char* line : {"class ModelNew:", "class  ModelNew (nn.Module):", "def ModelNew():", "ModelNew = make()"})
    CHECK_MESSAGE(code_in(std::string("```\n") + line + "\n```").has_value(), line);
  for (const char* line :
       {"class ModelNewer:", "# class ModelNew", "x = ModelNew()", "ModelNew == 3", "print(ModelNew)"})
    CHECK_MESSAGE(!code_in(std::string("```\n") + line + "\n```").has_value(), line);
}

TEST_CASE("code without a fence, thoughts and an open fence are borne") {
  CHECK(code_in(module_text)->text == module_text);
  CHECK(code_in("<think>```python\nclass ModelNew(Draft): pass\n```</think>```python\n" + module_text)->text ==
        module_text);
  CHECK(code_in("</think>" + module_text)->text == module_text);
  CHECK(code_in("<think>" + module_text).error().kind.name() == "no_code");
}

TEST_CASE("kernels and launches are a form of their own") {
  const auto code = code_in("```cpp\n" + source_text + "```");
  REQUIRE(code.has_value());
  CHECK(code->form == Form::source);
  CHECK(code_in("```\n" + source_text + "```\n```\n" + source_text + "x\n```").error().kind.name() ==
        "several_programs");
}

TEST_CASE("a completion without code is told so") {
  for (const char* text : {"", "I cannot do that.", "```python\nprint(1)\n```", "```", "\xff\xfe"})
    CHECK(code_in(text).error().kind.name() == "no_code");
}
