#include "table.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "codegen/earlier_names.h"
#include "evaluate/api.h"
#include "evaluate/launches.h"
#include "program/program.h"
#include "table_domain.h"

namespace planish::bench {
namespace {

using codegen::Gene;
using codegen::Genome;

constexpr ErrorKind bad_table = "bad_text";
constexpr int sms = 132;
constexpr std::int64_t shared_bytes = 232448;
constexpr double copy_gbs = 4300;  // what a streaming copy reaches on the devices that tables are of

/// About normal: four uniform numbers. Standard distributions differ between libraries.
double normal(std::mt19937_64& rng) {
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<double>(rng() >> 11U) * 0x1p-53 - 0.5;
  return sum * std::sqrt(3.0);
}

class Table : public Surface {
 public:
  Table(std::string name, double bytes, std::shared_ptr<TableDomain> domain)
      : name_(std::move(name)), bytes_(bytes), domain_(std::move(domain)) {
    for (const auto& [genome, row] : domain_->rows) {
      if (row.ms > 0 && (floor_ == 0 || row.ms < floor_)) floor_ = row.ms;
    }
  }
  std::string name() const override { return name_; }
  bool measured() const override { return true; }
  std::shared_ptr<const coder::Domain> domain() const override { return domain_; }
  double floor_ms() const override { return domain_->closed ? floor_ : 0; }
  Time time(const Genome& genome, std::mt19937_64& noise) const override {
    Time out;
    const auto found = domain_->rows.find(genome);
    if (found == domain_->rows.end()) {
      out.kind = Time::Kind::not_recorded;
      return out;
    }
    const Row& row = found->second;
    if (row.ms <= 0) {
      out.kind = Time::Kind::failed;
      return out;
    }
    out.true_ms = row.ms;
    // A second measurement would be off by about what the first one's interval says.
    const double error = (row.hi_ms - row.lo_ms) / (2 * 1.96) / row.ms;
    out.ms = row.ms * std::exp(std::min(error, 0.05) * normal(noise));
    return out;
  }
  std::string program(const Genome& genome) const override {
    const auto found = domain_->rows.find(genome);
    return found == domain_->rows.end() || found->second.program.empty() ? codegen::text(genome)
                                                                         : found->second.program;
  }
  std::optional<Evaluation> evaluation(const Genome& genome, const Time& time) const override {
    const auto found = domain_->rows.find(genome);
    if (time.kind != Time::Kind::ok || found == domain_->rows.end() || found->second.compile.kernels.empty())
      return std::nullopt;
    Evaluation out;
    out.level = "screen";
    out.tier = Tier::bench;
    out.outcome = Outcome::ok;
    out.compile = found->second.compile;
    out.bench.emplace();
    out.bench->median_ms = out.bench->lo_ms = out.bench->hi_ms = time.ms;
    out.roofline = Roofline{bytes_, 0, bytes_ / copy_gbs / 1e6, "memory", bytes_ / copy_gbs / 1e6 / time.ms};
    return out;
  }

