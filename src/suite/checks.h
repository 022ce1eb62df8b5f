#pragma once

#include <string>
#include <vector>

#include "suite/row.h"

/// Rows in the forms that continuous integration reads. A row is good where it is verified, improved, or gained
/// nothing.
namespace planish::suite {

/// Whether somebody has to look at the row: it was refused, or it failed.
bool is_bad(const Row& row);
/// A JUnit document: one test case a row; refused solutions are failures, what could not be judged is an error, what
/// was not asked for or cut off is skipped.
std::string junit_xml(const std::vector<Row>& rows, const std::string& suite);
/// Workflow commands (::error …), a line for each bad row, at the file of its solution or else of its task.
std::string github_annotations(const std::vector<Row>& rows);

}  // namespace planish::suite
