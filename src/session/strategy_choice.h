#pragma once

#include <string>
#include <string_view>

#include "session/optimize_flow.h"

namespace planish::session {

/// `--strategy NAME`: a way to search genomes (search/strategy.h), or a way to work with language models
/// (coder/model_coder.h), which leaves the search to them. Kind `usage`.
Status choose_strategy(std::string_view name, OptimizeRequest& request);
/// Its name, as settings and results have it.
std::string_view strategy_name(const OptimizeRequest& request);
/// Seats that language models take in every region.
int model_seats(const OptimizeRequest& request);

}  // namespace planish::session
