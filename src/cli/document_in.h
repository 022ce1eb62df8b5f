#pragma once

#include <string>

namespace planish::cli {

/// The last line of a child's output that is a JSON document (its stderr may stand around it); empty where there is
/// none.
std::string document_in(const std::string& output);

}  // namespace planish::cli
