#include "patterns/vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "database/transaction.h"
#include "patterns/reader.h"
#include "patterns/tables.h"

namespace planish::patterns {
namespace {

/// Bytes of a text: about what models with the shortest context (512 tokens) take of identifiers.
constexpr std::size_t most_bytes = 1000;
/// Queries that are kept.
constexpr std::int64_t most_queries = 10'000;

/// Of a family's first pattern what says most comes first: servers cut what is too long.
std::string text_of(const Pattern& p) {
  std::string out = fmt::format("{}\n{}\n{}\n", p.name, p.summary, text(p.facts));
  out += p.path;
  if (out.size() > most_bytes) {
    std::size_t end = most_bytes;
    while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0U) == 0x80) --end;
    out.resize(end);
  }
  return out;
}

Result<std::string> first_text(Reader& reader, std::int64_t pattern) {
  PLANISH_TRY(bool there, reader.hit.reset().bind(1, pattern).step());
  std::string out = there ? text_of(pattern_from(reader.hit)) : std::string();
  reader.hit.reset();
  return out;
}

Result<std::int64_t> count(database::Database& database, const char* sql) {
  PLANISH_TRY(auto row, database.prepare(sql));
  PLANISH_TRY(bool there, row.step());
  return there ? row.integer(0) : 0;
}

Status check(const std::vector<std::vector<float>>& vectors, std::size_t texts, int& dimensions) {
  if (vectors.size() != texts)
    return fail("bad_vectors", fmt::format("{} vectors were made of {} texts", vectors.size(), texts));
  for (const auto& one : vectors) {
    if (dimensions == 0) dimensions = static_cast<int>(one.size());
    if (one.empty() || one.size() != static_cast<std::size_t>(dimensions))
      return fail("bad_vectors",
                  fmt::format("a vector of {} numbers cannot stand beside those of {}", one.size(), dimensions),
                  "the server gives another model's vectors under the same name: give it its own `name`, and run "
                  "`planish patterns embed` again");
    if (!std::ranges::all_of(one, [](float value) { return std::isfinite(value); }))
      return fail("bad_vectors", "a vector holds what is no number");
  }
  return {};
}

}  // namespace

std::string pack_vector(const std::vector<float>& vector) {
  float most = 0;
  for (const float value : vector) most = std::max(most, std::abs(value));
  std::string out;
  for (const float value : vector) out += static_cast<char>(most > 0 ? std::lround(value / most * 127.0F) : 0);
  return out;
}

Result<Vectors> Vectors::open(const std::filesystem::path& file) {
  PLANISH_TRY(auto database, database::Database::open(file.string(), true, index_words));
  PLANISH_TRY(auto reader, open_reader(file));
  return Vectors(std::move(database), std::move(reader));
}

Result<VectorState> Vectors::state() {
  VectorState out;
  {
    PLANISH_TRY(auto row, database_.prepare("SELECT model, asked, dimensions FROM embedding"));
    PLANISH_TRY(bool there, row.step());
    if (there) {
      out.model = VectorModel{row.text(0), static_cast<int>(row.integer(1))};
      out.dimensions = static_cast<int>(row.integer(2));
    }
  }
  PLANISH_TRY(out.texts, count(database_, "SELECT count(*) FROM families"));
  PLANISH_TRY(out.embedded,
              count(database_, "SELECT count(*) FROM family_texts n JOIN vectors v ON v.digest=n.digest"));
  return out;
}

Status Vectors::name_texts() {
  PLANISH_TRY(auto transaction, database::Transaction::begin(database_));
  std::vector<std::pair<std::int64_t, std::int64_t>> fresh;
  {
    PLANISH_TRY(auto row, database_.prepare("SELECT family, min(id) FROM patterns WHERE family NOT IN (SELECT family "
                                            "FROM family_texts) GROUP BY family"));
    while (true) {
      PLANISH_TRY(bool more, row.step());
      if (!more) break;
      fresh.emplace_back(row.integer(0), row.integer(1));
    }
  }
  {
    PLANISH_TRY(auto add, database_.prepare("INSERT INTO family_texts VALUES(?,?,?)"));
    for (const auto& [family, first] : fresh) {
      PLANISH_TRY(const std::string text, first_text(reader_, first));
      PLANISH_CHECK(add.reset().bind(1, family).bind(2, first).bind(3, sha256_hex(text)).run());
    }
  }
  return transaction.commit();
}

