#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace planish::ship {

/// The instruction sets, as Linux names them in /proc/cpuinfo, that a disassembly (objdump -d, AT&T syntax) uses beyond
/// those of every x86-64. The AVX-512 subsets that came with the first servers count as one.
std::set<std::string> cpu_features(std::string_view disassembly);

/// The same of a shared object. Nothing where it cannot be disassembled.
std::optional<std::set<std::string>> cpu_features_of(const std::filesystem::path& binary);

}  // namespace planish::ship
