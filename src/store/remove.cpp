#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "database/transaction.h"
#include "store/store.h"
#include "store/store_impl.h"

namespace planish::store {
namespace {

namespace fs = std::filesystem;

/// Names of objects that runs with this condition on their ids name: programs and documents of evaluations, graphs,
/// results, and what coders proposed ("source HASH").
std::string names_where(const std::string& condition) {
  return "SELECT program FROM evaluations WHERE run" + condition + " UNION SELECT document FROM evaluations WHERE run" +
         condition + " UNION SELECT result FROM runs WHERE id" + condition + " UNION SELECT graph FROM runs WHERE id" +
         condition + " UNION SELECT substr(proposal, instr(proposal, ' ') + 1) FROM turns WHERE run" + condition;
}

std::uintmax_t bytes_below(const fs::path& folder) {
  std::uintmax_t out = 0;
  std::error_code failed;
  for (auto it = fs::recursive_directory_iterator(folder, failed); !failed && it != fs::recursive_directory_iterator();
       it.increment(failed)) {
    std::error_code gone;
    const auto size = it->is_regular_file(gone) ? it->file_size(gone) : 0;
    out += gone ? 0 : size;
  }
  return out;
}

}  // namespace

Result<std::uintmax_t> Store::remove_run(const std::string& id) {
  database::Database& database = *impl_->database;
  std::set<std::string> names;
  {
    PLANISH_TRY(auto transaction, database::Transaction::begin(database));
    {
      PLANISH_TRY(auto rows,
                  database.prepare(names_where("=?1") + " EXCEPT SELECT * FROM (" + names_where("!=?1") + ")"));
      rows.bind(1, id);
      while (true) {
        PLANISH_TRY(const bool more, rows.step());
        if (!more) break;
        names.insert(rows.text(0));
      }
    }
    for (const char* table : {"turns", "evaluations", "regions"}) {
      PLANISH_TRY(auto row, database.prepare(std::string("DELETE FROM ") + table + " WHERE run=?"));
      row.bind(1, id);
      PLANISH_CHECK(row.run());
    }
    PLANISH_TRY(auto row, database.prepare("DELETE FROM runs WHERE id=?"));
    row.bind(1, id);
    PLANISH_CHECK(row.run());
    PLANISH_CHECK(transaction.commit());
  }
  // After the rows: an object that nobody names only takes room, a row without its object is an error.
  std::uintmax_t freed = 0;
  for (const std::string& name : names) {
    const fs::path path = name.empty() ? fs::path() : impl_->objects.path(name);
    std::error_code gone;
    const auto size = path.empty() ? 0 : fs::file_size(path, gone);
    if (!path.empty() && fs::remove(path, gone)) freed += size;
  }
  return freed;
}

Result<std::uintmax_t> Store::bytes() const {
  std::error_code gone;
  const auto table = fs::file_size(impl_->file, gone);
  const fs::path objects = impl_->objects.path(std::string(64, '0')).parent_path().parent_path();
  return (gone ? 0 : table) + bytes_below(objects);
}

Status Store::compact() {
  return impl_->database->execute("VACUUM");
}

}  // namespace planish::store
