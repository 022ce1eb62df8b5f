#include "codegen/device/device_files.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace planish::codegen {
namespace {

/// One text of several files, of which each is taken once.
class Expansion {
 public:
  explicit Expansion(std::span<const DeviceFile> instead) : instead_(instead) {}

  void add(std::string_view name) {
    if (std::ranges::find(taken_, name) != taken_.end()) return;
    taken_.push_back(name);
    std::string_view rest = find(name);
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end);
      constexpr std::string_view include = "#include \"";
      if (line.starts_with(include)) {
        add(line.substr(include.size(), line.rfind('"') - include.size()));
      } else if (!line.starts_with("#pragma once")) {
        text_ += line;
      }
    }
  }

  std::string take() { return std::move(text_); }

 private:
  std::string_view find(std::string_view name) const {
    for (const auto files : {instead_, device_files()}) {
      const auto found = std::ranges::find(files, name, &DeviceFile::name);
      if (found != files.end()) return found->text;
    }
    throw std::logic_error("there is no device file " + std::string(name));
  }

  std::span<const DeviceFile> instead_;
  std::vector<std::string_view> taken_;
  std::string text_;
};

}  // namespace

std::string device_text(std::span<const std::string_view> names, std::span<const DeviceFile> instead) {
  Expansion expansion(instead);
  for (const std::string_view name : names) expansion.add(name);
  return expansion.take();
}

}  // namespace planish::codegen
