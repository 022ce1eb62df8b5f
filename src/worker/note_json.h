#pragma once

// Include from .cpp files only (base/json.h).
#include "base/json.h"
#include "worker/note.h"

namespace planish {

Json notes_to_json(const std::vector<Note>& notes);
/// Null is no note. Errors are of kind `protocol`.
Result<std::vector<Note>> read_notes(const Json* json);

}  // namespace planish
