#include "base/memory.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace planish {
namespace {

/// The number behind `key` in lines of "key number".
std::optional<std::int64_t> field(const std::filesystem::path& file, std::string_view key) {
  const auto text = read_file(file);
  if (!text) return std::nullopt;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (!line.starts_with(key)) continue;
    const std::size_t digits = line.find_first_not_of(" \t", key.size());
    if (digits == key.size() || digits == std::string_view::npos) continue;
    std::int64_t value = 0;
    if (std::from_chars(line.data() + digits, line.data() + line.size(), value).ec == std::errc()) return value;
  }
  return std::nullopt;
}

/// Where our control group may count, the likeliest first. In a container its folder is the root of what is mounted.
std::vector<std::filesystem::path> counters(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> out;
  const std::filesystem::path mounted = root / "sys/fs/cgroup";
  std::string_view rest;
  const auto groups = read_file(root / "proc/self/cgroup");
  if (groups) rest = *groups;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::filesystem::path group = std::filesystem::path(line.substr(second + 1)).relative_path();
    if (controllers == "memory") {
      out.push_back(mounted / "memory" / group / "memory.oom_control");
      out.push_back(mounted / "memory" / "memory.oom_control");
    } else if (controllers.empty()) {
      out.push_back(mounted / group / "memory.events");
      out.push_back(mounted / "memory.events");
    }
  }
  out.push_back(root / "proc/vmstat");
  return out;
}

}  // namespace

OomKills::OomKills(const std::filesystem::path& root) {
  for (const auto& file : counters(root)) {
    file_ = file;
    if (read()) return;
  }
}

std::optional<std::int64_t> OomKills::read() const {
  return field(file_, "oom_kill");
}

std::int64_t available_memory(const std::filesystem::path& root) {
  return field(root / "proc/meminfo", "MemAvailable:").value_or(0) * 1024;
}

}  // namespace planish
