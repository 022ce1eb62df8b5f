#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

/// Checks of options, which say in words what is taken. The description is what --help shows as the type.
namespace planish::cli {

/// A whole number between these, both included.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most = std::numeric_limits<int>::max());
/// One of these words; its description is "a|b|c", which completion reads (choices_of()).
CLI::Validator one_of(const std::vector<std::string>& words);
/// The words of an option with one_of(); empty for any other.
std::vector<std::string> choices_of(const CLI::Option& option);
/// "TIME", "1..64", "a|b|c": what stands behind an option's name in --help; empty for a flag.
std::string type_of(const CLI::Option& option);

}  // namespace planish::cli
