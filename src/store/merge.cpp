#include <fmt/format.h>

#include <array>
#include <system_error>

#include "store/store.h"
#include "store/store_impl.h"

namespace planish::store {
namespace {

namespace fs = std::filesystem;

struct MergedTable {
  const char* name;
  const char* where;      ///< rows that are taken
  bool numbered = false;  ///< its first column, `id`, counts rows: they get numbers of their own here
};

/// Runs come last: what is theirs is taken where they are not here yet.
constexpr std::array<MergedTable, 6> merged_tables{{
    {"regions", "run NOT IN (SELECT id FROM main.runs)"},
    {"evaluations", "run NOT IN (SELECT id FROM main.runs)", true},
    {"turns", "run NOT IN (SELECT id FROM main.runs)"},
    {"outcomes", "run NOT IN (SELECT id FROM main.runs)", true},
    {"kernels", "1"},
    {"runs", "id NOT IN (SELECT id FROM main.runs)"},
}};

Result<std::string> columns_of(database::Database& database, const MergedTable& table) {
  PLANISH_TRY(auto info, database.prepare(fmt::format("SELECT name FROM pragma_table_info('{}')", table.name)));
  std::string out;
  while (true) {
    PLANISH_TRY(const bool row, info.step());
    if (!row) return out;
    if (table.numbered && info.text(0) == "id") continue;
    out += (out.empty() ? "" : ", ") + info.text(0);
  }
}

/// Objects first: a row never names one that is not there.
Status copy_objects(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  if (!fs::exists(from, failed)) return {};
  fs::create_directories(to, failed);
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::skip_existing, failed);
  if (!failed) return {};
  return fail(failed == std::errc::no_space_on_device ? ErrorKind("disk_full") : ErrorKind("store_unwritable"),
              fmt::format("objects of {} cannot be copied to {}: {}", from.string(), to.string(), failed.message()));
}

}  // namespace

Status Store::merge(const fs::path& other) {
  {
    PLANISH_TRY(const auto current, Store::open(other));
    (void)current;
  }
  if (impl_->file != ":memory:")
    PLANISH_CHECK(copy_objects(other.parent_path() / "objects", impl_->file.parent_path() / "objects"));
  database::Database& database = *impl_->database;
  PLANISH_TRY(auto attach, database.prepare("ATTACH DATABASE ? AS other"));
  attach.bind(1, other.string());
  PLANISH_CHECK(attach.run());
  const auto copy = [&]() -> Status {
    PLANISH_CHECK(database.execute("BEGIN IMMEDIATE; PRAGMA defer_foreign_keys=ON"));
    for (const MergedTable& table : merged_tables) {
      PLANISH_TRY(const std::string columns, columns_of(database, table));
      PLANISH_CHECK(
          database.execute(fmt::format("INSERT OR IGNORE INTO main.{0}({1}) SELECT {1} FROM other.{0} WHERE {2}{3}",
                                       table.name, columns, table.where, table.numbered ? " ORDER BY id" : "")));
    }
    return database.execute("COMMIT");
  };
  const Status copied = copy();
  if (!copied) (void)database.execute("ROLLBACK");
  PLANISH_CHECK(database.execute("DETACH DATABASE other"));
  return copied;
}

}  // namespace planish::store
