#include "worker/kernel_cache.h"

#include <fmt/core.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "worker/compile_reply_json.h"

namespace planish::worker {
namespace {

std::unexpected<Error> cache_error(Error error) {
  if (error.kind == "disk_full") {
    error.hint = "free some space, or set PLANISH_CACHE to a folder on another disk";
  } else {
    error.kind = "cache_unwritable";
    error.hint = "make the cache folder writable, or set PLANISH_CACHE to one that is";
  }
  error.message = "the cache of compiled kernels: " + error.message;
  return std::unexpected(std::move(error));
}

}  // namespace

std::string KernelCache::key(const CompileJob& job, std::string_view compiler) {
  // Lengths in front of every part, so that no two lists of parts give the same text.
  std::string text = "planish.kernel/2";
  const auto part = [&](std::string_view piece) {
    text += fmt::format("\n{}:", piece.size());
    text += piece;
  };
  part(job.language);
  part(job.source);
  part(job.entry);
  part(std::to_string(job.flags.size()));
  for (const std::string& flag : job.flags) part(flag);
  part(job.arch);
  part(compiler);
  return sha256_hex(text);
}

std::filesystem::path KernelCache::meta_path(const std::string& key) const {
  return folder_ / "kernels" / key.substr(0, 2) / (key + ".json");
}

std::optional<CompileReply> KernelCache::find(const std::string& key) const {
  const auto text = read_file(meta_path(key));
  if (!text.has_value()) return std::nullopt;
  const auto json = parse_json(*text, "bad_cache", "cache entry");
  if (!json.has_value()) return std::nullopt;
  CompileReply reply;
  std::string file;
  ObjectReader reader(*json, "bad_cache", "cache entry");
  reader.lenient();
  reader.text("file", file);
  if (!read_report(reader, reply).has_value() || file.find('/') != std::string::npos) return std::nullopt;
  reply.path = (folder_ / "binaries" / file).string();
  // A file cut short by a crash of the machine must not become a crash of the runner.
  const auto binary = read_file(reply.path);
  if (!binary.has_value() || sha256_hex(*binary) != reply.sha256) return std::nullopt;
  reply.cached = true;
  return reply;
}

Status KernelCache::store(const std::string& key, std::string_view binary, std::string_view extension,
                          CompileReply& reply) const {
  reply.sha256 = sha256_hex(binary);
  const std::string file = fmt::format("{}.{}", reply.sha256, extension);
  reply.path = (folder_ / "binaries" / file).string();
  if (auto written = write_file(reply.path, binary, 0755); !written.has_value())
    return cache_error(std::move(written).error());
  Json meta = report_of(reply);
  meta["file"] = file;
  if (auto written = write_file(meta_path(key), dump_json(meta)); !written.has_value())
    return cache_error(std::move(written).error());
  return {};
}

Status KernelCache::check_writable() const {
  if (auto made = make_directories(folder_ / "binaries"); !made.has_value())
    return cache_error(std::move(made).error());
  if (::access((folder_ / "binaries").c_str(), W_OK | X_OK) != 0) {
    return cache_error(file_error(errno, "write to", folder_ / "binaries"));
  }
  return {};
}

}  // namespace planish::worker
