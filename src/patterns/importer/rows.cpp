#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/json.h"
#include "patterns/importer/import.h"
#include "patterns/importer/text_facts.h"

namespace planish::patterns {
namespace {

/// A row as it came: nothing in it is believed but that it is text.
struct Row {
  std::string form, name, path, doc, words, family, source;
  std::int64_t line = 0;
  Facts facts;  ///< in the reader's own words
  std::vector<std::string> configurations;
};

constexpr std::size_t most_values = 64;
/// What a reader may say that a row is.
constexpr std::array<std::string_view, 3> forms{"configuration", "kernel", "device function"};

bool plain(std::string_view text) {
  return text.size() <= 200 && std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

Result<Row> row_of(const Json& json) {
  Row out;
  ObjectReader reader(json, "bad_row", "row");
  reader.lenient();
  constexpr auto optional = ObjectReader::Need::optional;
  reader.text("form", out.form);
  reader.text("name", out.name);
  reader.text("path", out.path);
  reader.integer("line", out.line, optional);
  reader.text("doc", out.doc, optional);
  reader.text("words", out.words, optional);
  reader.text("family", out.family, optional);
  reader.text("source", out.source, optional);
  reader.texts("configurations", out.configurations, optional);
  if (const Json* facts = reader.object("facts", optional); facts != nullptr && facts->is_object()) {
    for (const auto& [name, values] : facts->items()) {
      if (!values.is_array() || !plain(name) || out.facts.size() >= most_values) continue;
      for (const Json& value : values) {
        if (value.is_string() && plain(value.get_ref<const std::string&>()) &&
            (!out.facts.contains(name) || out.facts[name].size() < most_values))
          add_fact(out.facts, name, value.get_ref<const std::string&>());
      }
    }
  }
  PLANISH_CHECK(reader.finish());
  if (std::ranges::find(forms, out.form) == forms.end()) return fail("bad_row", "a row's form is none that is known");
  if (out.name.empty() || out.name.size() > 400 || out.path.size() > 4096 || out.source.size() > 400'000)
    return fail("bad_row", "a row's fields are empty or too long");
  return out;
}

std::string_view first(const Facts& facts, std::string_view name) {
  const auto found = facts.find(name);
  return found == facts.end() || found->second.empty() ? std::string_view{} : found->second.front();
}

/// "128x256x64" → small, medium or large: what shapes of a product such a tile suits.
std::string_view shape_of_tile(std::string_view tile) {
  int m = 0, n = 0;
  const char* end = tile.data() + tile.size();
  const auto [at, failed] = std::from_chars(tile.data(), end, m);
  if (failed != std::errc() || at == end || *at != 'x') return {};
  if (std::from_chars(at + 1, end, n).ec != std::errc() || m <= 0 || n <= 0 || m > 65536 || n > 65536) return {};
  const int area = m * n;
  return area <= 64 * 64 ? "small" : area < 128 * 128 ? "medium" : "large";
}

/// The generator's own words as facts that are compared.
Facts facts_of_configuration(const Row& row) {
  Facts out;
  const Facts& said = row.facts;
  for (const auto& [name, values] : said) {
    for (const std::string& value : values) {
      if (name == "operation") {
        add_said(out, value, {"operation", "variant"});
      } else if (name == "variant" || name == "math") {
        add_said(out, value, {"variant"});
        if (value == "multiply_add_fast_f32") add_fact(out, "variant", "3xtf32");
        if (value == "multiply_add_complex_fast_f32") add_fact(out, "variant", "3xtf32");
      } else if (name == "a" || name == "b" || name == "math_element") {
        add_said(out, value, {"dtype"});
        if (value.starts_with("cf") || value.starts_with("cb")) {
          add_fact(out, "variant", "complex");
          add_fact(out, "dtype", value == "cf64" ? "c64" : "c32");
        }
      } else if (name == "accumulator") {
        add_fact(out, "accumulator", value);
      } else if (name == "opcode") {
        add_said(out, value, {"opcode", "variant"});
      } else if (name == "schedule" || name == "scheduler") {
        add_said(out, value, {"schedule", "variant"});
      } else if (name == "epilogue") {
        add_said(out, value, {"epilogue"});
        add_fact(out, "epilogue_functor", value);
      } else if (name == "arch" || name == "tile" || name == "cluster" || name == "stages") {
        if (!(name == "cluster" && value.starts_with("0x"))) add_fact(out, name, value);
      } else if (name != "layouts") {
        add_fact(out, name, value);
      }
    }
  }
  if (const auto found = said.find("mixed_input_mode"); found != said.end()) add_fact(out, "variant", "mixed_input");
  if (first(said, "a") != first(said, "b") && has_fact(out, "operation", "gemm") && !first(said, "b").empty()) {
    const auto wide = [](std::string_view type) { return type.find("16") != std::string_view::npos; };
    if (wide(first(said, "a")) != wide(first(said, "b"))) add_fact(out, "variant", "mixed_input");
  }
  if (!first(said, "scale_block").empty()) add_fact(out, "variant", "blockwise");
  if (const std::string_view shape = shape_of_tile(first(said, "tile")); !shape.empty()) add_fact(out, "shape", shape);
  return out;
}

/// Layouts in the order A, B, C as letters: row-major operands are "t", column-major ones "n".
void add_layouts(Facts& facts, const std::vector<std::string>& layouts) {
  std::string letters;
  for (const std::string& one : layouts) {
    if (one == "RowMajor") letters += 't';
    if (one == "ColumnMajor") letters += 'n';
    if (one.starts_with("TensorN")) add_said(facts, one.substr(6), {"layout"});
  }
  if (letters.size() >= 2) add_fact(facts, "layout", letters.substr(0, 2));
  if (letters.size() >= 3) add_fact(facts, "layout", letters.substr(0, 3));
}

Pattern configuration(Row row, const std::vector<std::string>& layouts) {
  Pattern out;
  out.facts = facts_of_configuration(row);
  add_layouts(out.facts, layouts);
  add_fact(out.facts, "language", "cutlass");
  out.family = "configuration " + row.family;
  out.more_words = fmt::format("generator instance {}", text(row.facts));
  return out;
}

Pattern triton_kernel(const Row& row) {
  Pattern out;
  add_said(out.facts, row.name + " " + row.path);
  // What a kernel is for stands in its own words first; a docstring that mentions a norm is not about norms.
  if (!out.facts.contains("operation")) add_said(out.facts, row.doc.substr(0, 200), {"operation"});
  for (const auto& [name, values] : row.facts) {
    for (const std::string& value : values) {
      if (name == "backend") {
        add_fact(out.facts, "language", value);
      } else if (name == "cast") {
        add_fact(out.facts, "computes_in", value);
      } else {
        add_fact(out.facts, name, value);
      }
    }
  }
  if (has_fact(out.facts, "trait", "dot") && !out.facts.contains("operation")) add_fact(out.facts, "operation", "gemm");
  out.summary = summary_of(row.doc);
  out.more_words = row.doc + " " + row.words;
  for (const std::string& one : row.configurations) out.more_words += " " + one;
  return out;
}

std::vector<std::string> texts_of(const Json& json, const char* name) {
  std::vector<std::string> out;
  if (!json.contains("facts") || !json["facts"].is_object() || !json["facts"].contains(name)) return out;
  const Json& values = json["facts"][name];
  if (!values.is_array()) return out;
  for (const Json& value : values) {
    if (value.is_string() && out.size() < most_values) out.push_back(value.get<std::string>());
  }
  return out;
}

}  // namespace

Status read_rows(std::string_view rows, std::string_view kind, Imported& into) {
  bool ended = false;
  int bad = 0;
  std::string last_bad;
  while (!rows.empty()) {
    const std::size_t end = std::min(rows.find('\n'), rows.size());
    const std::string_view line = rows.substr(0, end);
    rows.remove_prefix(std::min(end + 1, rows.size()));
    if (line.empty()) continue;
    const auto json = parse_json(line, "bad_row", "a row");
    if (!json || !json->is_object()) {
      ++bad;
      last_bad = json ? "no object" : json.error().message;
      continue;
    }
    if (json->contains("end")) {
      ended = true;
      if (json->value("full", false)) into.skipped.push_back({"…", "there was more than one import may hold"});
      continue;
    }
    if (json->contains("skipped")) {
      const Json& path = (*json)["skipped"];
      const Json why = json->value("why", Json());
      into.skipped.push_back(
          {path.is_string() ? path.get<std::string>() : "?", why.is_string() ? why.get<std::string>() : "?"});
      continue;
    }
    auto row = row_of(*json);
    if (!row) {
      ++bad;
      last_bad = row.error().message;
      continue;
    }
    Pattern pattern =
        row->form == "configuration" ? configuration(*row, texts_of(*json, "layouts")) : triton_kernel(*row);
    pattern.form = row->form;
    pattern.name = row->name;
    pattern.path = row->path;
    pattern.line = row->line;
    pattern.source = std::move(row->source);
    into.patterns.push_back(std::move(pattern));
  }
  if (bad > 0) into.skipped.push_back({fmt::format("{} rows", bad), last_bad});
  if (!ended) {
    return fail("reader_failed", fmt::format("the reader of {} files ended before it was done", kind),
                "import a part of the folder to find the file that stops it");
  }
  return {};
}

}  // namespace planish::patterns
