#include "fuzz/mutate.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace fuzz {
namespace {

std::size_t below(Random& random, std::size_t count) {
  return static_cast<std::size_t>(random() % std::max<std::size_t>(count, 1));
}

/// Every value of the tree, the root among them. Deeper ones are not offered where brackets were nested on purpose.
void collect(Json& json, std::vector<Json*>& out, int depth = 0) {
  out.push_back(&json);
  if (depth > 40 || !json.is_structured()) return;
  for (Json& child : json) collect(child, out, depth + 1);
}

Json nested(Random& random) {
  Json value = 1;
  for (std::size_t i = below(random, 400); i > 0; --i)
    value = random() % 2 == 0 ? Json{{"a", value}} : Json::array({value});
  return value;
}

Json unusual(Random& random) {
  using I = std::numeric_limits<std::int64_t>;
  static const std::vector<Json> values{nullptr,
                                        true,
                                        false,
                                        0,
                                        1,
                                        -1,
                                        2,
                                        255,
                                        65536,
                                        std::numeric_limits<std::int32_t>::max(),
                                        std::numeric_limits<std::int32_t>::min(),
                                        std::int64_t{1} << 31,
                                        std::int64_t{1} << 32,
                                        I::max(),
                                        I::min(),
                                        std::numeric_limits<std::uint64_t>::max(),
                                        0.5,
                                        -0.0,
                                        1e300,
                                        -1e300,
                                        1e19,
                                        "",
                                        "a",
                                        "nan",
                                        "inf",
                                        "-inf",
                                        "0x1p+0",
                                        "0x1.8p+99999",
                                        "-0x",
                                        "task",
                                        "f32",
                                        "f64",
                                        "u8",
                                        "user",
                                        "param",
                                        "launch",
                                        "aten",
                                        std::string(3000, 'x'),
                                        std::string("\0\x1b[31m", 6),
                                        "\xc3\xa9",
                                        Json::array(),
                                        Json::object(),
                                        Json::array({1, 2, 3}),
                                        Json::array({nullptr}),
                                        Json{{"buffer", 0}},
                                        Json{{"", ""}}};
  return values[below(random, values.size())];
}

void change(Json& root, Random& random) {
  std::vector<Json*> all;
  collect(root, all);
  Json& at = *all[below(random, all.size())];
  switch (random() % 10) {
    case 0:
    case 1:
    case 2:
      at = unusual(random);
      return;
    case 3: {  // a value from elsewhere
      Json other = *all[below(random, all.size())];
      at = std::move(other);
      return;
    }
    case 4:
      if (at.is_structured() && !at.empty()) {
        auto it = at.begin();
        std::advance(it, static_cast<std::ptrdiff_t>(below(random, at.size())));
        at.erase(it);
      }
      return;
    case 5:
      if (at.is_array() && !at.empty()) {
        const Json copy = at[below(random, at.size())];
        for (std::size_t i = below(random, 5) + 1; i > 0; --i) at.push_back(copy);
      } else if (at.is_object()) {
        at["more"] = unusual(random);
      }
      return;
    case 6:
      if (at.is_number_integer()) at = at.get<std::int64_t>() ^ (std::int64_t{1} << (random() % 63));
      return;
    case 7:
      if (at.is_string()) {
        auto text = at.get<std::string>();
        text.insert(text.begin() + static_cast<std::ptrdiff_t>(below(random, text.size() + 1)),
                    static_cast<char>(' ' + random() % 95));
        at = std::move(text);
      }
      return;
    case 8:
      at = random() % 2 == 0 ? Json::array({at}) : Json{{"a", at}};
      return;
    default:
      if (random() % 8 == 0) at = nested(random);
  }
}

int number_of(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

Json mutated(Json document, Random& random) {
  for (std::size_t i = below(random, 4) + 1; i > 0; --i) change(document, random);
  return document;
}

std::string mutated_text(const Json& document, Random& random) {
  std::string text = planish::dump_json(mutated(document, random));
  if (random() % 4 != 0) return text;
  for (std::size_t i = below(random, 4) + 1; i > 0 && !text.empty(); --i) {
    const std::size_t at = below(random, text.size());
    switch (random() % 4) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.resize(at);
        break;
      case 2:
        text.insert(at, text.substr(at, below(random, 64)));
        break;
      default:
        text.insert(at, below(random, 300), "[{\"0-.e,"[random() % 8]);
    }
  }
  return text;
}

int cases(int usual) {
  return number_of("PLANISH_FUZZ_CASES", usual);
}

std::uint64_t first_seed() {
  return static_cast<std::uint64_t>(number_of("PLANISH_FUZZ_SEED", 1));
}

}  // namespace fuzz
