#include "environment/completion.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "coder/answer_text.h"

namespace planish::environment {
namespace {

/// `class ModelNew`, `def ModelNew`, `ModelNew = …`, `from x import y as ModelNew` is not: what is handed in is whole.
bool defines_module(std::string_view code) {
  return std::ranges::any_of(coder::lines_of_text(code), [](std::string_view line) {
    constexpr std::string_view word = "ModelNew";
    for (const std::string_view keyword : {"class ", "def ", ""}) {
      if (!line.starts_with(keyword)) continue;
      std::string_view rest = line.substr(keyword.size());
      if (!keyword.empty()) rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
      if (!rest.starts_with(word)) continue;
      rest.remove_prefix(word.size());
      rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
      if (keyword.empty() ? rest.starts_with('=') && !rest.starts_with("==")
                          : rest.starts_with('(') || rest.starts_with(':')) {
        return true;
      }
    }
    return false;
  });
}

}  // namespace

std::string_view name(Form form) {
  return form == Form::module ? "module" : "source";
}

Result<Code> code_in(std::string_view completion) {
  const std::string said = coder::without_thoughts(completion);
  std::vector<std::string> blocks = coder::code_blocks(said);
  if (blocks.empty()) blocks.push_back(said);
  // A model may write drafts on its way: what it ends with is its answer.
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (defines_module(*block)) return Code{Form::module, std::move(*block)};
  }
  std::erase_if(blocks, [](const std::string& block) { return !coder::launches(block); });
  std::ranges::sort(blocks);
  blocks.erase(std::ranges::unique(blocks).begin(), blocks.end());
  if (blocks.empty())
    return fail("no_code", "the completion holds no code block with a `ModelNew`, and none with a launch line");
  if (blocks.size() > 1)
    return fail("several_programs", fmt::format("the completion holds {} different programs: give one", blocks.size()));
  return Code{Form::source, std::move(blocks.front())};
}

}  // namespace planish::environment
