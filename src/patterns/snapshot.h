#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "database/sqlite.h"
#include "patterns/fact.h"
#include "patterns/library.h"

// Private to src/patterns: what a process keeps of a library in memory.
namespace planish::patterns {

/// Numbers of vectors that are multiplied at once.
inline constexpr std::size_t vector_block = 16;

/// What is compared of every pattern for every query, without asking the database. Immutable once made.
struct Snapshot {
  struct Row {
    std::int64_t id = 0;        ///< of the table `patterns`
    std::int64_t family = 0;    ///< of the table `families`
    std::uint64_t content = 0;  ///< equal for equal patterns, whatever their corpus
    float prior = 0;            ///< added to every score: a helper of ten lines is less than a kernel
    std::uint32_t first = 0;    ///< in `facts`
    std::uint16_t count = 0;
    std::uint16_t corpus = 0;  ///< in `corpora`
    std::uint16_t form = 0;    ///< in `forms`
  };
  struct Value {
    std::string name, value;
    std::uint16_t kind = 0;  ///< number of its name
  };
  std::int64_t generation = -1;
  std::vector<Row> rows;             ///< those of a family side by side
  std::vector<std::uint32_t> facts;  ///< numbers in `values`
  std::vector<Value> values;
  std::vector<std::string> kinds;  ///< names of facts, at most 64 (those that fact.h weighs)
  std::vector<Corpus> corpora;
  std::vector<std::string> forms;
  /// Words that so many texts have that looking them up costs more than it tells → how many have it.
  std::unordered_map<std::string, std::int64_t> frequent;
  /// By name and value.
  std::unordered_map<std::string, std::uint32_t> numbers;

  /// Vectors of families, packed (vectors.h), one after the other: empty where there are none.
  struct Directions {
    std::size_t length = 0;  ///< numbers of each
    std::size_t stride = 0;  ///< with noughts to a multiple of `vector_block`
    std::vector<std::int64_t> families;
    std::vector<std::int8_t> numbers;
    std::vector<float> scale;  ///< one over the length of each
  } directions;

  static std::string key(std::string_view name, std::string_view value);
};

Result<std::shared_ptr<const Snapshot>> load_snapshot(database::Database& database);
Result<std::int64_t> generation_of(database::Database& database);

/// A query as the ranking sees it.
struct Asked {
  std::vector<std::string> words;  ///< each once
  Facts facts;
};
Asked ask(std::string_view query);

struct Scored {
  std::uint32_t row = 0;
  float score = 0, text = 0, facts = 0, measured = 0, meaning = 0;
};
/// The families whose vectors are nearest to a packed one: the nearest has 1, the first that is not among them 0.
/// Nothing where the lengths differ.
std::unordered_map<std::int64_t, double> nearest(const Snapshot& all, std::string_view vector);

/// What the nearest text counts, where nobody says otherwise.
extern const double default_meaning_weight;

/// The best `k` rows: one of a family, equal contents once. `texts`: family → BM25, larger is better. `meanings`:
/// family → nearness from 0 to 1, times `meaning_weight`.
Result<std::vector<Scored>> rank(const Snapshot& all, const Asked& asked, const Filter& filter,
                                 const std::unordered_map<std::int64_t, double>& texts,
                                 const std::unordered_map<std::int64_t, double>& meanings, double meaning_weight,
                                 const std::unordered_map<std::int64_t, double>& bonus, std::size_t k);

}  // namespace planish::patterns
