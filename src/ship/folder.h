#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

/// Writes shipped folders (docs/formats/ship.md).
namespace planish::ship {

struct ShipRequest {
  std::filesystem::path
      folder;  ///< what to make; an earlier shipped folder there is replaced, anything else is an error
  /// Empty: ship `program`. Else eager | compile | max_autotune_no_cudagraphs. Not max_autotune: its CUDA graphs hand
  /// out the same memory at every call, which no user of a module expects.
  std::string baseline;
  std::string program;     ///< planish.program/1, JSON text
  std::string solution{};  ///< text of a Python file with ModelNew, shipped as it is in a program's place; else empty
  std::vector<std::filesystem::path> binaries;  ///< one file a kernel of the program
  std::filesystem::path blobs;                  ///< where the program's constants lie
  std::filesystem::path task;     ///< the user's file, copied verbatim; a folder (a live module) is not copied
  std::string graph;              ///< planish.graph/1, JSON text: nesting of inputs and outputs, specialised scalars
  std::filesystem::path package;  ///< python/planish: parts.h and ship/module.py are copied from here
  std::filesystem::path runtime;  ///< libplanish_rt.so; planish_call.so is taken from beside it, where it was built
  std::string evidence;           ///< JSON text
  std::string modules;  ///< JSON text: what each submodule of a live module was at capture (ship.md); empty for a file
  std::string twin;  ///< JSON text: the same of its exported program, where that was proved and timed in its place; may
                     ///< be empty
  std::string planish_version, torch_version;
};

/// Makes the folder beside its final place and renames it there: a reader finds the old one or the whole new one, and
/// being killed leaves at most a `.tmp-…` neighbour. Modules that the task imports from its own folder go along. Error
/// kinds: `bad_program`, `bad_graph`, `bad_request`, `not_shipped` (something else is in the way), `too_large` (such
/// modules), and those of base/file.h. May be called from any thread, by one caller
/// a folder.
Status write_folder(const ShipRequest& request);

/// Recomputes the digests that ship.json lists. Error kinds: `not_shipped` (no or bad ship.json), `altered` (names the
/// first file that differs, is missing or was added), and those of base/file.h.
Status check_folder(const std::filesystem::path& folder);

/// A copy of what was checked, at `to`, which is not there yet: what is proved is what was looked at, whatever becomes
/// of the folder meanwhile. `altered` where it is no longer what check_folder() let through, with this text as its
/// ship.json.
Status copy_checked(const std::filesystem::path& folder, const std::string& manifest, const std::filesystem::path& to);
/// Whether the folder is still what was copied. `altered` where it is not.
Status check_unchanged(const std::filesystem::path& folder, const std::string& manifest);

/// Whether ship.json has what this version writes into it and nothing else, and its kernels need no instructions of a
/// CPU beyond those that it names. Error kinds: `altered`, `not_shipped`, those of base/file.h.
Status check_manifest(const std::filesystem::path& folder);

/// Whether the folder carries this very task: its source and what that imports from beside it, byte by byte. A live
/// module's folder carries none. Error kinds: `altered`, `too_large`, those of base/file.h.
Status check_reference(const std::filesystem::path& folder, const std::filesystem::path& task);

/// Whether ship.json says of the task's graph (planish.graph/1) what that says itself: nesting, numbers, effects. By
/// these the shipped module decides which calls its program answers. Error kinds: `altered`, `bad_graph`,
/// `not_shipped`.
Status check_graph(const std::filesystem::path& folder, const std::string& graph);

}  // namespace planish::ship
