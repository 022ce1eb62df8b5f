#include "patterns/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "patterns/tables.h"

namespace planish::patterns {
namespace {

Facts facts_from_lines(std::string_view lines) {
  Facts out;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\x1e'), lines.size());
    const std::string_view line = lines.substr(0, end);
    if (const std::size_t at = line.find('\x1f'); at != std::string_view::npos)
      add_fact(out, line.substr(0, at), line.substr(at + 1));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return out;
}

}  // namespace

std::string facts_as_lines(const Facts& facts) {
  std::string out;
  for (const auto& [name, values] : facts) {
    for (const std::string& value : values) out += fmt::format("{}\x1f{}\x1e", name, value);
  }
  return out;
}

Result<Reader> open_reader(const std::filesystem::path& file) {
  PLANISH_TRY(auto database, database::Database::open(file.string(), false, index_words));
  PLANISH_TRY(auto match, database.prepare("SELECT rowid, bm25(documents, 6.0, 3.0, 1.0) AS b FROM documents WHERE "
                                           "documents MATCH ? ORDER BY b LIMIT 400"));
  PLANISH_TRY(auto generation, database.prepare("SELECT value FROM meta WHERE key='generation'"));
  PLANISH_TRY(auto hit,
              database.prepare(
                  "SELECT t.key, t.name, t.path, t.line, t.summary, t.facts, t.source, p.form, c.kind, c.name, "
                  "CASE WHEN t.source='' THEN f.source ELSE t.source END FROM texts t JOIN patterns p ON p.id=t.id "
                  "JOIN corpora c ON c.id=p.corpus JOIN families f ON f.id=p.family WHERE t.id=?"));
  return Reader{std::move(database), std::move(match), std::move(generation), std::move(hit)};
}

Pattern pattern_from(const database::Statement& row) {
  Pattern out;
  out.id = row.text(0);
  out.name = row.text(1);
  out.path = row.text(2);
  out.line = row.integer(3);
  out.summary = row.text(4);
  out.facts = facts_from_lines(row.text(5));
  out.form = row.text(7);
  out.kind = row.text(8);
  out.corpus = row.text(9);
  out.source = row.text(10);
  out.foreign = out.kind != "planish";
  return out;
}

}  // namespace planish::patterns
