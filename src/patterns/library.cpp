#include "patterns/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "database/sqlite.h"
#include "database/transaction.h"
#include "patterns/own.h"
#include "patterns/reader.h"
#include "patterns/snapshot.h"
#include "patterns/tables.h"
#include "patterns/words.h"

namespace planish::patterns {
namespace {

namespace fs = std::filesystem;
using database::Database;
using database::Transaction;

/// What a text must share of all texts to be looked up no more: its facts say it.
constexpr double frequent_share = 0.12;

std::uint64_t content_of(const Pattern& p) {
  // Spaces do not count: the same kernel in another indentation is the same.
  std::string bare;
  for (const char c : p.source) {
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') bare += c;
  }
  // Of a configuration the source is its family's, and the name says all.
  const bool named = p.form == "configuration" || p.source.empty();
  const std::string key = named ? fmt::format("{}\n{}\n{}\n{}", p.kind, p.form, p.name, text(p.facts))
                                : fmt::format("{}\n{}\n{}", p.kind, p.form, bare);
  return std::stoull(sha256_hex(key).substr(0, 16), nullptr, 16);
}

/// Of a pattern by itself: what has its own source and little of it is a helper or a tag, and says less
/// than a whole kernel.
double prior_of(const Pattern& p) {
  constexpr double whole = 1500, most = 1.5, example = 0.75;
  if (p.form == "example") return example;  // a whole kernel, and how it is called
  if (p.source.empty() || p.form == "configuration") return 0;
  return -most * std::max(0.0, 1.0 - static_cast<double>(p.source.size()) / whole);
}

/// Words once each, up to a number of them: what a text says, not how often it says it.
std::string joined(const std::vector<std::string>& all, std::size_t limit) {
  std::string out;
  std::unordered_set<std::string_view> seen;
  for (const std::string& word : all) {
    if (seen.size() >= limit) break;
    if (!seen.insert(word).second) continue;
    out += word;
    out += ' ';
  }
  return out;
}

/// Text of one family as it is searched.
struct Document {
  std::vector<std::string> title, facts, body;
  std::string source;
  std::int64_t id = 0;
};

void add_to(Document& document, const Pattern& p) {
  const auto put = [](std::vector<std::string>& to, std::string_view text, std::size_t limit) {
    std::vector<std::string> more = words(text, limit);
    to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  // Of families with thousands of members the first few hundred say every word.
  if (document.title.size() < 4000) {
    put(document.title, p.name, 128);
    put(document.title, p.path, 64);
  }
  if (document.facts.size() < 4000) {
    for (const auto& [name, values] : p.facts) {
      for (const std::string& value : values) put(document.facts, value, 16);
    }
  }
  if (document.body.size() < 4000) {
    put(document.body, p.summary, 1024);
    put(document.body, p.more_words, 2048);
  }
}

Status remove_corpus(Database& database, std::int64_t id) {
  for (const char* sql :
       {"DELETE FROM family_texts WHERE family IN (SELECT id FROM families WHERE corpus=?)",
        "DELETE FROM documents WHERE rowid IN (SELECT id FROM families WHERE corpus=?)",
        "DELETE FROM texts WHERE id IN (SELECT id FROM patterns WHERE corpus=?)", "DELETE FROM patterns WHERE corpus=?",
        "DELETE FROM families WHERE corpus=?", "DELETE FROM corpora WHERE id=?"}) {
    PLANISH_TRY(auto statement, database.prepare(sql));
    PLANISH_CHECK(statement.bind(1, id).run());
  }
  return {};
}

/// After every change: which words are frequent, and that readers must look again.
Status renew(Database& database) {
  PLANISH_TRY(auto count, database.prepare("SELECT count(*) FROM families"));
  PLANISH_TRY(bool there, count.step());
  const double texts = there ? static_cast<double>(count.integer(0)) : 0;
  PLANISH_CHECK(database.execute("DELETE FROM frequent"));
  PLANISH_TRY(auto fill, database.prepare("INSERT INTO frequent SELECT term, doc FROM vocabulary WHERE doc > ?"));
  PLANISH_CHECK(fill.bind(1, std::max(200.0, texts * frequent_share)).run());
  return touch(database);
}

Result<std::optional<std::int64_t>> corpus_id(Database& database, std::string_view name) {
  PLANISH_TRY(auto row, database.prepare("SELECT id FROM corpora WHERE name=?"));
  PLANISH_TRY(bool there, row.bind(1, name).step());
  return there ? std::optional(row.integer(0)) : std::nullopt;
}

std::string digest_of(const std::vector<Pattern>& patterns) {
  std::string all = "1\n";
  for (const Pattern& p : patterns) all += fmt::format("{}\n{}\n{}\n{}\n", p.name, text(p.facts), p.summary, p.source);
  return sha256_hex(all);
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

struct Library::Impl {
  fs::path file;
  Database writer;
  mutable std::mutex mutex;  ///< of what follows
  mutable std::vector<std::unique_ptr<Reader>> idle;
  mutable std::shared_ptr<const Snapshot> snapshot;
  std::shared_ptr<const std::vector<Measured>> measured = std::make_shared<std::vector<Measured>>();
  mutable std::shared_ptr<const std::unordered_map<std::int64_t, double>> bonus;  ///< of that snapshot; may be null

  Result<std::unique_ptr<Reader>> reader() const {
    {
      const std::scoped_lock lock(mutex);
      if (!idle.empty()) {
        auto out = std::move(idle.back());
        idle.pop_back();
        return out;
      }
    }
    PLANISH_TRY(auto made, open_reader(file));
    return std::make_unique<Reader>(std::move(made));
  }
  void give_back(std::unique_ptr<Reader> reader) const {
    const std::scoped_lock lock(mutex);
    if (idle.size() < 64) idle.push_back(std::move(reader));
  }

  /// The state of the transaction that `reader` is in.
  Result<std::shared_ptr<const Snapshot>> current(Reader& reader) const {
    reader.generation.reset();
    PLANISH_TRY(bool there, reader.generation.step());
    const std::int64_t generation = there ? reader.generation.integer(0) : 0;
    reader.generation.reset();
    {
      const std::scoped_lock lock(mutex);
      if (snapshot && snapshot->generation == generation) return snapshot;
    }
    PLANISH_TRY(auto made, load_snapshot(reader.database));
    const std::scoped_lock lock(mutex);
    snapshot = made;
    bonus.reset();
    return made;
  }

  Result<std::shared_ptr<const std::unordered_map<std::int64_t, double>>> bonuses(Reader& reader,
                                                                                  const Snapshot& all) const {
    std::shared_ptr<const std::vector<Measured>> from;
    {
      const std::scoped_lock lock(mutex);
      if (bonus && snapshot && snapshot->generation == all.generation) return bonus;
      from = measured;
    }
    auto made = std::make_shared<std::unordered_map<std::int64_t, double>>();
    if (!from->empty()) {
      PLANISH_TRY(auto row,
                  reader.database.prepare("SELECT t.id, t.name FROM texts t JOIN patterns p ON p.id=t.id JOIN "
                                          "corpora c ON c.id=p.corpus WHERE c.kind='planish'"));
      while (true) {
        PLANISH_TRY(bool more, row.step());
        if (!more) break;
        const std::string name = row.text(1);
        double sum = 0, weight = 0;
        for (const Measured& one : *from) {
          if (one.pattern != name || one.tried == 0) continue;
          const double share = static_cast<double>(one.right) / static_cast<double>(one.tried);
          const auto n = static_cast<double>(one.kernels);
          sum += n * (2.0 * std::min(1.0, one.best_fraction) * std::sqrt(share) - 0.5);
          weight += n;
        }
        // Few kernels say little: what they say shrinks towards nothing.
        if (weight > 0) made->emplace(row.integer(0), sum / (weight + 3.0));
      }
    }
    const std::scoped_lock lock(mutex);
    if (measured == from && snapshot && snapshot->generation == all.generation) bonus = made;
    return made;
  }

  Result<std::vector<Hit>> search(Reader& reader, std::string_view query, const Filter& filter, int k,
                                  const QueryVector& meaning) const;
};

Library::Library(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Library::Library(Library&&) noexcept = default;
Library& Library::operator=(Library&&) noexcept = default;
Library::~Library() = default;

fs::path Library::default_file() {
  return data_dir() / "patterns.db";
}
const fs::path& Library::file() const {
  return impl_->file;
}

Result<Library> Library::open(const fs::path& file) {
  if (file.has_parent_path()) {
    if (auto made = make_directories(file.parent_path()); !made) {
      return wrap(made.error(), fmt::format("the folder of the pattern index {} cannot be made", file.string()));
    }
  }
  auto impl = std::make_unique<Impl>();
  impl->file = file;
  PLANISH_TRY(impl->writer, Database::open(file.string(), true, index_words));
  PLANISH_CHECK(prepare_tables(impl->writer, file.string()));
  Library out(std::move(impl));
  const std::vector<Pattern> own = own_patterns();
  {
    PLANISH_TRY(auto row, out.impl_->writer.prepare("SELECT digest FROM corpora WHERE name=?"));
    PLANISH_TRY(bool there, row.bind(1, std::string_view(own_corpus)).step());
    if (there && row.text(0) == digest_of(own)) return out;
  }
  PLANISH_TRY(auto written, out.replace({own_corpus, "planish", "", 0, 0}, own));
  (void)written;
  return out;
}

Result<Corpus> Library::replace(const Corpus& corpus, const std::vector<Pattern>& patterns) {
  Corpus out = corpus;
  out.imported = now();
  out.patterns = 0;
  Database& db = impl_->writer;
  PLANISH_TRY(auto transaction, Transaction::begin(db));
  PLANISH_TRY(auto old, corpus_id(db, corpus.name));
  if (old) PLANISH_CHECK(remove_corpus(db, *old));
  PLANISH_TRY(auto insert, db.prepare("INSERT INTO corpora(name, kind, folder, imported, patterns, digest) "
                                      "VALUES(?,?,?,?,0,?)"));
  insert.bind(1, corpus.name).bind(2, corpus.kind).bind(3, corpus.folder).bind(4, out.imported);
  PLANISH_CHECK(insert.bind(5, digest_of(patterns)).run());
  const std::int64_t id = db.last_row_id();

  PLANISH_TRY(auto add_family, db.prepare("INSERT INTO families(corpus, source) VALUES(?,?)"));
  PLANISH_TRY(auto add_pattern,
              db.prepare("INSERT INTO patterns(corpus, family, form, content, packed, prior) VALUES(?,?,?,?,?,?)"));
  PLANISH_TRY(auto add_text, db.prepare("INSERT INTO texts VALUES(?,?,?,?,?,?,?,?)"));
  PLANISH_TRY(auto add_document, db.prepare("INSERT INTO documents(rowid, title, facts, body) VALUES(?,?,?,?)"));
  PLANISH_TRY(auto find_value, db.prepare("SELECT id FROM facts WHERE name=? AND value=?"));
  PLANISH_TRY(auto add_value, db.prepare("INSERT INTO facts(name, value) VALUES(?,?)"));
  std::unordered_map<std::string, std::uint32_t> values;
  const auto number_of = [&](const std::string& name, const std::string& value) -> Result<std::uint32_t> {
    const auto [at, fresh] = values.try_emplace(Snapshot::key(name, value), 0);
    if (!fresh) return at->second;
    find_value.reset().bind(1, name).bind(2, value);
    PLANISH_TRY(bool there, find_value.step());
    if (there) return at->second = static_cast<std::uint32_t>(find_value.integer(0));
    PLANISH_CHECK(add_value.reset().bind(1, name).bind(2, value).run());
    return at->second = static_cast<std::uint32_t>(db.last_row_id());
  };

  std::unordered_set<std::uint64_t> contents;
  std::unordered_set<std::string> keys;
  std::map<std::string, Document> families;
  for (const Pattern& p : patterns) {
    const std::uint64_t content = content_of(p);
    if (!contents.insert(content).second) continue;
    const std::string identity = fmt::format("{}\n{}\n{}\n{}\n{}", corpus.name, p.path, p.name, p.form, content);
    const std::string key = sha256_hex(identity).substr(0, 12);
    if (!keys.insert(key).second) continue;
    const bool shared = !p.family.empty() && p.form == "configuration";
    Document& document = families[p.family.empty() ? "=" + key : p.family];
    if (document.id == 0) {
      PLANISH_CHECK(add_family.reset().bind(1, id).bind(2, shared ? p.source : std::string()).run());
      document.id = db.last_row_id();
    }
    add_to(document, p);
    std::string packed;
    for (const auto& [name, all] : p.facts) {
      if (weight_of(name) == nullptr) continue;
      for (const std::string& value : all) {
        PLANISH_TRY(auto number, number_of(name, value));
        packed.append(reinterpret_cast<const char*>(&number), sizeof number);
      }
    }
    add_pattern.reset().bind(1, id).bind(2, document.id).bind(3, p.form).bind(4, static_cast<std::int64_t>(content));
    PLANISH_CHECK(add_pattern.bind_blob(5, packed).bind(6, prior_of(p)).run());
    add_text.reset().bind(1, db.last_row_id()).bind(2, key).bind(3, p.name).bind(4, p.path).bind(5, p.line);
    add_text.bind(6, p.summary).bind(7, facts_as_lines(p.facts));
    PLANISH_CHECK(add_text.bind(8, shared ? std::string() : p.source).run());
    ++out.patterns;
  }
  for (auto& [name, document] : families) {
    add_document.reset().bind(1, document.id).bind(2, joined(document.title, 400));
    PLANISH_CHECK(add_document.bind(3, joined(document.facts, 400)).bind(4, joined(document.body, 800)).run());
  }
  PLANISH_TRY(auto counted, db.prepare("UPDATE corpora SET patterns=? WHERE id=?"));
  PLANISH_CHECK(counted.bind(1, out.patterns).bind(2, id).run());
  PLANISH_CHECK(renew(db));
  PLANISH_CHECK(transaction.commit());
  return out;
}

Result<Corpus> Library::forget(std::string_view name) {
  if (name == own_corpus)
    return fail("bad_filter", "our own patterns cannot be forgotten",
                "they come with Planish; leave them out of a search with --kind");
  PLANISH_TRY(auto all, corpora());
  const auto found = std::ranges::find(all, name, &Corpus::name);
  if (found == all.end()) {
    std::string known;
    for (const Corpus& one : all) known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
    return fail("no_such_corpus", fmt::format("nothing was imported under the name {}", name),
                fmt::format("known: {}; see `planish patterns list`", known));
  }
  PLANISH_TRY(auto transaction, Transaction::begin(impl_->writer));
  PLANISH_TRY(auto id, corpus_id(impl_->writer, name));
  if (id) PLANISH_CHECK(remove_corpus(impl_->writer, *id));
  PLANISH_CHECK(renew(impl_->writer));
  PLANISH_CHECK(transaction.commit());
  (void)impl_->writer.execute("VACUUM");  // gives the space back, where nobody is reading
  return *found;
}

Result<std::vector<Corpus>> Library::corpora() const {
  PLANISH_TRY(auto reader, impl_->reader());
  std::vector<Corpus> out;
  {
    PLANISH_TRY(auto row,
                reader->database.prepare("SELECT name, kind, folder, imported, patterns FROM corpora ORDER BY id"));
    while (true) {
      PLANISH_TRY(bool more, row.step());
      if (!more) break;
      out.push_back({row.text(0), row.text(1), row.text(2), row.real(3), row.integer(4)});
    }
  }
  impl_->give_back(std::move(reader));
  return out;
}

Result<Pattern> Library::find(std::string_view id) const {
  const bool hex =
      !id.empty() && std::ranges::all_of(id, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  const auto none = [&] {
    return fail("no_such_pattern", fmt::format("no pattern has an id that begins with {}", id),
                "ids are the hex digits that `planish patterns search` prints first");
  };
  if (!hex) return none();
  PLANISH_TRY(auto reader, impl_->reader());
  std::vector<std::int64_t> found;
  {
    PLANISH_TRY(auto row, reader->database.prepare("SELECT id FROM texts WHERE key>=? AND key<? LIMIT 2"));
    row.bind(1, id).bind(2, fmt::format("{}g", id));
    while (true) {
      PLANISH_TRY(bool more, row.step());
      if (!more) break;
      found.push_back(row.integer(0));
    }
  }
  if (found.empty()) return none();
  if (found.size() > 1)
    return fail("ambiguous_pattern", fmt::format("several patterns have an id that begins with {}", id),
                "give more of its digits");
  PLANISH_TRY(bool there, reader->hit.reset().bind(1, found.front()).step());
  if (!there) return none();
  Pattern out = pattern_from(reader->hit);
  reader->hit.reset();
  impl_->give_back(std::move(reader));
  return out;
}

Result<std::vector<Hit>> Library::Impl::search(Reader& reader, std::string_view query, const Filter& filter, int k,
                                               const QueryVector& meaning) const {
  PLANISH_TRY(auto all, current(reader));
  const Asked asked = ask(query);
  // Words that many texts have are looked up only where a query has no others, and then the rarest two.
  std::vector<std::pair<std::int64_t, std::string>> rare, frequent;
  for (const std::string& word : asked.words) {
    const auto found = all->frequent.find(word);
    (found == all->frequent.end() ? rare : frequent)
        .emplace_back(found == all->frequent.end() ? 0 : found->second, word);
  }
  std::ranges::sort(frequent);
  if (rare.empty()) rare.assign(frequent.begin(), frequent.begin() + std::min<std::ptrdiff_t>(2, std::ssize(frequent)));
  std::string match;
  for (const auto& [count, word] : rare) match += fmt::format("{}\"{}\"", match.empty() ? "" : " OR ", word);
  std::unordered_map<std::int64_t, double> texts;
  if (!match.empty()) {
    reader.match.reset().bind(1, match);
    while (true) {
      PLANISH_TRY(bool more, reader.match.step());
      if (!more) break;
      texts.emplace(reader.match.integer(0), -reader.match.real(1));
    }
    reader.match.reset();
  }
  PLANISH_TRY(auto measured_bonus, bonuses(reader, *all));
  const auto meanings =
      asked.words.empty() ? std::unordered_map<std::int64_t, double>{} : nearest(*all, meaning.vector);
  PLANISH_TRY(auto best, rank(*all, asked, filter, texts, meanings, meaning.weight.value_or(default_meaning_weight),
                              *measured_bonus, static_cast<std::size_t>(k)));
  std::vector<Hit> out;
  for (const Scored& one : best) {
    PLANISH_TRY(bool there, reader.hit.reset().bind(1, all->rows[one.row].id).step());
    if (!there) continue;
    out.push_back({pattern_from(reader.hit), one.score, one.text, one.facts, one.measured, one.meaning});
  }
  reader.hit.reset();
  return out;
}

Result<std::vector<Hit>> Library::search(std::string_view query, const Filter& filter, int k,
                                         const QueryVector& meaning) const {
  if (k < 1) return std::vector<Hit>{};
  for (const auto& [name, values] : filter.facts) {
    if (weight_of(name) == nullptr)
      return fail(
          "bad_filter", fmt::format("patterns cannot be filtered by {}", name),
          "by operation, variant, direction, dtype, arch, tile, layout, schedule, epilogue, …: docs/patterns.md");
  }
  PLANISH_TRY(auto reader, impl_->reader());
  // One transaction: facts, words and texts are of one state.
  PLANISH_CHECK(reader->database.execute("BEGIN"));
  auto out = impl_->search(*reader, query, filter, k, meaning);
  reader->match.reset();
  reader->hit.reset();
  PLANISH_CHECK(reader->database.execute("COMMIT"));
  impl_->give_back(std::move(reader));
  return out;
}

void Library::set_measured(std::vector<Measured> measured) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->measured = std::make_shared<const std::vector<Measured>>(std::move(measured));
  impl_->bonus.reset();
}

std::vector<Measured> Library::measured() const {
  const std::scoped_lock lock(impl_->mutex);
  return *impl_->measured;
}

}  // namespace planish::patterns
