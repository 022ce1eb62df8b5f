#include "patterns/snapshot.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace planish::patterns {

Result<std::int64_t> generation_of(database::Database& database) {
  PLANISH_TRY(auto row, database.prepare("SELECT value FROM meta WHERE key='generation'"));
  PLANISH_TRY(bool there, row.step());
  return there ? row.integer(0) : 0;
}

namespace {

Status load_directions(database::Database& database, Snapshot::Directions& out) {
  PLANISH_TRY(auto row, database.prepare("SELECT n.family, v.vector FROM family_texts n JOIN vectors v ON "
                                         "v.digest=n.digest ORDER BY n.family"));
  while (true) {
    PLANISH_TRY(bool more, row.step());
    if (!more) break;
    const std::string packed = row.text(1);
    if (out.length == 0) {
      out.length = packed.size();
      out.stride = (out.length + vector_block - 1) / vector_block * vector_block;
    }
    if (packed.size() != out.length) continue;
    double square = 0;
    for (const char c : packed)
      square += static_cast<double>(static_cast<signed char>(c)) * static_cast<signed char>(c);
    if (square <= 0) continue;
    out.families.push_back(row.integer(0));
    out.scale.push_back(static_cast<float>(1 / std::sqrt(square)));
    const std::size_t at = out.numbers.size();
    out.numbers.resize(at + out.stride);
    std::ranges::copy(packed, out.numbers.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const Snapshot>> load_snapshot(database::Database& database) {
  auto out = std::make_shared<Snapshot>();
  PLANISH_TRY(out->generation, generation_of(database));
  std::unordered_map<std::int64_t, std::uint16_t> corpora;
  PLANISH_TRY(auto corpus,
              database.prepare("SELECT id, name, kind, folder, imported, patterns FROM corpora ORDER BY id"));
  while (true) {
    PLANISH_TRY(bool more, corpus.step());
    if (!more) break;
    corpora.emplace(corpus.integer(0), static_cast<std::uint16_t>(out->corpora.size()));
    out->corpora.push_back({corpus.text(1), corpus.text(2), corpus.text(3), corpus.real(4), corpus.integer(5)});
  }
  // Numbers of values are the database's row ids: dense ones are ours.
  std::unordered_map<std::uint32_t, std::uint32_t> dense;
  std::unordered_map<std::string, std::uint16_t> kinds;
  PLANISH_TRY(auto value, database.prepare("SELECT id, name, value FROM facts ORDER BY id"));
  while (true) {
    PLANISH_TRY(bool more, value.step());
    if (!more) break;
    const auto number = static_cast<std::uint32_t>(out->values.size());
    std::string name = value.text(1);
    const auto [kind, fresh] = kinds.try_emplace(name, static_cast<std::uint16_t>(kinds.size()));
    if (fresh) out->kinds.push_back(name);
    dense.emplace(static_cast<std::uint32_t>(value.integer(0)), number);
    std::string text = value.text(2);
    out->numbers.emplace(Snapshot::key(name, text), number);
    out->values.push_back({std::move(name), std::move(text), kind->second});
  }
  std::unordered_map<std::string, std::uint16_t> forms;
  PLANISH_TRY(
      auto row,
      database.prepare("SELECT id, family, content, corpus, form, packed, prior FROM patterns ORDER BY family, id"));
  while (true) {
    PLANISH_TRY(bool more, row.step());
    if (!more) break;
    Snapshot::Row one;
    one.id = row.integer(0);
    one.family = row.integer(1);
    one.content = static_cast<std::uint64_t>(row.integer(2));
    const auto of = corpora.find(row.integer(3));
    if (of == corpora.end()) continue;
    one.corpus = of->second;
    const auto [form, fresh] = forms.try_emplace(row.text(4), static_cast<std::uint16_t>(forms.size()));
    if (fresh) out->forms.push_back(form->first);
    one.form = form->second;
    one.first = static_cast<std::uint32_t>(out->facts.size());
    one.prior = static_cast<float>(row.real(6));
    const std::string packed = row.text(5);
    for (std::size_t at = 0; at + 4 <= packed.size(); at += 4) {
      std::uint32_t number = 0;
      std::memcpy(&number, packed.data() + at, 4);
      if (const auto found = dense.find(number); found != dense.end()) out->facts.push_back(found->second);
    }
    one.count = static_cast<std::uint16_t>(out->facts.size() - one.first);
    out->rows.push_back(one);
  }
  PLANISH_TRY(auto frequent, database.prepare("SELECT word, texts FROM frequent"));
  while (true) {
    PLANISH_TRY(bool more, frequent.step());
    if (!more) break;
    out->frequent.emplace(frequent.text(0), frequent.integer(1));
  }
  PLANISH_CHECK(load_directions(database, out->directions));
  return out;
}

}  // namespace planish::patterns
