#include <algorithm>
#include <fstream>
#include <string>

#include "suite/formats/imported.h"

namespace planish::suite::formats {

namespace {

namespace fs = std::filesystem;

/// The beginning of a file, as far as telling it takes.
std::string beginning(const fs::path& file) {
  constexpr std::size_t most = 64U << 10U;
  std::ifstream in(file, std::ios::binary);
  std::string out(most, '\0');
  in.read(out.data(), static_cast<std::streamsize>(most));
  out.resize(static_cast<std::size_t>(in.gcount()));
  return out;
}

/// Whether functions and their test stand in one Python file, a line of # between them.
bool has_rule(const fs::path& file) {
  std::error_code ignored;
  if (file.extension() != ".py" || !fs::is_regular_file(file, ignored)) return false;
  const std::string text = beginning(file);
  const std::size_t rule = text.find("\n" + std::string(20, '#'));
  return rule != std::string::npos && text.find("\ndef test", rule) != std::string::npos;
}

}  // namespace

std::string format_of(const fs::path& from) {
  std::error_code ignored;
  if (fs::is_regular_file(from, ignored)) return beginning(from).starts_with("Operator: ") ? "backendbench" : "";
  if (fs::exists(from / "task.yml", ignored)) return "gpu-mode";
  if (fs::is_directory(from / "definitions", ignored)) return "flashinfer-bench";
  const auto operators = atrex_operators(from);
  if (is_atrex(from) || (operators && !operators->empty())) return "atrex-bench";
  for (auto it = fs::directory_iterator(from, ignored); !ignored && it != fs::directory_iterator();
       it.increment(ignored)) {
    std::error_code gone;
    if (fs::exists(it->path() / "task.yml", gone)) return "gpu-mode";
    if (has_rule(it->path())) return "tritonbench";
  }
  return {};
}

}  // namespace planish::suite::formats
