#include "store/objects.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/hash.h"

namespace planish::store {
namespace {

/// File errors under the store's own names, which tell the user what to do about a store.
std::unexpected<Error> store_error(Error error) {
  if (error.kind != "disk_full") error.kind = "store_unwritable";
  error.hint = error.kind == "disk_full" ? "free some space, or put the store elsewhere with --store FILE"
                                         : "check its permissions, or put the store elsewhere with --store FILE";
  return std::unexpected(std::move(error));
}

}  // namespace

Objects::Objects(std::filesystem::path folder) : folder_(std::move(folder)) {
  if (folder_.empty()) memory_ = std::make_shared<Memory>();
}

std::filesystem::path Objects::path(const std::string& sha256) const {
  if (memory_ || sha256.size() < 3) return {};
  return folder_ / sha256.substr(0, 2) / sha256.substr(2);
}

bool Objects::contains(const std::string& sha256) const {
  if (memory_) {
    const std::scoped_lock lock(memory_->mutex);
    return memory_->bytes.contains(sha256);
  }
  std::error_code ignored;
  return sha256.size() == 64 && std::filesystem::exists(path(sha256), ignored);
}

Result<std::string> Objects::put(std::string_view bytes) {
  std::string sha256 = sha256_hex(bytes);
  if (memory_) {
    const std::scoped_lock lock(memory_->mutex);
    memory_->bytes.emplace(sha256, bytes);
    return sha256;
  }
  if (contains(sha256)) return sha256;
  if (auto written = write_file(path(sha256), bytes); !written) return store_error(std::move(written.error()));
  return sha256;
}

Result<std::string> Objects::get(const std::string& sha256) const {
  if (!contains(sha256)) return fail("no_such_object", fmt::format("the store has no object {}", sha256));
  if (memory_) {
    const std::scoped_lock lock(memory_->mutex);
    return memory_->bytes.at(sha256);
  }
  PLANISH_TRY(std::string bytes, read_file(path(sha256)));
  if (sha256_hex(bytes) != sha256) {
    return fail("store_corrupt", fmt::format("{} does not hold what its name says", path(sha256).string()),
                "delete that file and run again");
  }
  return bytes;
}

}  // namespace planish::store
