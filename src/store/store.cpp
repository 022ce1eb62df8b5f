#include "store/store.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "base/file.h"
#include "store/schema.h"
#include "store/store_impl.h"

namespace planish::store {
namespace fs = std::filesystem;

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

namespace {

constexpr const char* run_columns =
    "id, task, task_path, task_sha256, target, device, settings, state, outcome, out_folder, started, finished, "
    "speedup, result";
/// Columns that came with version 3, and what a store that is only read, and not brought to our version, gives for
/// them.
std::string run_columns_of(int version) {
  return fmt::format("{}, {}", run_columns, version >= 3 ? "graph, device_facts" : "'', ''");
}

RunRecord read_run(const Statement& row) {
  RunRecord run;
  run.id = row.text(0);
  run.task = row.text(1);
  run.task_path = row.text(2);
  run.task_sha256 = row.text(3);
  run.target = row.text(4);
  run.device = row.text(5);
  run.settings = row.text(6);
  run.state = row.text(7);
  run.outcome = row.text(8);
  run.out_folder = row.text(9);
  run.started = row.real(10);
  run.finished = row.real(11);
  run.speedup = row.real(12);
  run.result = row.text(13);
  run.graph = row.text(14);
  run.device_facts = row.text(15);
  return run;
}

fs::path objects_folder(const fs::path& file) {
  return file == ":memory:" ? fs::path{} : file.parent_path() / "objects";
}

}  // namespace

fs::path Store::default_file() {
  return data_dir() / "store.db";
}

Result<Store> Store::open(const fs::path& file) {
  if (file != ":memory:" && file.has_parent_path()) {
    std::error_code failed;
    fs::create_directories(file.parent_path(), failed);
    if (failed) {
      return fail(
          failed == std::errc::no_space_on_device ? ErrorKind("disk_full") : ErrorKind("store_unwritable"),
          fmt::format("the store's folder {} cannot be made: {}", file.parent_path().string(), failed.message()),
          "check its permissions, or put the store elsewhere with --store FILE");
    }
  }
  PLANISH_TRY(auto database, Database::open(file.string(), true));
  PLANISH_CHECK(prepare_schema(database, file.string()));
  return Store(std::make_unique<Impl>(Impl{file, std::move(database), Objects(objects_folder(file)), schema_version}));
}

Result<Store> Store::open_existing(const fs::path& file) {
  auto impl = std::make_unique<Impl>(Impl{file, std::nullopt, Objects(objects_folder(file)), 0});
  std::error_code ignored;
  if (fs::exists(file, ignored)) {
    PLANISH_TRY(auto database, Database::open(file.string(), false));
    PLANISH_TRY(impl->version, check_schema(database, file.string()));
    if (impl->version > 0) impl->database = std::move(database);
  }
  return Store(std::move(impl));
}

Status Store::limit_pages_for_test(int pages) {
  return impl_->database->execute(fmt::format("PRAGMA max_page_count={}", pages));
}

const fs::path& Store::file() const {
  return impl_->file;
}

Status Store::begin_run(const RunRecord& run) {
  PLANISH_TRY(auto row,
              impl_->database->prepare(fmt::format(
                  "INSERT INTO runs({}) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(id) DO UPDATE SET "
                  "state=excluded.state, settings=excluded.settings, out_folder=excluded.out_folder, "
                  "graph=excluded.graph, device_facts=excluded.device_facts",
                  run_columns_of(schema_version))));
  row.bind(1, run.id).bind(2, run.task).bind(3, run.task_path).bind(4, run.task_sha256).bind(5, run.target);
  row.bind(6, run.device).bind(7, run.settings).bind(8, run.state).bind(9, run.outcome).bind(10, run.out_folder);
  row.bind(11, run.started).bind(12, run.finished).bind(13, run.speedup).bind(14, run.result);
  row.bind(15, run.graph).bind(16, run.device_facts);
  return row.run();
}

Status Store::finish_run(const RunRecord& run, std::string_view result_document) {
  std::string result = run.result;
  if (!result_document.empty()) {
    PLANISH_TRY(result, impl_->objects.put(result_document));
  }
  PLANISH_TRY(auto row, impl_->database->prepare("UPDATE runs SET state=?, outcome=?, finished=?, speedup=?, result=?, "
                                                 "out_folder=? WHERE id=?"));
  row.bind(1, run.state).bind(2, run.outcome).bind(3, run.finished).bind(4, run.speedup).bind(5, result);
  row.bind(6, run.out_folder).bind(7, run.id);
  return row.run();
}

Result<std::vector<RunRecord>> Store::runs(int limit) const {
  std::vector<RunRecord> out;
  if (!impl_->database) return out;
  PLANISH_TRY(auto row,
              impl_->database->prepare(fmt::format("SELECT {} FROM runs ORDER BY started DESC, rowid DESC LIMIT ?",
                                                   run_columns_of(impl_->version))));
  row.bind(1, static_cast<std::int64_t>(limit));
  while (true) {
    PLANISH_TRY(bool more, row.step());
    if (!more) return out;
    out.push_back(read_run(row));
  }
}

Result<RunRecord> Store::run(std::string_view id) const {
  std::vector<RunRecord> found;
  if (impl_->database && !id.empty()) {
    PLANISH_TRY(auto row,
                impl_->database->prepare(fmt::format("SELECT {} FROM runs WHERE substr(id, 1, length(?1)) = ?1 LIMIT 2",
                                                     run_columns_of(impl_->version))));
    row.bind(1, id);
    while (true) {
      PLANISH_TRY(bool more, row.step());
      if (!more) break;
      found.push_back(read_run(row));
      if (found.back().id == id) return found.back();
    }
  }
  if (found.empty() && id == "latest") {
    PLANISH_TRY(auto newest, runs(1));
    if (!newest.empty()) return std::move(newest.front());
    return fail("no_such_run", fmt::format("the store {} has no run yet", impl_->file.string()),
                "planish optimize TASK.py makes one");
  }
  if (found.empty()) {
    return fail("no_such_run", fmt::format("the store {} has no run {}", impl_->file.string(), id),
                "planish runs lists them");
  }
  if (found.size() > 1) {
    return fail("ambiguous_run", fmt::format("more than one run begins with {}", id), "planish runs lists them");
  }
  return found.front();
}

Status Store::add_region(const std::string& run, const RegionRecord& region) {
  PLANISH_TRY(auto row, impl_->database->prepare("INSERT OR REPLACE INTO regions(run, id, key, count, genes, searched, "
                                                 "fallback_ms, bound_ms) VALUES(?,?,?,?,?,?,?,?)"));
  row.bind(1, run).bind(2, region.id).bind(3, region.key).bind(4, static_cast<std::int64_t>(region.count));
  row.bind(5, region.genes).bind(6, static_cast<std::int64_t>(region.searched));
  row.bind(7, region.fallback_ms).bind(8, region.bound_ms);
  return row.run();
}

Result<std::vector<RegionRecord>> Store::regions(const std::string& run) const {
  std::vector<RegionRecord> out;
  if (!impl_->database) return out;
  const char* later = impl_->version >= 3 ? "genes, searched, fallback_ms, bound_ms" : "'', 0, 0, 0";
  PLANISH_TRY(auto row, impl_->database->prepare(
                            fmt::format("SELECT id, key, count, {} FROM regions WHERE run=? ORDER BY rowid", later)));
  row.bind(1, run);
  while (true) {
    PLANISH_TRY(bool more, row.step());
    if (!more) return out;
    out.push_back({row.text(0), row.text(1), static_cast<int>(row.integer(2)), row.text(3), row.integer(4) != 0,
                   row.real(5), row.real(6)});
  }
}

Status Store::add_evaluation(const std::string& run, const EvaluationRecord& e) {
  PLANISH_TRY(auto document, impl_->objects.put(e.document));
  PLANISH_TRY(auto row, impl_->database->prepare(
                            "INSERT INTO evaluations(run, region, region_key, program, genome, level, benched, tier, "
                            "outcome, median_ms, at_seconds, document, parent, cell, proposer, asked, predicted_ms) "
                            "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  row.bind(1, run).bind(2, e.region).bind(3, e.region_key).bind(4, e.program).bind(5, e.genome).bind(6, e.level);
  row.bind(7, static_cast<std::int64_t>(e.benched)).bind(8, e.tier).bind(9, e.outcome).bind(10, e.median_ms);
  row.bind(11, e.at_seconds).bind(12, document).bind(13, e.parent).bind(14, static_cast<std::int64_t>(e.cell));
  row.bind(15, e.proposer).bind(16, e.asked).bind(17, e.predicted_ms);
  return row.run();
}

Result<std::vector<EvaluationRecord>> Store::evaluations(const std::string& run, bool documents) const {
  std::vector<EvaluationRecord> out;
  if (!impl_->database) return out;
  // A store that is only read is not brought to our version.
  const char* later = impl_->version >= 3   ? "parent, cell, proposer, asked, predicted_ms"
                      : impl_->version >= 2 ? "parent, cell, proposer, -1, 0"
                                            : "'', -1, '', -1, 0";
  PLANISH_TRY(auto row, impl_->database->prepare(fmt::format(
                            "SELECT region, region_key, program, genome, level, benched, tier, outcome, median_ms, "
                            "at_seconds, document, {} FROM evaluations WHERE run=? ORDER BY id",
                            later)));
  row.bind(1, run);
  while (true) {
    PLANISH_TRY(bool more, row.step());
    if (!more) return out;
    EvaluationRecord e;
    e.region = row.text(0);
    e.region_key = row.text(1);
    e.program = row.text(2);
    e.genome = row.text(3);
    e.level = row.text(4);
    e.benched = row.integer(5) != 0;
    e.tier = row.text(6);
    e.outcome = row.text(7);
    e.median_ms = row.real(8);
    e.at_seconds = row.real(9);
    e.parent = row.text(11);
    e.cell = static_cast<int>(row.integer(12));
    e.proposer = row.text(13);
    e.asked = row.integer(14);
    e.predicted_ms = row.real(15);
    if (documents) {
      PLANISH_TRY(e.document, impl_->objects.get(row.text(10)));
    }
    out.push_back(std::move(e));
  }
}

Status Store::add_turn(const std::string& run, const TurnRecord& turn) {
  PLANISH_TRY(auto row,
              impl_->database->prepare("INSERT OR REPLACE INTO turns(run, asked, region, seat, proposal, dry, "
                                       "error) VALUES(?,?,?,?,?,?,?)"));
  row.bind(1, run).bind(2, turn.asked).bind(3, turn.region).bind(4, turn.seat).bind(5, turn.proposal);
  row.bind(6, static_cast<std::int64_t>(turn.dry)).bind(7, turn.error);
  return row.run();
}

Result<std::vector<TurnRecord>> Store::turns(const std::string& run) const {
  std::vector<TurnRecord> out;
  if (!impl_->database || impl_->version < 4) return out;
  PLANISH_TRY(auto row, impl_->database->prepare("SELECT asked, region, seat, proposal, dry, error FROM turns "
                                                 "WHERE run=? ORDER BY asked"));
  row.bind(1, run);
  while (true) {
    PLANISH_TRY(bool more, row.step());
    if (!more) return out;
    out.push_back({row.integer(0), row.text(1), row.text(2), row.text(3), row.integer(4) != 0, row.text(5)});
  }
}

Result<std::string> Store::put(std::string_view bytes) {
  return impl_->objects.put(bytes);
}
Result<std::string> Store::get(const std::string& sha256) const {
  return impl_->objects.get(sha256);
}

}  // namespace planish::store
