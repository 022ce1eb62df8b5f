#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

/// Somebody's folder, of which nothing is trusted: links, sizes, names and contents may be anything.
namespace planish::patterns {

struct SourceFile {
  std::filesystem::path path;
  std::string name;  ///< within the folder, with `/`
};
/// What was left out, and why.
struct Skipped {
  std::string path, why;
};
struct Walk {
  std::vector<SourceFile> files;  ///< in the order of their names
  std::vector<Skipped> skipped;
};

/// Bytes of a file at most: kernels are text that somebody wrote.
inline constexpr std::uintmax_t most_file_bytes = 8U << 20U;

/// Regular files below `folder` with one of these endings (".cu"). Links are not followed, hidden folders not entered.
/// Error kinds: `no_such_folder`, `not_a_folder`, `permission_denied`.
Result<Walk> walk(const std::filesystem::path& folder, const std::vector<std::string_view>& endings);

/// The text of a file. Kinds `binary` (it has a zero byte), and those of base/file.h.
Result<std::string> read_text(const SourceFile& file);

}  // namespace planish::patterns
