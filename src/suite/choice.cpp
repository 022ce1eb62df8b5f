#include "suite/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

namespace planish::suite {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::vector<std::string> words_in(const std::string& expression) {
  std::vector<std::string> out;
  std::string word;
  const auto end = [&] {
    if (!word.empty()) out.push_back(std::exchange(word, {}));
  };
  for (const char c : expression) {
    if (c == '(' || c == ')') {
      end();
      out.emplace_back(1, c);
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      end();
    } else {
      word += c;
    }
  }
  end();
  return out;
}

/// Reads words from left to right: `or` binds least, then `and`, then `not`.
class Reader {
 public:
  explicit Reader(std::vector<std::string> words) : words_(std::move(words)) {}

  Result<Choice> whole() {
    PLANISH_TRY(auto out, either());
    if (at_ < words_.size()) return unexpected();
    return out;
  }

 private:
  bool take(std::string_view word) {
    if (at_ == words_.size() || words_[at_] != word) return false;
    ++at_;
    return true;
  }
  Result<Choice> unexpected() const {
    return fail("usage",
                at_ == words_.size() ? "-k ends where a part of a name should stand"
                                     : fmt::format("-k: '{}' stands where none was expected", words_[at_]),
                "parts of names with and, or, not and parentheses: -k 'softmax and not large'");
  }
  Result<Choice> either() {
    PLANISH_TRY(Choice out, both());
    while (take("or")) {
      PLANISH_TRY(Choice other, both());
      out = [a = std::move(out), b = std::move(other)](std::string_view name) { return a(name) || b(name); };
    }
    return out;
  }
  Result<Choice> both() {
    PLANISH_TRY(Choice out, one());
    while (take("and")) {
      PLANISH_TRY(Choice other, one());
      out = [a = std::move(out), b = std::move(other)](std::string_view name) { return a(name) && b(name); };
    }
    return out;
  }
  Result<Choice> one() {
    constexpr std::size_t deepest = 100;
    if (++depth_ > deepest)
      return fail("usage", "-k has too many parentheses or negations", "write a shorter expression");
    auto out = unwrapped();
    --depth_;
    return out;
  }
  Result<Choice> unwrapped() {
    if (take("not")) {
      PLANISH_TRY(Choice out, one());
      return Choice([a = std::move(out)](std::string_view name) { return !a(name); });
    }
    if (take("(")) {
      auto out = either();
      if (out && !take(")")) return unexpected();
      return out;
    }
    if (at_ == words_.size() || words_[at_] == ")" || words_[at_] == "and" || words_[at_] == "or") return unexpected();
    return Choice([part = lower(words_[at_++])](std::string_view name) { return lower(name).contains(part); });
  }

  std::vector<std::string> words_;
  std::size_t at_ = 0, depth_ = 0;
};

}  // namespace

Result<Choice> parse_choice(const std::string& expression) {
  return Reader(words_in(expression)).whole();
}

}  // namespace planish::suite
