#pragma once

#include <memory>
#include <vector>

#include "coder/domain.h"

namespace planish::session {

/// What became of the guesses that came from elsewhere.
struct Fitted {
  int taken = 0;
  int completed = 0;  ///< of those, so many lacked genes
  int left_out = 0;   ///< could not be had here
};

/// The domain with more first guesses: `known` ones that were fast elsewhere. One that lacks genes, as those do that an
/// earlier version stored, gets their first choices. Those that this domain does not allow even so, that have other
/// genes or values that are not offered here, are left out. `first` puts them before the domain's own guesses, else
/// they come behind them.
std::shared_ptr<const coder::Domain> with_seeds(std::shared_ptr<const coder::Domain> domain,
                                                std::vector<codegen::Genome> known, bool first,
                                                Fitted* fitted = nullptr);

/// "name=1,2,4 name=…": the genes of a domain as the store keeps them, and back. Kind `store_corrupt`.
std::string genes_text(const std::vector<codegen::Gene>& genes);
Result<std::vector<codegen::Gene>> genes_from_text(const std::string& text);

}  // namespace planish::session
