#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

/// Writes shipped folders (docs/formats/ship.md).
namespace planish::ship {

struct ShipRequest {
  std::filesystem::path
      folder;            ///< what to make; an earlier shipped folder there is replaced, anything else is an error
  std::string baseline;  ///< empty: ship `program`. Else eager | compile | max_autotune_no_cudagraphs | max_autotune
  std::string program;   ///< planish.program/1, JSON text
  std::vector<std::filesystem::path> binaries;  ///< one file a kernel of the program
  std::filesystem::path blobs;                  ///< where the program's constants lie
  std::filesystem::path task;     ///< the user's file, copied verbatim; a folder (a live module) is not copied
  std::string graph;              ///< planish.graph/1, JSON text: nesting of inputs and outputs, specialised scalars
  std::filesystem::path package;  ///< python/planish: executor.py, ship/module.py, ship/guards.py are copied from here
  std::filesystem::path runtime;  ///< libplanish_rt.so
  std::string evidence;           ///< JSON text
  std::optional<bool> training;   ///< mode of every submodule at capture; empty: as the constructor left each of them
  std::string planish_version, torch_version;
};

/// Makes the folder beside its final place and renames it there: a reader finds the old one or the whole new one, and
/// being killed leaves at most a `.tmp-…` neighbour. Error kinds: `bad_program`, `bad_graph`, `bad_request`,
/// `not_shipped` (something else is in the way), and those of base/file.h. May be called from any thread, by one caller
/// a folder.
Status write_folder(const ShipRequest& request);

/// Recomputes the digests that ship.json lists. Error kinds: `not_shipped` (no or bad ship.json), `altered` (names the
/// first file that differs, is missing or was added), and those of base/file.h.
Status check_folder(const std::filesystem::path& folder);

}  // namespace planish::ship
