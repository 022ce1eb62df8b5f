#include "coder/answer_text.h"

#include <algorithm>

namespace planish::coder {
namespace {

std::string_view without_indent(std::string_view line) {
  const auto first = line.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : line.substr(first);
}

}  // namespace

std::vector<std::string_view> lines_of_text(std::string_view text) {
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

std::string without_thoughts(std::string_view answer) {
  constexpr std::string_view begin = "<think>", end = "</think>";
  std::string out;
  while (true) {
    const auto from = answer.find(begin);
    const auto to = answer.find(end);
    if (to == std::string_view::npos) return out.append(answer.substr(0, from));
    if (from < to) {
      out.append(answer.substr(0, from));
    } else {
      out.clear();  // a template may hold the first one back
    }
    answer.remove_prefix(to + end.size());
  }
}

bool launches(std::string_view code) {
  return std::ranges::any_of(lines_of_text(code), [](std::string_view line) {
    line = without_indent(line);
    for (const std::string_view mark : {"//@", "#@"}) {
      if (line.starts_with(mark) && without_indent(line.substr(mark.size())).starts_with("launch")) return true;
    }
    return false;
  });
}

bool defines_module(std::string_view code) {
  return std::ranges::any_of(lines_of_text(code), [](std::string_view line) {
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

std::vector<std::string> code_blocks(std::string_view answer) {
  std::vector<std::string> out;
  bool inside = false;
  for (const std::string_view line : lines_of_text(answer)) {
    if (without_indent(line).starts_with("```")) {
      inside = !inside;
      if (inside) out.emplace_back();
    } else if (inside) {
      out.back().append(line).push_back('\n');
    }
  }
  return out;
}

}  // namespace planish::coder
