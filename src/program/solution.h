#pragma once

#include <optional>
#include <string>
#include <string_view>

/// What stands in a program's place where somebody answers with Python (docs/formats/source.md): the text of a file
/// with a class ModelNew, which is not kernels and launches but a module, and runs as a guest. A JSON object with the
/// schema `planish.solution/1`, so that whoever gets a program can tell which it is.
namespace planish::program {

/// Equal texts give equal documents; their SHA-256 is the candidate's identity.
std::string solution_document(std::string_view python);
/// The text in such a document; nothing where it is none.
std::optional<std::string> solution_of(std::string_view document);

}  // namespace planish::program
