#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

/// Other forms of a shipped folder (docs/formats/ship.md).
namespace planish::ship {

/// What the folder was shipped with, and what a single file is made of.
struct ExportRequest {
  std::filesystem::path folder;  ///< a shipped one; its digests are checked first
  std::filesystem::path out;  ///< what to make; replaced if it is there and was made by us, anything else is an error
  std::filesystem::path package;  ///< python/planish: the parts written in Python
};

/// Most bytes of constants that a single file takes.
constexpr std::uintmax_t max_embedded_bytes = 256U << 20U;

/// What is to be known of a shipped folder before it is exported.
struct ShippedFacts {
  std::string task;  ///< name
  std::string mode;  ///< program | solution | baseline: nothing was gained, the original ships
};
/// `not_shipped` where it is none.
Result<ShippedFacts> shipped_facts(const std::filesystem::path& folder);

/// The folder itself, elsewhere.
Status export_folder(const ExportRequest& request);

/// One Python file without any other: sources, program, binaries and constants are in its text.
Status export_file(const ExportRequest& request);

/// A project to read, change and build: kernels, the code that launches them, a Makefile, and a test against the
/// original.
Status export_source(const ExportRequest& request);

/// A folder in the form that the package `kernels` loads, and Hugging Face's hub takes: a Python-only build variant, a
/// card and the evidence.
Status export_hub(const ExportRequest& request);

// Error kinds of all four: `not_shipped` and `altered` (see check_folder; `not_shipped` also where `out` is some other
// folder), `in_the_way` (`out` is some other file),
// `foreign_code` (a solution ships there: file, source and hub hold none), `live_module` (made from a live module: its
// code is not here), `too_large`, `bad_text`, `unsupported` (this form cannot hold it; the message says why), and those
// of base/file.h.

}  // namespace planish::ship
