#include <algorithm>

#include "patterns/importer/cxx.h"
#include "patterns/importer/import.h"
#include "patterns/importer/text_facts.h"

namespace planish::patterns {

void read_cuda(const SourceFile& file, const std::string& text, std::vector<Pattern>& into) {
  if (text.find("__global__") == std::string::npos) return;
  const std::string code = without_comments(text);
  const std::string about = file_comment(text);
  for (const Declaration& one : declarations(text)) {
    if (!one.kernel) continue;
    Pattern pattern;
    pattern.form = "kernel";
    pattern.name = one.name;
    pattern.path = file.name;
    pattern.line = static_cast<std::int64_t>(one.line);
    pattern.summary = summary_of(one.comment);
    const std::string_view body = std::string_view(code).substr(one.begin, one.end - one.begin);
    const std::string head = one_line(std::string_view(code).substr(one.begin, one.body - one.begin));
    add_said(pattern.facts, one.name + " " + file.name);
    add_said(pattern.facts, one.comment, {"operation", "direction", "variant"});
    add_shown(pattern.facts, body);
    add_fact(pattern.facts, "language", "cuda");
    pattern.source = text.substr(one.begin, std::min<std::size_t>(one.end - one.begin, 48'000));
    pattern.more_words = head + " " + about.substr(0, 1000) + " " + std::string(body.substr(0, 12'000));
    into.push_back(std::move(pattern));
  }
}

}  // namespace planish::patterns
