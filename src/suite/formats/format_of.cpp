#include <algorithm>

#include "suite/formats/imported.h"

namespace planish::suite::formats {

std::string format_of(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(folder / "task.yml", ignored)) return "gpu-mode";
  if (fs::is_directory(folder / "definitions", ignored)) return "flashinfer-bench";
  for (auto it = fs::directory_iterator(folder, ignored); !ignored && it != fs::directory_iterator();
       it.increment(ignored)) {
    std::error_code gone;
    if (fs::exists(it->path() / "task.yml", gone)) return "gpu-mode";
  }
  return {};
}

}  // namespace planish::suite::formats
