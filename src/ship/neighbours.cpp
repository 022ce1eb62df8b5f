#include "ship/neighbours.h"

#include <fmt/core.h>

#include <cctype>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/file.h"

namespace planish::ship {
namespace {

namespace fs = std::filesystem;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

/// The leading name of "a.b as c"; empty for a relative import.
std::string first_name(std::string_view text) {
  text = trimmed(text);
  std::size_t n = 0;
  while (n < text.size() && (std::isalnum(static_cast<unsigned char>(text[n])) != 0 || text[n] == '_')) ++n;
  return std::string(text.substr(0, n));
}

/// The top-level names that a Python source imports.
std::set<std::string> imported(std::string_view source) {
  std::set<std::string> names;
  while (!source.empty()) {
    const std::size_t end = source.find_first_of("\n;");
    std::string_view line = trimmed(source.substr(0, end));
    source.remove_prefix(end == std::string_view::npos ? source.size() : end + 1);
    if (line.starts_with("from ")) {
      names.insert(first_name(line.substr(5)));
    } else if (line.starts_with("import ")) {
      line = line.substr(7, line.find('#') == std::string_view::npos ? line.npos : line.find('#') - 7);
      while (true) {
        const std::size_t comma = line.find(',');
        names.insert(first_name(line.substr(0, comma)));
        if (comma == std::string_view::npos) break;
        line.remove_prefix(comma + 1);
      }
    }
  }
  names.erase("");
  return names;
}

class Finder {
 public:
  explicit Finder(fs::path folder) : folder_(std::move(folder)) {}

  Status follow(const fs::path& file) {
    PLANISH_TRY(const std::string source, read_file(file));
    for (const std::string& name : imported(source)) {
      if (!seen_.insert(name).second) continue;
      std::error_code ignored;
      if (fs::exists(folder_ / name / "__init__.py", ignored)) {
        PLANISH_CHECK(add_package(name));
      } else if (fs::exists(folder_ / (name + ".py"), ignored)) {
        PLANISH_CHECK(add(folder_ / (name + ".py"), name));
      }
    }
    return {};
  }

  std::map<std::string, fs::path> found;

 private:
  Status add(const fs::path& file, const std::string& name) {
    std::error_code error;
    bytes_ += fs::file_size(file, error);
    if (error) return std::unexpected(file_error(error.value(), "read", file));
    if (bytes_ > max_neighbour_bytes) {
      return fail("too_large",
                  fmt::format("the task imports {} from its own folder, which is too much to carry along",
                              (folder_ / name).string()),
                  "install it as a package, or put what the task needs into the task file");
    }
    found.emplace(file.lexically_relative(folder_).generic_string(), file);
    return file.extension() == ".py" ? follow(file) : Status{};
  }

  Status add_package(const std::string& name) {
    std::error_code error;
    auto it = fs::recursive_directory_iterator(folder_ / name, error);
    for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
      const std::string part = it->path().filename().string();
      if (it->is_directory() && (part == "__pycache__" || part.starts_with('.'))) it.disable_recursion_pending();
      if (it->is_regular_file()) PLANISH_CHECK(add(it->path(), name));
    }
    if (error) return std::unexpected(file_error(error.value(), "read", folder_ / name));
    return {};
  }

  fs::path folder_;
  std::set<std::string> seen_;
  std::uintmax_t bytes_ = 0;
};

}  // namespace

Result<std::map<std::string, fs::path>> neighbours(const fs::path& task) {
  Finder finder(fs::absolute(task).parent_path());
  PLANISH_CHECK(finder.follow(task));
  // The task itself, where a neighbour imports it back, is carried as reference.py already, and as itself here.
  return std::move(finder.found);
}

}  // namespace planish::ship
