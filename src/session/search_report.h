#pragma once

#include <cstddef>
#include <map>

#include "search/search.h"
#include "session/result_document.h"
#include "session/whole.h"

namespace planish::session {

/// Fills in what the result says of each region, which has a row already, and adds a row for each other way to cut the
/// task that was measured. Rows of alternatives of which nothing is known are taken out. Gives the row of each way, by
/// the way's place among those of the search.
std::map<std::size_t, std::size_t> report_search(const search::Search& search, ResultDocument& result);

/// Which regions and ways the program has, and in which form. `way_rows`: as report_search() gave them.
void report_whole(const Whole& whole, const std::map<std::size_t, std::size_t>& way_rows, ResultDocument& result);

}  // namespace planish::session
