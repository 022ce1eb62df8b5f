#include "cli/commands/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/suggest.h"

namespace planish::cli {
namespace {

constexpr const char* words_name = "one_of";

}  // namespace

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  const bool open = most >= std::numeric_limits<int>::max();
  const std::string words = open ? fmt::format("{} or more", least) : fmt::format("{} to {}", least, most);
  const std::string range = open ? "" : fmt::format("{}..{}", least, most);
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        std::uint64_t value = 0;
        const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool good = failed == std::errc{} && end == text.data() + text.size();
        if (good && value >= least && value <= most) return {};
        if (good && open && value > most) return fmt::format("{} is too large a number", text);
        return fmt::format("'{}' is no whole number {} {}", text, open ? "of" : "from", words);
      },
      range);
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  return {[words](const std::string& text) -> std::string {
            if (std::ranges::find(words, text) != words.end()) return {};
            return fmt::format("there is no '{}'; {}it is one of {}", text, did_you_mean(text, words),
                               fmt::join(words, ", "));
          },
          fmt::format("{}", fmt::join(words, "|")), words_name};
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  std::vector<std::string> out;
  try {
    // The library has no const form of this.
    std::istringstream words(const_cast<CLI::Option&>(option).get_validator(words_name)->get_description());  // NOLINT
    for (std::string word; std::getline(words, word, '|');) out.push_back(word);
  } catch (const CLI::OptionNotFound&) {
    return {};
  }
  return out;
}

std::string type_of(const CLI::Option& option) {
  if (option.get_type_size() == 0) return {};
  if (const auto words = choices_of(option); !words.empty()) return fmt::format("{}", fmt::join(words, "|"));
  // The library prints the type and, behind a colon, what a validator says of itself.
  std::string out = option.get_type_name();
  const std::size_t colon = out.find(':');
  const std::string said = colon == std::string::npos ? "" : out.substr(colon + 1);
  out.resize(std::min(colon, out.size()));
  if (out == "INT" || out == "UINT") return said.empty() ? "N" : said;
  return out;
}

}  // namespace planish::cli
