#include "coder/patch.h"

#include <fmt/format.h>

namespace planish::coder {
namespace {

/// The beginning of what was searched for, on one line.
std::string shown(const std::string& text) {
  constexpr std::size_t most = 60;
  std::string out = text.substr(0, text.find('\n'));
  const bool cut = out.size() > most || out.size() < text.size();
  out.resize(std::min(out.size(), most));
  return cut ? out + "…" : out;
}

}  // namespace

Result<std::string> apply_edits(std::string text, const std::vector<Edit>& edits) {
  const auto refuse = [](std::string what) {
    return fail("bad_patch", std::move(what), "copy the lines to replace from the parent, with enough around them");
  };
  if (edits.empty()) return refuse("the patch has no edits");
  const std::string before = text;
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const Edit& edit = edits[i];
    if (edit.search.empty()) return refuse(fmt::format("edit {} searches for nothing", i + 1));
    const auto at = text.find(edit.search);
    if (at == std::string::npos)
      return refuse(fmt::format("edit {}: `{}` stands nowhere in the parent", i + 1, shown(edit.search)));
    if (text.find(edit.search, at + 1) != std::string::npos)
      return refuse(fmt::format("edit {}: `{}` stands in several places", i + 1, shown(edit.search)));
    text.replace(at, edit.search.size(), edit.replace);
  }
  if (text == before) return refuse("the patch changes nothing");
  return text;
}

}  // namespace planish::coder
