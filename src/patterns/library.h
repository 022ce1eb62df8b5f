#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "patterns/pattern.h"

/// Patterns that can be searched: our own, and those a user imported. One SQLite file (FTS5 for words), of which every
/// process keeps the facts in memory.
namespace planish::patterns {

/// Of an import.
struct Corpus {
  std::string name;     ///< unique; importing under it again replaces what was there
  std::string kind;     ///< planish | cutlass | triton | cuda
  std::string folder;   ///< absolute; empty for our own
  double imported = 0;  ///< seconds since 1970
  std::int64_t patterns = 0;
};

/// What must hold. Empty fields ask for nothing.
struct Filter {
  std::string kind, corpus, form;
  /// Each name must have at least one of these values.
  Facts facts;
};

/// How a hit came by its score.
struct Hit {
  Pattern pattern;
  double score = 0;            ///< the sum of the following; only its order means anything
  double by_text = 0;          ///< BM25, as a share of the best one's
  double by_facts = 0;         ///< what the query says in facts, less what it does not say
  double by_measurements = 0;  ///< what our own templates achieved here
  double by_meaning = 0;       ///< by vectors, as a share of the nearest one's
};

/// A query as a vector, where the library has vectors of the same model (vectors.h).
struct QueryVector {
  std::string vector;            ///< of Vectors::of_query; empty: words and facts alone
  std::optional<double> weight;  ///< nothing: what labelled queries decided
};

/// What one of our templates achieved on a device, from the store.
struct Measured {
  std::string pattern;                ///< name of the template
  std::string device;                 ///< name of the device
  std::int64_t kernels = 0;           ///< different ones that were searched
  std::int64_t right = 0, tried = 0;  ///< genomes that were right, of all that were evaluated
  double best_fraction = 0;  ///< roofline over time, the mean over kernels of each one's best; 0 where not known
};

/// Error kinds: those of database/sqlite.h, `no_such_pattern`, `ambiguous_pattern`, `no_such_corpus`, `bad_filter`.
///
/// search(), find(), corpora() and measured() may be called from many threads at once; the others from one thread,
/// which may be while others search: they see the library as it was, then as it is. Several processes may share a file.
class Library {
 public:
  /// Creates the file and its folder where missing. Our own patterns are always among those found: where the file has
  /// none, or an earlier version's, they are written.
  static Result<Library> open(const std::filesystem::path& file);
  /// `patterns.db` in the data folder.
  static std::filesystem::path default_file();

  Library(Library&&) noexcept;
  Library& operator=(Library&&) noexcept;
  ~Library();

  /// The best `k` patterns for a query in words, of those that the filter lets through. A query without words asks for
  /// the filter's patterns in the order of their ids.
  Result<std::vector<Hit>> search(std::string_view query, const Filter& filter, int k,
                                  const QueryVector& meaning = {}) const;
  /// By id or by a unique prefix of it.
  Result<Pattern> find(std::string_view id) const;
  Result<std::vector<Corpus>> corpora() const;

  /// Replaces the corpus of that name by these patterns, of which equal ones count once, all at once: whoever searches
  /// meanwhile sees the one or the other. Gives the corpus as it is then.
  Result<Corpus> replace(const Corpus& corpus, const std::vector<Pattern>& patterns);
  /// Removes a corpus. Our own cannot be removed (`bad_filter`).
  Result<Corpus> forget(std::string_view name);

  /// What searches weigh our own templates by from now on.
  void set_measured(std::vector<Measured> measured);
  std::vector<Measured> measured() const;

  const std::filesystem::path& file() const;

 private:
  struct Impl;
  explicit Library(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace planish::patterns