Result<std::int64_t> Vectors::use(const VectorModel& model) {
  PLANISH_TRY(auto transaction, database::Transaction::begin(database_));
  PLANISH_TRY(const VectorState before, state());
  std::int64_t dropped = 0;
  if (before.model != model) {
    dropped = before.embedded;
    PLANISH_CHECK(database_.execute("DELETE FROM vectors; DELETE FROM queries; DELETE FROM embedding"));
    PLANISH_TRY(auto add, database_.prepare("INSERT INTO embedding VALUES(1,?,?,0)"));
    PLANISH_CHECK(add.bind(1, model.name).bind(2, static_cast<std::int64_t>(model.asked_dimensions)).run());
    PLANISH_CHECK(touch(database_));
  }
  PLANISH_CHECK(transaction.commit());
  return dropped;
}

Status Vectors::keep(const char* sql, const VectorModel& model, const std::vector<std::string>& keys,
                     const std::vector<std::vector<float>>& vectors) {
  PLANISH_TRY(auto transaction, database::Transaction::begin(database_));
  PLANISH_TRY(const VectorState now, state());
  if (now.model != model)
    return fail("bad_vectors", "another process has begun to make vectors with another model",
                "run `planish patterns embed` again when it has ended");
  int dimensions = now.dimensions;
  PLANISH_CHECK(check(vectors, keys.size(), dimensions));
  {
    PLANISH_TRY(auto set, database_.prepare("UPDATE embedding SET dimensions=?"));
    PLANISH_CHECK(set.bind(1, static_cast<std::int64_t>(dimensions)).run());
    PLANISH_TRY(auto add, database_.prepare(sql));
    for (std::size_t i = 0; i < keys.size(); ++i)
      PLANISH_CHECK(add.reset().bind(1, keys[i]).bind_blob(2, pack_vector(vectors[i])).run());
  }
  return transaction.commit();
}

Result<Vectors::Embedded> Vectors::embed(const VectorModel& model, const Embedder& embedder, std::size_t batch,
                                         const CancelToken* cancel,
                                         const std::function<void(std::int64_t, std::int64_t)>& progress) {
  Embedded out;
  PLANISH_TRY(out.dropped, use(model));
  PLANISH_CHECK(name_texts());
  PLANISH_TRY(const VectorState before, state());
  out.kept = before.embedded;
  std::vector<std::pair<std::string, std::int64_t>> missing;
  {
    PLANISH_TRY(auto row, database_.prepare("SELECT digest, min(first) FROM family_texts WHERE digest NOT IN (SELECT "
                                            "digest FROM vectors) GROUP BY digest ORDER BY 2"));
    while (true) {
      PLANISH_TRY(bool more, row.step());
      if (!more) break;
      missing.emplace_back(row.text(0), row.integer(1));
    }
  }
  const auto all = static_cast<std::int64_t>(missing.size());
  for (std::size_t at = 0; at < missing.size(); at += batch) {
    if (cancel != nullptr && cancel->cancelled())
      return fail("cancelled", fmt::format("interrupted after {} of {} texts", out.made, all),
                  "what was made is kept; the same command goes on");
    std::vector<std::string> keys, texts;
    for (std::size_t i = at; i < std::min(missing.size(), at + batch); ++i) {
      PLANISH_TRY(std::string text, first_text(reader_, missing[i].second));
      if (sha256_hex(text) != missing[i].first) continue;  // replaced meanwhile
      keys.push_back(missing[i].first);
      texts.push_back(std::move(text));
    }
    if (texts.empty()) continue;
    PLANISH_TRY(const auto vectors, embedder(texts));
    PLANISH_CHECK(keep("INSERT OR REPLACE INTO vectors VALUES(?,?)", model, keys, vectors));
    PLANISH_CHECK(touch(database_));
    out.made += static_cast<std::int64_t>(keys.size());
    if (progress) progress(out.made, all);
  }
  PLANISH_CHECK(database_.execute("DELETE FROM vectors WHERE digest NOT IN (SELECT digest FROM family_texts)"));
  return out;
}

Result<std::string> Vectors::of_query(const VectorModel& model, const std::string& query, const Embedder& embedder) {
  {
    PLANISH_TRY(auto row, database_.prepare("SELECT vector FROM queries WHERE text=?"));
    PLANISH_TRY(bool there, row.bind(1, query).step());
    if (there) return row.text(0);
  }
  PLANISH_TRY(const auto vectors, embedder({query}));
  PLANISH_CHECK(keep("INSERT OR REPLACE INTO queries(text, vector) VALUES(?,?)", model, {query}, vectors));
  PLANISH_CHECK(database_.execute(
      fmt::format("DELETE FROM queries WHERE id <= (SELECT max(id) FROM queries) - {}", most_queries)));
  return pack_vector(vectors.front());
}

}  // namespace planish::patterns
