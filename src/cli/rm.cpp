#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "cli/exit_code.h"
#include "cli/verbs.h"
#include "session/result_document.h"
#include "session/run_lock.h"
#include "store/store.h"

namespace planish::cli {
using namespace session;

namespace {

struct Removed {
  std::vector<std::string> runs;
  std::uintmax_t before = 0, after = 0;  ///< bytes
};

Result<Removed> remove_runs(const RmVerb& options) {
  if (options.runs.empty() && !options.keep && !options.megabytes)
    return fail("usage", "no run was named", "name runs (planish runs lists them), or give --keep N or --to MEGABYTES");
  const auto file = store_file(options.store);
  Removed out;
  {
    PLANISH_TRY(const auto looked, store::Store::open_existing(file));
    PLANISH_TRY(const auto all, looked.runs());
    // A run under way may be about to name just what is removed here.
    for (const auto& run : all) {
      if (live_state(run.id, run.state) == "running")
        return fail("usage", fmt::format("run {} is under way in this store", run.id), "remove runs when it has ended");
    }
    for (const std::string& name : options.runs) {
      PLANISH_TRY(const auto run, looked.run(name));
      if (std::ranges::find(out.runs, run.id) == out.runs.end()) out.runs.push_back(run.id);
    }
    if (all.empty()) return out;
  }
  PLANISH_TRY(auto store, store::Store::open(file));
  PLANISH_TRY(out.before, store.bytes());
  out.after = out.before;
  const auto remove = [&](const std::string& run) -> Status {
    PLANISH_TRY(const auto freed, store.remove_run(run));
    out.after -= std::min(freed, out.after);
    return {};
  };
  for (const std::string& run : out.runs) PLANISH_CHECK(remove(run));
  constexpr int unlimited = 1'000'000'000;
  PLANISH_TRY(auto left, store.runs(unlimited));
  const auto too_many = [&] {
    const bool keeps = options.keep && left.size() > static_cast<std::size_t>(*options.keep);
    return keeps || (options.megabytes && out.after > static_cast<std::uintmax_t>(*options.megabytes) * 1'000'000);
  };
  while (!left.empty() && too_many()) {
    out.runs.push_back(left.back().id);  // the oldest
    left.pop_back();
    PLANISH_CHECK(remove(out.runs.back()));
  }
  PLANISH_CHECK(store.compact());
  PLANISH_TRY(out.after, store.bytes());
  return out;
}

}  // namespace

int rm_verb(const RmVerb& options, const Output& output) {
  auto removed = remove_runs(options);
  if (!removed) return output.error(removed.error());
  const Json document = {{"schema_version", ResultDocument::schema_version},
                         {"removed", removed->runs},
                         {"bytes_before", removed->before},
                         {"bytes_after", removed->after}};
  std::string text = fmt::format("removed {} run{}; the store took {:.1f} MB and takes {:.1f} MB\n",
                                 removed->runs.size(), removed->runs.size() == 1 ? "" : "s",
                                 static_cast<double>(removed->before) / 1e6, static_cast<double>(removed->after) / 1e6);
  output.result(dump_json(document), text);
  return exit_code::success;
}

}  // namespace planish::cli
