#include "worker/kernel_cache.h"

#include <fmt/core.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"

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
  reader.text("sha256", reply.sha256);
  reader.text("log", reply.log);
  reader.integer("registers", reply.registers);
  reader.integer("spill_bytes", reply.spill_bytes);
  reader.integer("shared_bytes", reply.shared_bytes);
  reader.integer("local_bytes", reply.local_bytes);
  const Json* instructions = reader.object("instructions");
  if (!reader.finish().has_value() || file.find('/') != std::string::npos) return std::nullopt;
  reply.path = (folder_ / "binaries" / file).string();
  // A file cut short by a crash of the machine must not become a crash of the runner.
  const auto binary = read_file(reply.path);
  if (!binary.has_value() || sha256_hex(*binary) != reply.sha256) return std::nullopt;
  for (const auto& [kind, count] : instructions->items()) {
    if (count.is_number_integer()) reply.instructions[kind] = count.get<std::int64_t>();
  }
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
  const Json meta{{"file", file},
                  {"sha256", reply.sha256},
                  {"log", reply.log},
                  {"registers", reply.registers},
                  {"spill_bytes", reply.spill_bytes},
                  {"shared_bytes", reply.shared_bytes},
                  {"local_bytes", reply.local_bytes},
                  {"instructions", reply.instructions}};
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
