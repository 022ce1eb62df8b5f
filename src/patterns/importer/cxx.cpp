#include "patterns/importer/cxx.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace planish::patterns {
namespace {

bool space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}
bool identifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

void blank(std::string& text, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to && i < text.size(); ++i) {
    if (text[i] != '\n') text[i] = ' ';
  }
}

/// The end of a literal that begins at `at` with a quote: behind its closing one, or at the line's end.
std::size_t literal_end(std::string_view text, std::size_t at) {
  const char quote = text[at];
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      return i + 1;
    } else if (text[i] == '\n') {
      return i;
    }
  }
  return text.size();
}

/// Of R"mark(…)mark" whose quote is at `at`; 0 where it is none.
std::size_t raw_literal_end(std::string_view text, std::size_t at) {
  if (at == 0 || text[at - 1] != 'R') return 0;
  const std::size_t open = text.find('(', at);
  if (open == std::string_view::npos || open - at > 17) return 0;
  const std::string close = ")" + std::string(text.substr(at + 1, open - at - 1)) + "\"";
  const std::size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

void blank_comments_and_literals(std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (text[i] == '/' && next == '/') {
      std::size_t end = i;
      while (end < text.size() && text[end] != '\n') ++end;
      blank(text, i, end);
      i = end;
    } else if (text[i] == '/' && next == '*') {
      const std::size_t found = text.find("*/", i + 2);
      const std::size_t end = found == std::string::npos ? text.size() : found + 2;
      blank(text, i, end);
      i = end;
    } else if (text[i] == '"') {
      const std::size_t raw = raw_literal_end(text, i);
      const std::size_t end = raw != 0 ? raw : literal_end(text, i);
      blank(text, i, end);
      i = end;
    } else if (text[i] == '\'' && (i == 0 || !identifier(text[i - 1]))) {  // 1'000 is a number
      const std::size_t end = literal_end(text, i);
      blank(text, i, end);
      i = end;
    } else {
      ++i;
    }
  }
}

/// Directives go, and of each #if all branches but the first: both would open a brace that one closes.
void blank_directives(std::string& text) {
  struct Condition {
    bool outer, dead;
  };
  std::vector<Condition> conditions;
  bool dead = false;
  for (std::size_t line = 0; line < text.size();) {
    std::size_t end = std::min(text.find('\n', line), text.size());
    std::size_t first = line;
    while (first < end && space(text[first])) ++first;
    if (first < end && text[first] == '#') {
      while (end < text.size() && end > 0 && text[end - 1] == '\\')
        end = std::min(text.find('\n', end + 1), text.size());
      std::size_t word = first + 1;
      while (word < end && space(text[word])) ++word;
      const std::string_view rest = std::string_view(text).substr(word, end - word);
      if (rest.starts_with("if")) {
        conditions.push_back({dead, false});
        const bool never = rest.starts_with("if 0");
        dead = dead || never;
      } else if (rest.starts_with("el") && !conditions.empty()) {
        // What came first was kept, unless it was `#if 0`.
        const bool first_was_dead = dead && !conditions.back().outer && !conditions.back().dead;
        conditions.back().dead = true;
        dead = conditions.back().outer || !first_was_dead;
      } else if (rest.starts_with("endif") && !conditions.empty()) {
        dead = conditions.back().outer;
        conditions.pop_back();
      }
      blank(text, line, end);
    } else if (dead) {
      blank(text, line, end);
    }
    line = end + 1;
  }
}

/// Behind the bracket that closes the one at `at`; npos where none does.
std::size_t closing(std::string_view text, std::size_t at, char open, char close) {
  int depth = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    if (text[i] == open) ++depth;
    if (text[i] == close && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

/// The same for <…>, of which comparisons within parentheses are no part.
std::size_t closing_angle(std::string_view text, std::size_t at) {
  int depth = 0, round = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    if (text[i] == '(') ++round;
    if (text[i] == ')') --round;
    if (round > 0) continue;
    if (text[i] == '<') ++depth;
    if (text[i] == '>' && (i == 0 || text[i - 1] != '-') && --depth == 0) return i + 1;
    if (text[i] == ';' || text[i] == '{') return std::string_view::npos;
  }
  return std::string_view::npos;
}

std::string_view word_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && identifier(text[end])) ++end;
  return text.substr(at, end - at);
}

std::size_t skip_spaces(std::string_view text, std::size_t at) {
  while (at < text.size() && space(text[at])) ++at;
  return at;
}

