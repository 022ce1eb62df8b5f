#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

/// The thinnest wrapper over SQLite that gives Results and frees what it owns. One thread at a time a Database.
///
/// Error kinds: `store_unwritable`, `store_corrupt`, `store_busy`, `disk_full`, `store_failed`.
namespace planish::database {

class Statement;

/// How messages speak of a file.
struct Words {
  std::string_view what = "store";                                           ///< "the store FILE cannot be written"
  std::string_view elsewhere = "put the store elsewhere with --store FILE";  ///< "check its permissions, or …"
};

class Database {
 public:
  /// Opens (and, where asked, creates) a database file; `:memory:` is allowed.
  static Result<Database> open(const std::string& path, bool writable, Words words = {});

  /// Runs SQL text without results.
  Status execute(const std::string& sql);
  Result<Statement> prepare(std::string_view sql);
  std::int64_t last_row_id() const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
  Words words_;
  friend class Statement;
};

/// A prepared statement. Must not outlive its Database. Parameters count from 1, columns from 0, as in SQLite.
class Statement {
 public:
  Statement& bind(int position, std::string_view text);
  Statement& bind(int position, std::int64_t number);
  Statement& bind(int position, double number);
  Statement& bind_blob(int position, std::string_view bytes);
  Statement& bind_null(int position);

  /// True when a row is there to be read, false at the end.
  Result<bool> step();
  /// Runs a statement that gives no rows.
  Status run();
  /// Ready to be bound and run once more.
  Statement& reset();

  /// Of a text or a blob.
  std::string text(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;
  bool is_null(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  sqlite3* database_ = nullptr;
  std::string path_;
  Words words_;
  friend class Database;
};

}  // namespace planish::database
