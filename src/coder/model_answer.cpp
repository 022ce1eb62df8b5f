#include "coder/model_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "coder/answer_text.h"

namespace planish::coder {
namespace {

std::unexpected<Error> refuse(std::string what) {
  return fail("bad_answer", std::move(what));
}

/// `<<<<<<< SEARCH`, lines, `=======`, lines, `>>>>>>> REPLACE`; nothing where there are none.
Result<std::optional<std::vector<Edit>>> edits_of(const std::vector<std::string_view>& lines) {
  enum class In : std::uint8_t { none, search, replace } in = In::none;
  std::vector<Edit> out;
  for (const std::string_view line : lines) {
    if (line.starts_with("<<<<<<<")) {
      if (in != In::none)
        return refuse(fmt::format("SEARCH block {} begins before the one before it ends", out.size()));
      in = In::search;
      out.emplace_back();
    } else if (line.starts_with("=======") && in == In::search) {
      in = In::replace;
    } else if (line.starts_with(">>>>>>>") && in != In::none) {
      if (in != In::replace) return refuse(fmt::format("block {} has no ======= line", out.size()));
      in = In::none;
    } else if (in != In::none) {
      (in == In::search ? out.back().search : out.back().replace).append(line).push_back('\n');
    }
  }
  if (in != In::none) return refuse(fmt::format("block {} does not end with >>>>>>> REPLACE", out.size()));
  if (out.empty()) return std::nullopt;
  return out;
}

}  // namespace

Result<Proposal> proposal_in(std::string_view answer, const AnswerParent& parent) {
  const std::string said = without_thoughts(answer);
  const auto lines = lines_of_text(said);
  PLANISH_TRY(auto edits, edits_of(lines));
  if (edits) {
    if (parent.source.empty()) return refuse("there is no program yet that could be edited: write a whole one");
    return Proposal(Patch{parent.source, parent.program, std::move(*edits)});
  }
  std::vector<std::string> blocks = code_blocks(said);
  const auto proposes = [](const std::string& code) { return launches(code) || defines_module(code); };
  if (blocks.empty() && proposes(said)) blocks.push_back(said);
  std::erase_if(blocks, [&](const std::string& block) { return !proposes(block); });
  std::ranges::sort(blocks);
  blocks.erase(std::ranges::unique(blocks).begin(), blocks.end());
  if (blocks.empty()) return refuse("the answer holds no code block with a launch line, and none with a ModelNew");
  if (blocks.size() > 1) return refuse(fmt::format("the answer holds {} different programs: give one", blocks.size()));
  return Proposal(Source{std::move(blocks.front())});
}

}  // namespace planish::coder
