#include "coder/model_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace planish::coder {
namespace {

std::unexpected<Error> refuse(std::string what) {
  return fail("bad_answer", std::move(what));
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

std::string_view stripped(std::string_view line) {
  const auto first = line.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : line.substr(first);
}

/// What stands between <think> and </think> was for itself.
std::string without_thoughts(std::string_view answer) {
  constexpr std::string_view begin = "<think>", end = "</think>";
  std::string out(answer);
  while (true) {
    const auto from = out.find(begin);
    const auto to = out.find(end);
    if (to == std::string::npos) return from == std::string::npos ? out : out.substr(0, from);
    const auto start = from == std::string::npos || from > to ? 0 : from;  // a template may hold the first one back
    out.erase(start, to + end.size() - start);
  }
}

bool launches(std::string_view code) {
  return std::ranges::any_of(lines_of(code), [](std::string_view line) {
    line = stripped(line);
    for (const std::string_view mark : {"//@", "#@"}) {
      if (line.starts_with(mark) && stripped(line.substr(mark.size())).starts_with("launch")) return true;
    }
    return false;
  });
}

/// Fenced blocks; one that is not closed goes to the end.
std::vector<std::string> blocks_of(const std::vector<std::string_view>& lines) {
  std::vector<std::string> out;
  bool inside = false;
  for (const std::string_view line : lines) {
    if (stripped(line).starts_with("```")) {
      inside = !inside;
      if (inside) out.emplace_back();
    } else if (inside) {
      out.back().append(line).push_back('\n');
    }
  }
  return out;
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
  const auto lines = lines_of(said);
  PLANISH_TRY(auto edits, edits_of(lines));
  if (edits) {
    if (parent.source.empty()) return refuse("there is no program yet that could be edited: write a whole one");
    return Proposal(Patch{parent.source, parent.program, std::move(*edits)});
  }
  std::vector<std::string> blocks = blocks_of(lines);
  if (blocks.empty() && launches(said)) blocks.push_back(said);
  std::erase_if(blocks, [](const std::string& block) { return !launches(block); });
  std::ranges::sort(blocks);
  blocks.erase(std::ranges::unique(blocks).begin(), blocks.end());
  if (blocks.empty()) return refuse("the answer holds no code block with a launch line");
  if (blocks.size() > 1) return refuse(fmt::format("the answer holds {} different programs: give one", blocks.size()));
  return Proposal(Source{std::move(blocks.front())});
}

}  // namespace planish::coder
