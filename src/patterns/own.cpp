#include "patterns/own.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "codegen/templates/template.h"
#include "patterns/catalogue.h"

namespace planish::patterns {
namespace {

/// A file of patterns/: a heading, "- key: value" lines, a summary, text.
struct Entry {
  std::string anchor, facts, source, summary, text;
};

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

Entry entry_of(std::string_view text) {
  Entry out;
  out.text = text;
  while (!text.empty() && out.summary.empty()) {
    const std::string_view line = next_line(text);
    for (const auto& [key, to] :
         {std::pair{"- anchor: ", &out.anchor}, {"- facts: ", &out.facts}, {"- source: ", &out.source}}) {
      if (line.starts_with(key)) *to = line.substr(std::string_view(key).size());
    }
    if (!line.empty() && line[0] != '#' && line[0] != '-') out.summary = line;
  }
  return out;
}

/// "operation=gemm,conv; arch=90"
Facts facts_of(std::string_view text) {
  Facts out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find("; "), text.size());
    const std::string_view one = text.substr(0, end);
    if (const std::size_t at = one.find('='); at != std::string_view::npos) {
      std::string_view values = one.substr(at + 1);
      while (!values.empty()) {
        const std::size_t comma = std::min(values.find(','), values.size());
        add_fact(out, one.substr(0, at), values.substr(0, comma));
        values.remove_prefix(std::min(comma + 1, values.size()));
      }
    }
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return out;
}

/// The template's name as a file's: "row-and-column" → "row_and_column".
std::string file_name(std::string_view name) {
  std::string out(name);
  std::ranges::replace_if(out, [](char c) { return c == ' ' || c == '-'; }, '_');
  return out + ".md";
}

std::optional<std::string_view> file(std::string_view name) {
  const auto& all = catalogue_files();
  const auto found = std::ranges::find(all, name, &CatalogueFile::name);
  return found == all.end() ? std::nullopt : std::optional(found->text);
}

/// "On NVIDIA H200: 66 kernels of 56 tasks in published results, half of them at 88 % of the roofline or more."
std::string achievements(const Json& all, const std::string& anchor, std::string_view name) {
  if (!all.is_object() || !all.contains(anchor)) return "No published result times it yet.\n";
  std::string out;
  for (const auto& [device, one] : all[anchor].items()) {
    out += fmt::format(
        "On {}: {} kernels of {} tasks in published results, half of them at {:.0f} % of the roofline or "
        "more, the best at {:.0f} %.\n",
        device, one.value("regions", 0), one.value("tasks", 0), 100 * one.value("median_fraction", 0.0),
        100 * one.value("best_fraction", 0.0));
  }
  if (const auto sharing = templates_of_anchor(anchor); sharing.size() > 1)
    out += fmt::format("Results are filed under the anchor `{}`: those of {} count together.\n", anchor,
                       sharing[0] == name ? fmt::format("`{}` and `{}`", name, sharing[1])
                                          : fmt::format("`{}` and `{}`", sharing[0], name));
  return out;
}

}  // namespace

std::vector<std::string> templates_of_anchor(std::string_view anchor) {
  std::vector<std::string> out;
  for (const codegen::Template* one : codegen::all_templates()) {
    const auto text = file(file_name(one->name()));
    if (text && entry_of(*text).anchor == anchor) out.emplace_back(one->name());
  }
  return out;
}

std::vector<Pattern> own_patterns() {
  const auto measured = parse_json(file("achieved.json").value_or("{}"), "bad_catalogue", "patterns/achieved.json");
  std::vector<Pattern> out;
  for (const codegen::Template* one : codegen::all_templates()) {
    const auto text = file(file_name(one->name()));
    if (!text) continue;
    Entry entry = entry_of(*text);
    Pattern pattern;
    pattern.kind = "planish";
    pattern.corpus = own_corpus;
    pattern.form = "template";
    pattern.name = one->name();
    pattern.path = entry.source;
    pattern.summary = entry.summary;
    pattern.facts = facts_of(entry.facts);
    pattern.source = fmt::format("{}\n**Achieved.** {}", entry.text,
                                 achievements(measured ? *measured : Json::object(), entry.anchor, pattern.name));
    pattern.more_words = entry.text;
    pattern.foreign = false;
    out.push_back(std::move(pattern));
  }
  return out;
}

}  // namespace planish::patterns
