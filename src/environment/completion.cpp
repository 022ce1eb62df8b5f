#include "environment/completion.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "coder/answer_text.h"

namespace planish::environment {
std::string_view name(Form form) {
  return form == Form::module ? "module" : "source";
}

Result<Code> code_in(std::string_view completion) {
  const std::string said = coder::without_thoughts(completion);
  std::vector<std::string> blocks = coder::code_blocks(said);
  if (blocks.empty()) blocks.push_back(said);
  // A model may write drafts on its way: what it ends with is its answer.
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (coder::defines_module(*block)) return Code{Form::module, std::move(*block)};
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
