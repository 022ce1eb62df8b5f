#pragma once

// Include from .cpp files only (base/json.h). What language models did in a run, and how its best improved: as the
// result has it, and in words for the terminal and the report.
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "session/result_document.h"

namespace planish::session {

/// `search.models` and `search.best` of the result (docs/formats/result.md).
Json models_json(const ResultDocument::Models& models);
Json best_json(const std::vector<ResultDocument::Best>& best);

/// Whether models had seats, and the limit of spending ended every call before it was made.
bool cap_let_nothing_through(const ResultDocument::Searched& searched);

/// What a person should know at once: who was fallen back on, and why.
std::vector<std::string> notes_of(const ResultDocument::Models& models);

/// Name and value of each line, from a result; empty where it has none. Words of models are cut, and spelled out where
/// they are not printable.
std::vector<std::pair<std::string, std::string>> search_words(const Json& result);

}  // namespace planish::session
