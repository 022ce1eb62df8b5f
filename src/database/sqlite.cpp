#include "database/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>

namespace planish::database {
namespace {

/// SQLite does not keep the error number of a write that a limit on file sizes refused.
bool files_are_limited() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/// Names the kind of a SQLite failure as a user meets it.
std::unexpected<Error> sqlite_error(sqlite3* db, int code, const std::string& path, const Words& words) {
  const int primary = code & 0xff;
  const std::string reason = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  const int system = db != nullptr ? sqlite3_system_errno(db) : 0;
  if (primary == SQLITE_FULL || system == ENOSPC || system == EDQUOT) {
    return fail("disk_full", fmt::format("the disk that holds {} is full ({})", path, reason),
                fmt::format("free some space, or {}", words.elsewhere));
  }
  if (code == SQLITE_IOERR_WRITE && files_are_limited()) {
    return fail("disk_full", fmt::format("the {} {} may not grow as large here ({})", words.what, path, reason),
                fmt::format("raise the limit on file sizes (ulimit -f), or {}", words.elsewhere));
  }
  if (primary == SQLITE_READONLY || primary == SQLITE_CANTOPEN || primary == SQLITE_PERM || primary == SQLITE_AUTH ||
      primary == SQLITE_IOERR) {
    return fail("store_unwritable", fmt::format("the {} {} cannot be written ({})", words.what, path, reason),
                fmt::format("check its permissions, or {}", words.elsewhere));
  }
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB) {
    return fail("store_corrupt",
                fmt::format("{} is not a {} of Planish, or it is damaged ({})", path, words.what, reason),
                fmt::format("move it away, or {}", words.elsewhere));
  }
  if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED) {
    return fail("store_busy", fmt::format("another process holds the {} {} ({})", words.what, path, reason),
                fmt::format("wait for it to end, or {}", words.elsewhere));
  }
  return fail("store_failed", fmt::format("the {} {} failed: {}", words.what, path, reason));
}

}  // namespace

void Database::Close::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

Result<Database> Database::open(const std::string& path, bool writable, Words words) {
  Database out;
  out.words_ = words;
  out.path_ = path;
  // A pipe would be waited for.
  std::error_code ignored;
  const auto type = std::filesystem::status(path, ignored).type();
  if (type != std::filesystem::file_type::regular && type != std::filesystem::file_type::not_found &&
      type != std::filesystem::file_type::directory)
    return fail("not_a_file", fmt::format("{} is a pipe, a socket or a device, and no file", path), "check the path");
  sqlite3* handle = nullptr;
  const int flags = writable ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  out.handle_.reset(handle);
  if (code != SQLITE_OK) return sqlite_error(handle, code, path, words);
  // Two runs may share one store; their transactions are short.
  sqlite3_busy_timeout(handle, 10'000);
  sqlite3_extended_result_codes(handle, 1);
  return out;
}

Status Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return sqlite_error(handle_.get(), code, path_, words_);
  return {};
}

Result<Statement> Database::prepare(std::string_view sql) {
  Statement out;
  sqlite3_stmt* handle = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &handle, nullptr);
  if (code != SQLITE_OK) return sqlite_error(handle_.get(), code, path_, words_);
  out.handle_.reset(handle);
  out.database_ = handle_.get();
  out.path_ = path_;
  out.words_ = words_;
  return out;
}

std::int64_t Database::last_row_id() const {
  return sqlite3_last_insert_rowid(handle_.get());
}

void Statement::Finalize::operator()(sqlite3_stmt* handle) const {
  sqlite3_finalize(handle);
}

Statement& Statement::bind(int position, std::string_view text) {
  sqlite3_bind_text64(handle_.get(), position, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}
Statement& Statement::bind(int position, std::int64_t number) {
  sqlite3_bind_int64(handle_.get(), position, number);
  return *this;
}
Statement& Statement::bind(int position, double number) {
  sqlite3_bind_double(handle_.get(), position, number);
  return *this;
}
Statement& Statement::bind_blob(int position, std::string_view bytes) {
  sqlite3_bind_blob64(handle_.get(), position, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
  return *this;
}
Statement& Statement::bind_null(int position) {
  sqlite3_bind_null(handle_.get(), position);
  return *this;
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return sqlite_error(database_, code, path_, words_);
}

Status Statement::run() {
  PLANISH_TRY(bool row, step());
  (void)row;
  return {};
}

Statement& Statement::reset() {
  sqlite3_reset(handle_.get());
  sqlite3_clear_bindings(handle_.get());
  return *this;
}

std::string Statement::text(int column) const {
  const void* bytes = sqlite3_column_blob(handle_.get(), column);  // the bytes of a text as well
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column))};
}
std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(handle_.get(), column);
}
double Statement::real(int column) const {
  return sqlite3_column_double(handle_.get(), column);
}
bool Statement::is_null(int column) const {
  return sqlite3_column_type(handle_.get(), column) == SQLITE_NULL;
}

}  // namespace planish::database
