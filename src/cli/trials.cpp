#include "cli/trials.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "session/candidate.h"

namespace planish::cli {
using namespace session;

namespace {

constexpr std::array columns = {"number",  "region",    "at_seconds", "proposer", "level",   "tier",  "outcome",
                                "message", "median_ms", "pytorch_ms", "bound_ms", "program", "parent"};

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

/// Empty where it is not known, as data frames read what is missing.
std::string positive(double value) {
  return value > 0 ? fmt::format("{}", value) : std::string();
}

/// Words that a task, a model or a coder chose: a spreadsheet would carry out what begins as a formula does.
std::string shown(const std::string& text) {
  return text.find_first_of("=+-@\t\r") == 0 ? "'" + text : text;
}

std::vector<std::string> cells_of(const StoredCandidate& candidate, std::size_t number,
                                  const std::vector<store::RegionRecord>& regions) {
  const store::EvaluationRecord& record = candidate.record;
  const auto region = std::ranges::find(regions, record.region, &store::RegionRecord::id);
  const bool known = region != regions.end();
  return {std::to_string(number),
          shown(record.region),
          fmt::format("{}", record.at_seconds),
          shown(record.proposer),
          shown(record.level),
          shown(record.tier),
          shown(record.outcome),
          shown(candidate.evaluation.message),
          positive(record.median_ms),
          positive(known ? region->fallback_ms : 0),
          positive(known ? region->bound_ms : 0),
          record.program,
          record.parent};
}

std::string line(std::vector<std::string> cells) {
  std::ranges::transform(cells, cells.begin(), quoted);
  return fmt::format("{}\r\n", fmt::join(cells, ","));
}

}  // namespace

Result<Trials> trials_csv(const store::Store& store, const store::RunRecord& run) {
  PLANISH_TRY(const auto regions, store.regions(run.id));
  PLANISH_TRY(const auto records, store.evaluations(run.id, true));
  std::vector<StoredCandidate> candidates;
  std::set<std::string> genes;
  for (const auto& record : records) {
    PLANISH_TRY(auto candidate, read_candidate(store, record));
    for (const auto& [name, value] : candidate.genome) genes.insert(name);
    candidates.push_back(std::move(candidate));
  }
  std::vector<std::string> names(columns.begin(), columns.end());
  for (const std::string& gene : genes) names.push_back("gene_" + gene);
  std::string out = line(std::move(names));
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    std::vector<std::string> cells = cells_of(candidates[i], i, regions);
    for (const std::string& gene : genes) {
      const auto found = candidates[i].genome.find(gene);
      cells.push_back(found == candidates[i].genome.end() ? "" : std::to_string(found->second));
    }
    out += line(std::move(cells));
  }
  return Trials{std::move(out), candidates.size()};
}

}  // namespace planish::cli
