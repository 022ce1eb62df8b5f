#pragma once

#include <map>
#include <string>
#include <vector>

#include "coder/domain.h"
#include "evaluate/evaluation.h"

namespace planish::bench {

/// One genome of a table.
struct Row {
  double ms = 0, lo_ms = 0, hi_ms = 0;  ///< 0: it failed
  std::string program;                  ///< empty: as its genome
  CompileReport compile;                ///< empty where not recorded
};

/// The genomes of a table as something to search.
class TableDomain : public coder::Domain {
 public:
  std::vector<codegen::Gene> all;
  std::vector<codegen::Genome> first;
  std::map<codegen::Genome, Row> rows;
  bool closed = false;                        ///< the rows are all there is
  std::vector<const codegen::Genome*> order;  ///< of a closed one: keys of rows, to draw from

  std::vector<codegen::Gene> genes() const override { return all; }
  bool legal(const codegen::Genome& genome) const override;
  std::vector<codegen::Genome> seeds() const override { return first; }
  codegen::Genome random(std::mt19937_64& rng) const override;
  std::vector<codegen::Genome> neighbours(const codegen::Genome& genome) const override;
  codegen::Genome mutate(const codegen::Genome& genome, std::mt19937_64& rng) const override;
  Result<coder::Candidate> build(const codegen::Genome& genome) const override;

  /// Its genes have their values from the lists of choices.
  bool within(const codegen::Genome& genome) const;
};

}  // namespace planish::bench