/// Behind `template <…>`, however often it stands there.
std::size_t skip_templates(std::string_view text, std::size_t at) {
  at = skip_spaces(text, at);
  while (word_at(text, at) == "template") {
    const std::size_t open = skip_spaces(text, at + 8);
    if (open >= text.size() || text[open] != '<') return at;
    const std::size_t end = closing_angle(text, open);
    if (end == std::string_view::npos) return at;
    at = skip_spaces(text, end);
  }
  return at;
}

/// The name of a class whose head (up to its `{`) this is, and its arguments; empty where it is no class.
std::pair<std::string, std::string> class_name(std::string_view head) {
  std::size_t at = skip_templates(head, 0);
  if (word_at(head, at) == "requires") {
    while (at < head.size() && word_at(head, at) != "struct" && word_at(head, at) != "class") ++at;
  }
  const std::string_view what = word_at(head, at);
  if (what != "struct" && what != "class") return {};
  at = skip_spaces(head, at + what.size());
  std::string_view name;
  while (at < head.size()) {
    if (head.substr(at).starts_with("[[")) {
      const std::size_t end = head.find("]]", at);
      if (end == std::string_view::npos) return {};
      at = skip_spaces(head, end + 2);
      continue;
    }
    const std::string_view word = word_at(head, at);
    if (word.empty()) break;
    at = skip_spaces(head, at + word.size());
    if (word == "alignas" || word == "__align__" || word == "__attribute__") {
      if (at < head.size() && head[at] == '(') {
        const std::size_t end = closing(head, at, '(', ')');
        if (end == std::string_view::npos) return {};
        at = skip_spaces(head, end);
      }
      continue;
    }
    if (word == "final") break;
    name = word;
    while (head.substr(at).starts_with("::")) {
      at = skip_spaces(head, at + 2);
      name = word_at(head, at);
      at = skip_spaces(head, at + name.size());
    }
    if (at < head.size() && (head[at] == '<' || head[at] == ':')) break;
  }
  if (name.empty()) return {};
  std::string arguments;
  if (at < head.size() && head[at] == '<') {
    const std::size_t end = closing_angle(head, at);
    if (end != std::string_view::npos) arguments = one_line(head.substr(at, end - at));
  }
  return {std::string(name), arguments};
}

/// The name of the function whose head holds `__global__`.
std::string kernel_name(std::string_view head) {
  std::size_t at = head.find("__global__") + 10;
  while (at < head.size()) {
    const std::size_t open = head.find('(', at);
    if (open == std::string_view::npos) return {};
    std::size_t end = open;
    while (end > 0 && space(head[end - 1])) --end;
    if (end > 0 && head[end - 1] == '>') {  // a specialisation: name<…>(
      int depth = 0;
      while (end > 0) {
        --end;
        if (head[end] == '>') ++depth;
        if (head[end] == '<' && --depth == 0) break;
      }
      while (end > 0 && space(head[end - 1])) --end;
    }
    std::size_t begin = end;
    while (begin > 0 && identifier(head[begin - 1])) --begin;
    const std::string_view name = head.substr(begin, end - begin);
    if (name != "__launch_bounds__" && name != "__cluster_dims__" && name != "__maxnreg__" && name != "__attribute__" &&
        name != "alignas") {
      return std::string(name);
    }
    const std::size_t close = closing(head, open, '(', ')');
    if (close == std::string_view::npos) return {};
    at = close;
  }
  return {};
}

bool licence(std::string_view comment) {
  return comment.find("Copyright") != std::string_view::npos || comment.find("SPDX") != std::string_view::npos ||
         comment.find("copyright") != std::string_view::npos;
}

/// A comment's text without /, * and ruler lines.
std::string bare(std::string_view comment) {
  std::string out;
  for (std::size_t line = 0; line < comment.size();) {
    const std::size_t end = std::min(comment.find('\n', line), comment.size());
    std::string_view one = comment.substr(line, end - line);
    line = end + 1;
    const auto strip = [](char c) { return space(c) || c == '/' || c == '*' || c == '!' || c == '<'; };
    while (!one.empty() && strip(one.front())) one.remove_prefix(1);
    while (!one.empty() && (space(one.back()) || one.back() == '/' || one.back() == '*')) one.remove_suffix(1);
    if (one.find_first_not_of("-=/ ") == std::string_view::npos) continue;
    for (const std::string_view mark : {"\\brief ", "@brief ", "\\file"}) {
      if (one.starts_with(mark)) one.remove_prefix(mark.size());
    }
    if (!out.empty()) out += '\n';
    out += one;
  }
  return out;
}

