#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "worker/toolbox.h"

namespace planish::session {

/// What was found of a shipped folder that may be anybody's, before any of it was loaded.
struct ShippedFindings {
  std::string mode;                ///< program | baseline | solution
  std::string manifest;            ///< the text of its ship.json
  std::vector<std::string> notes;  ///< what could not be repeated here, and why
  bool untraced = false;           ///< host code among it: nobody says that it does what its source says
};

/// Whether the folder is what Planish ships: plain files below it and no others than it lists, with the digests it
/// lists; our own parts as this version ships them; the task's source as the task has it; nothing else; the program
/// with the hash and the sources it claims; each binary what its source compiles to, where the compiler is the one that
/// made it; evidence that is there and agrees with itself. Loads nothing. Error kinds: `altered` (says what),
/// `not_shipped`, those of base/file.h, and those of the compile worker's start.
Result<ShippedFindings> check_shipped(const std::filesystem::path& folder, const std::filesystem::path& task,
                                      const worker::Toolbox& tools);

}  // namespace planish::session
