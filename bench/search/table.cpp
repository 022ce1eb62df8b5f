#include "table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/file.h"
#include "base/json.h"

namespace planish::bench {
namespace {

using codegen::Gene;
using codegen::Genome;

class TableDomain : public coder::Domain {
 public:
  std::vector<Gene> all;
  std::vector<Genome> first;
  std::map<Genome, double> rows;  ///< 0: failed

  std::vector<Gene> genes() const override { return all; }
  bool legal(const Genome& g) const override {
    return g.size() == all.size() && std::ranges::all_of(all, [&](const Gene& gene) {
             const auto found = g.find(gene.name);
             return found != g.end() && std::ranges::find(gene.choices, found->second) != gene.choices.end();
           });
  }
  std::vector<Genome> seeds() const override { return first; }
  Genome random(std::mt19937_64& rng) const override {
    Genome g;
    for (const Gene& gene : all) g[gene.name] = gene.choices[rng() % gene.choices.size()];
    return g;
  }
  std::vector<Genome> neighbours(const Genome& g) const override {
    std::vector<Genome> out;
    for (const Gene& gene : all) {
      const auto at = std::ranges::find(gene.choices, g.at(gene.name)) - gene.choices.begin();
      for (const std::ptrdiff_t to : {at - 1, at + 1}) {
        if (to < 0 || to >= static_cast<std::ptrdiff_t>(gene.choices.size())) continue;
        Genome next = g;
        next[gene.name] = gene.choices[static_cast<std::size_t>(to)];
        out.push_back(std::move(next));
      }
    }
    return out;
  }
  Genome mutate(const Genome& g, std::mt19937_64& rng) const override {
    Genome next = g;
    for (std::size_t c = 1 + rng() % 3; c-- > 0;) {
      const Gene& gene = all[rng() % all.size()];
      next[gene.name] = gene.choices[rng() % gene.choices.size()];
    }
    return next;
  }
  Result<coder::Candidate> build(const Genome& g) const override {
    coder::Candidate out;
    out.genome = g;
    out.hash = out.program = text(g);
    return out;
  }
  std::string text(const Genome& g) const override { return codegen::text(g); }
};

class Table : public Surface {
 public:
  Table(std::string name, std::shared_ptr<TableDomain> domain) : name_(std::move(name)), domain_(std::move(domain)) {}
  std::string name() const override { return name_; }
  bool measured() const override { return true; }
  std::shared_ptr<const coder::Domain> domain() const override { return domain_; }
  Time time(const Genome& genome, std::mt19937_64&) const override {
    Time out;
    const auto found = domain_->rows.find(genome);
    if (found == domain_->rows.end()) {
      out.kind = Time::Kind::not_recorded;
    } else if (found->second <= 0) {
      out.kind = Time::Kind::failed;
    } else {
      out.ms = out.true_ms = found->second;
    }
    return out;
  }

 private:
  std::string name_;
  std::shared_ptr<TableDomain> domain_;
};

constexpr const char* bad_table = "bad_table";

}  // namespace

Result<std::unique_ptr<Surface>> read_table(const std::filesystem::path& file) {
  PLANISH_TRY(const std::string text, read_file(file));
  auto domain = std::make_shared<TableDomain>();
  std::string name;
  std::size_t at = 0;
  for (int line = 1; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view words(text.data() + at, end - at);
    at = end + 1;
    if (words.empty()) continue;
    const std::string where = fmt::format("{}:{}", file.string(), line);
    PLANISH_TRY(const Json json, parse_json(words, bad_table, where));
    ObjectReader reader(json, bad_table, where);
    if (name.empty()) {
      std::string schema;
      std::vector<std::string> seeds;
      reader.text("schema", schema);
      reader.text("name", name);
      reader.texts("seeds", seeds);
      const Json* genes = reader.array("genes");
      if (schema != "planish.search_table/1") reader.problem(fmt::format("schema `{}` is not known", schema));
      PLANISH_CHECK(reader.finish());
      for (const Json& item : *genes) {
        Gene gene;
        ObjectReader inner(item, bad_table, where);
        inner.text("name", gene.name);
        inner.integers("choices", gene.choices);
        PLANISH_CHECK(inner.finish());
        domain->all.push_back(std::move(gene));
      }
      for (const std::string& seed : seeds) {
        PLANISH_TRY(auto genome, codegen::genome_from_text(seed));
        domain->first.push_back(std::move(genome));
      }
      continue;
    }
    std::string genome_text, outcome;
    double ms = 0;
    reader.text("genome", genome_text);
    reader.number("ms", ms, ObjectReader::Need::optional);
    reader.text("outcome", outcome, ObjectReader::Need::optional);
    PLANISH_CHECK(reader.finish());
    PLANISH_TRY(auto genome, codegen::genome_from_text(genome_text));
    if (!domain->legal(genome))
      return fail(bad_table, fmt::format("{}: `{}` is none of the table's genomes", where, genome_text));
    domain->rows[std::move(genome)] = ms;
  }
  if (domain->rows.empty()) return fail(bad_table, fmt::format("{} has no rows", file.string()));
  return std::make_unique<Table>(name, std::move(domain));
}

}  // namespace planish::bench