/// The comments that end right before `begin`.
std::string comment_above(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  std::size_t first = begin;
  for (int parts = 0; parts < 64; ++parts) {
    std::size_t at = first;
    int lines = 0;
    while (at > 0 && space(text[at - 1])) {
      lines += text[at - 1] == '\n' ? 1 : 0;
      --at;
    }
    if (lines > 2) break;  // it stands apart
    if (at >= 2 && text.substr(at - 2, 2) == "*/") {
      const std::size_t open = text.rfind("/*", at - 2);
      if (open == std::string_view::npos) break;
      first = open;
      continue;
    }
    std::size_t line = at;
    while (line > 0 && text[line - 1] != '\n') --line;
    const std::size_t mark = skip_spaces(text, line);
    if (mark < at && text.substr(mark).starts_with("//")) {
      first = mark;
      continue;
    }
    break;
  }
  const std::string_view comment = text.substr(first, end - first);
  return licence(comment) ? std::string() : bare(comment).substr(0, 4000);
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!space(c)) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string without_comments(std::string_view text) {
  std::string out(text);
  blank_comments_and_literals(out);
  blank_directives(out);
  return out;
}

std::vector<Declaration> declarations(std::string_view text) {
  const std::string code = without_comments(text);
  std::vector<Declaration> out;
  std::vector<std::string> namespaces;
  std::size_t start = 0, line = 1, counted = 0;
  const auto line_of = [&](std::size_t at) {
    line += static_cast<std::size_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(counted),
                                                text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    counted = at;
    return line;
  };
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i] == ';') {
      start = i + 1;
    } else if (code[i] == '}') {
      if (!namespaces.empty()) namespaces.pop_back();
      start = i + 1;
    } else if (code[i] == '{') {
      const std::size_t begin = skip_spaces(code, start);
      const std::string_view head = std::string_view(code).substr(begin, i - begin);
      std::size_t word = 0;
      if (word_at(head, 0) == "inline") word = skip_spaces(head, 6);
      if (word_at(head, word) == "namespace") {
        namespaces.push_back(one_line(head.substr(word + 9)));
        start = i + 1;
        continue;
      }
      if (word_at(head, 0) == "extern" && one_line(head) == "extern") {  // extern "C" {
        namespaces.emplace_back();
        start = i + 1;
        continue;
      }
      const std::size_t end = closing(code, i, '{', '}');
      if (end == std::string_view::npos) break;  // what follows is in no place that we know
      Declaration one;
      one.kernel = head.find("__global__") != std::string_view::npos;
      if (one.kernel) {
        one.name = one.base = kernel_name(head);
      } else {
        auto [name, arguments] = class_name(head);
        one.base = name;
        one.name = name + arguments;
      }
      if (!one.base.empty()) {
        one.begin = begin;
        one.body = i;
        one.end = end;
        one.line = line_of(begin);
        one.comment = comment_above(text, begin);
        one.namespaces = namespaces;
        out.push_back(std::move(one));
      }
      i = end - 1;
      start = end;
    }
  }
  return out;
}

std::string file_comment(std::string_view text) {
  std::size_t at = 0;
  for (int parts = 0; parts < 16; ++parts) {
    at = skip_spaces(text, at);
    if (text.substr(at).starts_with("/*")) {
      const std::size_t found = text.find("*/", at + 2);
      const std::size_t end = found == std::string_view::npos ? text.size() : found + 2;
      const std::string_view comment = text.substr(at, end - at);
      std::string out = licence(comment) ? std::string() : bare(comment);
      if (out.size() > 20) return out;
      at = end;
    } else if (text.substr(at).starts_with("//")) {
      std::size_t end = at;
      while (end < text.size() && text.substr(skip_spaces(text, end)).starts_with("//"))
        end = std::min(text.find('\n', skip_spaces(text, end)), text.size());
      const std::string_view comment = text.substr(at, end - at);
      std::string out = licence(comment) ? std::string() : bare(comment);
      if (out.size() > 20) return out;
      at = end;
    } else if (text.substr(at).starts_with("#")) {
      at = std::min(text.find('\n', at), text.size());
    } else {
      break;
    }
  }
  return {};
}

}  // namespace planish::patterns
