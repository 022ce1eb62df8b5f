#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "database/sqlite.h"
#include "patterns/reader.h"

/// Vectors of the texts that searches rank, beside them in the index: one of each family, and of queries asked before.
/// Kept as eight-bit numbers. Who makes them is given from outside.
namespace planish::patterns {

/// Makes a vector of each text, in their order.
using Embedder = std::function<Result<std::vector<std::vector<float>>>(const std::vector<std::string>& texts)>;

/// What made the vectors. Two that differ in any of this cannot be compared.
struct VectorModel {
  std::string name;
  int asked_dimensions = 0;  ///< 0: as many as the model gives
  bool operator==(const VectorModel&) const = default;
};

struct VectorState {
  std::optional<VectorModel> model;  ///< nothing: there are no vectors
  int dimensions = 0;
  std::int64_t texts = 0, embedded = 0;  ///< of `texts`, those that have a vector
};

/// One thread at a time. Error kinds: those of database/sqlite.h, `bad_vectors` (not of one length, or not as many as
/// texts), those of the embedder.
class Vectors {
 public:
  /// Of an index that Library::open has opened.
  static Result<Vectors> open(const std::filesystem::path& file);
  Result<VectorState> state();

  struct Embedded {
    std::int64_t made = 0, kept = 0;  ///< new vectors, and texts that had one
    std::int64_t dropped = 0;         ///< of another model
  };
  /// Gives every text a vector, `batch` at a time. What was made is kept whatever comes after: a later call goes on.
  /// Vectors of another model are dropped first, those that no text has afterwards at the end. `progress(done, of)`.
  Result<Embedded> embed(const VectorModel& model, const Embedder& embedder, std::size_t batch,
                         const CancelToken* cancel, const std::function<void(std::int64_t, std::int64_t)>& progress);

  /// The vector of a query, packed, for Library::search; made by `embedder` where it was not asked before.
  Result<std::string> of_query(const VectorModel& model, const std::string& query, const Embedder& embedder);

 private:
  Vectors(database::Database database, Reader reader) : database_(std::move(database)), reader_(std::move(reader)) {}
  Status name_texts();
  /// How many vectors were of another model, and are gone.
  Result<std::int64_t> use(const VectorModel& model);
  Status keep(const char* sql, const VectorModel& model, const std::vector<std::string>& keys,
              const std::vector<std::vector<float>>& vectors);
  database::Database database_;
  Reader reader_;
};

/// A direction in eight bits a number: the largest becomes 127, so that only angles are kept.
std::string pack_vector(const std::vector<float>& vector);

}  // namespace planish::patterns
