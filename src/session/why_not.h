#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "session/phase.h"
#include "session/recording.h"
#include "session/result_document.h"

/// Reasons that a run gives for not having gained, in words.
namespace planish::session {

/// After compare_times(). `finals`: those of the run's recording, which explain more than times do.
std::string why_not_faster(const ResultDocument& result, const std::vector<Recording::FailedFinal>& finals);
/// What a person's interrupt in one of the phases after the search has kept and what it has lost. `proved`: what was
/// found.
std::string interrupted_words(std::string_view phase, bool proved);

}  // namespace planish::session
