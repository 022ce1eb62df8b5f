#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "store/store_impl.h"

/// What outlives runs: kernels, and what became of their genomes.
namespace planish::store {

Status Store::add_kernel(const KernelRecord& kernel) {
  PLANISH_TRY(auto row, impl_->database->prepare("INSERT OR REPLACE INTO kernels(device, key, pattern, kinds, bucket, "
                                                 "facts) VALUES(?,?,?,?,?,?)"));
  row.bind(1, kernel.device).bind(2, kernel.key).bind(3, kernel.pattern).bind(4, kernel.kinds);
  row.bind(5, kernel.bucket).bind(6, kernel.facts);
  return row.run();
}

Status Store::add_outcome(const OutcomeRecord& o) {
  PLANISH_TRY(auto row, impl_->database->prepare("INSERT INTO outcomes(device, key, run, genome, features, outcome, "
                                                 "median_ms, bound_ms, at) VALUES(?,?,?,?,?,?,?,?,?)"));
  row.bind(1, o.device).bind(2, o.key).bind(3, o.run).bind(4, o.genome).bind(5, o.features).bind(6, o.outcome);
  row.bind(7, o.median_ms).bind(8, o.bound_ms).bind(9, o.at);
  return row.run();
}

Result<std::vector<TuningRecord>> Store::tuning_records(const std::string& device, const std::string& pattern,
                                                        double before, int limit) const {
  std::vector<TuningRecord> out;
  if (!impl_->database || impl_->version < 2) return out;
  PLANISH_TRY(auto kernels, impl_->database->prepare("SELECT key, kinds, bucket, facts FROM kernels WHERE device=? AND "
                                                     "pattern=? ORDER BY key"));
  kernels.bind(1, device).bind(2, pattern);
  while (true) {
    PLANISH_TRY(bool more, kernels.step());
    if (!more) break;
    TuningRecord one;
    one.kernel = {device, kernels.text(0), pattern, kernels.text(1), kernels.text(2), kernels.text(3)};
    out.push_back(std::move(one));
  }
  for (TuningRecord& one : out) {
    PLANISH_TRY(auto row,
                impl_->database->prepare("SELECT run, genome, features, outcome, median_ms, bound_ms, at FROM "
                                         "outcomes WHERE device=? AND key=? AND at<? ORDER BY id DESC LIMIT ?"));
    row.bind(1, device).bind(2, one.kernel.key).bind(3, before).bind(4, static_cast<std::int64_t>(limit));
    while (true) {
      PLANISH_TRY(bool more, row.step());
      if (!more) break;
      one.outcomes.push_back({device, one.kernel.key, row.text(0), row.text(1), row.text(2), row.text(3), row.real(4),
                              row.real(5), row.real(6)});
    }
    std::ranges::reverse(one.outcomes);
  }
  return out;
}

Result<Store::TuningDatabaseSize> Store::tuning_database_size(const std::string& device) const {
  TuningDatabaseSize out;
  if (!impl_->database || impl_->version < 2) return out;
  PLANISH_TRY(auto row, impl_->database->prepare("SELECT (SELECT count(*) FROM kernels WHERE device=?1), "
                                                 "(SELECT count(*) FROM outcomes WHERE device=?1)"));
  row.bind(1, device);
  PLANISH_TRY(bool there, row.step());
  if (there) out = {row.integer(0), row.integer(1)};
  return out;
}

Result<std::vector<Store::Achievement>> Store::achievements() const {
  std::vector<Achievement> out;
  if (!impl_->database || impl_->version < 2) return out;
  PLANISH_TRY(auto row,
              impl_->database->prepare(
                  "SELECT device, pattern, count(*), sum(tried), sum(ok), avg(best) FROM (SELECT k.device AS "
                  "device, k.pattern AS pattern, count(*) AS tried, sum(o.outcome='ok') AS ok, max(CASE WHEN "
                  "o.outcome='ok' AND o.median_ms>0 AND o.bound_ms>0 THEN o.bound_ms/o.median_ms END) AS best "
                  "FROM outcomes o JOIN kernels k ON k.device=o.device AND k.key=o.key GROUP BY k.device, "
                  "k.key) GROUP BY device, pattern ORDER BY device, pattern"));
  while (true) {
    PLANISH_TRY(bool more, row.step());
    if (!more) break;
    out.push_back({row.text(0), row.text(1), row.integer(2), row.integer(3), row.integer(4), row.real(5)});
  }
  return out;
}

}  // namespace planish::store
