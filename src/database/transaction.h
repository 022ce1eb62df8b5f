#pragma once

#include <utility>

#include "database/sqlite.h"

namespace planish::database {

/// Ends the transaction that it began, one way or the other.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database) {
    PLANISH_CHECK(database.execute("BEGIN IMMEDIATE"));
    return Transaction(&database);
  }
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction() {
    if (database_ != nullptr) (void)database_->execute("ROLLBACK");
  }
  Status commit() { return std::exchange(database_, nullptr)->execute("COMMIT"); }

 private:
  explicit Transaction(Database* database) : database_(database) {}
  Database* database_;
};

}  // namespace planish::database
