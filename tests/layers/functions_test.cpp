// Functions stay short enough to be read at once: what grows beyond is to be taken apart along its seams.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace fs = std::filesystem;

namespace {

constexpr int most_lines = 100;

/// Where a comment, a literal or a directive that begins at `at` ends; `at` itself where none does.
std::size_t end_of_text(const std::string& source, std::size_t at, bool line_begins) {
  const auto behind = [&](std::string_view end, std::size_t from) {
    const auto found = source.find(end, from);
    return found == std::string::npos ? source.size() : found + end.size();
  };
  const auto is = [&](std::string_view begin) { return source.compare(at, begin.size(), begin) == 0; };
  const bool in_word = at > 0 && (std::isalnum(static_cast<unsigned char>(source[at - 1])) || source[at - 1] == '_');
  if (is("//") || (line_begins && is("#"))) return std::min(source.find('\n', at), source.size());
  if (is("/*")) return behind("*/", at + 2);
  if (is("R\"") && !in_word) {
    const auto open = source.find('(', at);
    return behind(")" + source.substr(at + 2, open - at - 2) + "\"", open);
  }
  if (!is("\"") && (!is("'") || in_word)) return at;  // 1'000 is a number
  for (std::size_t i = at + 1; i < source.size(); ++i) {
    if (source[i] == source[at]) return i + 1;
    if (source[i] == '\\') ++i;
  }
  return source.size();
}

/// The source with nothing but spaces for comments and directives, and letters for what literals hold.
std::string code_of(const std::string& source) {
  std::string out;
  bool line_begins = true;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t end = end_of_text(source, at, line_begins);
    const char c = source[at];
    if (end == at) {
      out += c;
      ++at;
      if (c == '\n' || !std::isspace(static_cast<unsigned char>(c))) line_begins = c == '\n';
      continue;
    }
    const bool silent = c == '/' || c == '#';
    for (; at < end; ++at) out += source[at] == '\n' ? '\n' : silent ? ' ' : 's';
    line_begins = line_begins && silent;
  }
  return out;
}

/// Whether what stands in front of a brace is a function's head.
bool heads_a_function(std::string_view head) {
  if (head.starts_with("template")) {
    int depth = 0;
    for (std::size_t i = 0; i < head.size(); ++i) {
      depth += head[i] == '<' ? 1 : head[i] == '>' ? -1 : 0;
      if (head[i] != '>' || depth != 0) continue;
      head.remove_prefix(std::min(head.find_first_not_of(" \n", i + 1), head.size()));
      break;
    }
  }
  for (const std::string_view word : {"namespace", "struct", "class", "enum", "union", "extern"}) {
    if (head.starts_with(word) &&
        (head.size() == word.size() || std::isspace(static_cast<unsigned char>(head[word.size()]))))
      return false;
  }
  const auto closing = head.rfind(')');
  if (closing == std::string_view::npos || head.ends_with('=')) return false;
  // `std::array<int, count()> all{` is a table.
  const std::string_view rest = head.substr(closing);
  return rest.find('>') == std::string_view::npos || rest.find("->") != std::string_view::npos;
}

struct Function {
  int line = 0, lines = 0;
  std::string head;
};

/// Those that lie in no other, head and body.
std::vector<Function> functions_of(const std::string& source) {
  const std::string code = code_of(source);
  const auto line_at = [&](std::size_t at) {
    return 1 + static_cast<int>(std::count(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  };
  struct Block {
    std::size_t head, open;
    bool function;
  };
  std::vector<Block> blocks;
  std::vector<Function> out;
  int inside = 0;  // functions
  std::size_t since = 0;
  for (std::size_t at = 0; at < code.size(); ++at) {
    if (code[at] == ';') since = at + 1;
    if (code[at] == '{') {
      const std::size_t head = std::min(code.find_first_not_of(" \n", since), at);
      std::string_view text = std::string_view(code).substr(head, at - head);
      while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
      // `: a_{1} {`: the body of a constructor follows the value of its last member.
      const bool constructor = text.empty() && since > 0 && code[since - 1] == '}';
      const bool function = inside == 0 && (constructor || heads_a_function(text));
      inside += function ? 1 : 0;
      blocks.push_back({head, at, function});
      since = at + 1;
    }
    if (code[at] == '}' && !blocks.empty()) {
      const Block block = blocks.back();
      blocks.pop_back();
      since = at + 1;
      if (!block.function) continue;
      --inside;
      const int line = line_at(block.head);
      out.push_back({line, line_at(at) - line + 1, source.substr(block.head, block.open - block.head)});
    }
  }
  return out;
}

}  // namespace

TEST_CASE("functions are found, and how long they are") {
  const auto found = functions_of(R"code(#include <map>
#define OPENS {
namespace a {
/* { */ struct S { int x = 1; };
constexpr int table[] = {1, 2};
constexpr std::array<int, f()> all{
    1,
};
template <typename T>
auto first(T t) -> std::vector<int> {
  const auto inner = [&](int i) {
    return i;
  };
  if (t) return inner('{');
  return 10'000;
}
class C {
  C(int x) : x_{x} {
    for (;;) {
    }
  }
  const char* text() const { return "}}{"; }
};
std::string raw() {
  return R"x(
{{)x";
}
}  // namespace a
)code");
  const auto has = [&](int line, int lines) {
    return std::ranges::any_of(found, [&](const Function& f) { return f.line == line && f.lines == lines; });
  };
  CHECK(has(9, 8));
  CHECK(has(18, 4));
  CHECK(has(22, 1));
  CHECK(has(24, 4));
  CHECK(std::ranges::none_of(found, [](const Function& f) { return f.line < 9; }));
}

TEST_CASE("a long function is long") {
  std::string body;
  for (int i = 0; i < most_lines; ++i) body += "  call();\n";
  const auto found = functions_of("void f() {\n" + body + "}\n");
  REQUIRE(found.size() == 1);
  CHECK(found[0].lines == most_lines + 2);
}

TEST_CASE("no function has more lines than can be read at once") {
  const fs::path root = PLANISH_SOURCE_DIR;
  std::size_t functions = 0;
  for (const char* folder : {"src", "runtime"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cc") continue;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      for (const Function& function : functions_of(text.str())) {
        ++functions;
        CHECK_MESSAGE(function.lines <= most_lines,
                      fmt::format("{}:{}: {} lines: {}", fs::relative(entry.path(), root).string(), function.line,
                                  function.lines, function.head));
      }
    }
  }
  CHECK(functions > 3000);
}