 private:
  std::string name_;
  double bytes_ = 0, floor_ = 0;
  std::shared_ptr<TableDomain> domain_;
};

/// Decompressed where it is compressed.
Result<std::string> read_text(const std::filesystem::path& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return fail("io", fmt::format("cannot open {}", path.string()));
  std::string out(1U << 16U, '\0');
  std::string text;
  int got = 0;
  while ((got = gzread(file, out.data(), static_cast<unsigned>(out.size()))) > 0)
    text.append(out, 0, static_cast<std::size_t>(got));
  const bool whole = gzclose(file) == Z_OK && got == 0;
  if (!whole) return fail(bad_table, fmt::format("{} is damaged", path.string()));
  return text;
}

/// As record.py writes it: [registers, spilled, shared, local, {kind: count}] a kernel, [blocks, threads, cluster,
/// shared] a launch.
Result<CompileReport> read_compiled(const Json& kernels, const Json& launches, const std::string& where) {
  CompileReport out;
  const auto numbers = [](const Json& list, std::size_t count) {
    bool fine = list.is_array() && list.size() >= count;
    for (std::size_t i = 0; fine && i < count; ++i) fine = list[i].is_number_integer();
    return fine;
  };
  program::Program steps;
  for (const Json& one : kernels) {
    if (!numbers(one, 4) || one.size() != 5 || !one[4].is_object())
      return fail(bad_table, fmt::format("{}: a kernel is four numbers and its instructions", where));
    KernelReport kernel;
    kernel.registers = one[0];
    kernel.spill_bytes = one[1];
    kernel.shared_bytes = one[2];
    kernel.local_bytes = one[3];
    for (const auto& [kind, count] : one[4].items()) kernel.instructions[kind] = count.get<std::int64_t>();
    out.kernels.push_back(std::move(kernel));
  }
  for (const Json& one : launches) {
    if (!numbers(one, 4)) return fail(bad_table, fmt::format("{}: a launch is four numbers", where));
    program::Launch launch;
    launch.kernel = static_cast<int>(steps.steps.size());
    launch.grid[0] = one[0];
    launch.block[0] = one[1];
    launch.cluster[0] = one[2];
    launch.shared = one[3];
    steps.steps.emplace_back(launch);
  }
  if (out.kernels.size() != steps.steps.size())
    return fail(bad_table, fmt::format("{}: as many launches as kernels", where));
  DeviceFacts device;
  device.target = "cuda";
  device.sms = sms;
  device.shared_bytes = shared_bytes;
  out.launches = launches_of(steps, out.kernels, device);
  return out;
}

}  // namespace

Result<std::unique_ptr<Surface>> read_table(const std::filesystem::path& file) {
  PLANISH_TRY(const std::string text, read_text(file));
  auto domain = std::make_shared<TableDomain>();
  std::string name;
  double bytes = 0;
  std::size_t at = 0;
  for (int line = 1; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view words(text.data() + at, end - at);
    at = end + 1;
    if (words.empty()) continue;
    const std::string where = fmt::format("{}:{}", file.string(), line);
    PLANISH_TRY(const Json json, parse_json(words, bad_table, where));
    ObjectReader reader(json, bad_table, where);
    reader.lenient();  // tables hold more than a replay asks for
    if (name.empty()) {
      std::string schema;
      std::vector<std::string> seeds;
      reader.text("schema", schema);
      reader.text("name", name);
      reader.texts("seeds", seeds);
      reader.number("bytes", bytes, ObjectReader::Need::optional);
      const Json* genes = reader.array("genes");
      domain->closed = schema == "planish.search_table/2";
      if (schema != "planish.search_table/1" && !domain->closed)
        reader.problem(fmt::format("schema `{}` is not known", schema));
      PLANISH_CHECK(reader.finish());
      for (const Json& item : *genes) {
        Gene gene;
        ObjectReader inner(item, bad_table, where);
        inner.text("name", gene.name);
        inner.integers("choices", gene.choices);
        PLANISH_CHECK(inner.finish());
        gene.name = codegen::present_gene_name(gene.name);
        domain->all.push_back(std::move(gene));
      }
      for (const std::string& seed : seeds) {
        PLANISH_TRY(auto genome, codegen::genome_from_text(seed));
        domain->first.push_back(std::move(genome));
      }
      continue;
    }
    std::string genome_text, outcome;
    Row row;
    reader.text("genome", genome_text);
    reader.number("ms", row.ms, ObjectReader::Need::optional);
    reader.number("lo", row.lo_ms, ObjectReader::Need::optional);
    reader.number("hi", row.hi_ms, ObjectReader::Need::optional);
    reader.text("program", row.program, ObjectReader::Need::optional);
    reader.text("outcome", outcome, ObjectReader::Need::optional);
    PLANISH_CHECK(reader.finish());
    if (json.contains("kernels") && json.contains("launches")) {
      PLANISH_TRY(row.compile, read_compiled(json["kernels"], json["launches"], where));
    }
    PLANISH_TRY(auto genome, codegen::genome_from_text(genome_text));
    if (!domain->within(genome))
      return fail(bad_table, fmt::format("{}: `{}` is none of the table's genomes", where, genome_text));
    domain->rows[std::move(genome)] = std::move(row);
  }
  if (domain->rows.empty()) return fail(bad_table, fmt::format("{} has no rows", file.string()));
  for (const auto& [genome, row] : domain->rows) domain->order.push_back(&genome);
  return std::make_unique<Table>(name, bytes, std::move(domain));
}

}  // namespace planish::bench
