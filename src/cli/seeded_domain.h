#pragma once

#include <memory>
#include <vector>

#include "coder/domain.h"

namespace planish::cli {

/// The domain with more first guesses: `known` ones that were fast elsewhere. Those that this domain does not allow are
/// left out. `first`: before the domain's own guesses, else behind them.
std::shared_ptr<const coder::Domain> with_seeds(std::shared_ptr<const coder::Domain> domain,
                                                std::vector<codegen::Genome> known, bool first);

/// "name=1,2,4 name=…": the genes of a domain as the store keeps them, and back. Kind `store_corrupt`.
std::string genes_text(const std::vector<codegen::Gene>& genes);
Result<std::vector<codegen::Gene>> genes_from_text(const std::string& text);

}  // namespace planish::cli
