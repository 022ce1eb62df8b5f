#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codegen/genome.h"
#include "program/program.h"

/// Kernels and their launches as one text that people, models and edits work on (docs/formats/source.md). Pure;
/// thread-safe.
namespace planish::coder {

/// The text of what was emitted: parse_source_text() gives the same launches of the same kernels again.
std::string source_text(const codegen::Emitted& emitted);

/// The same of a region's program; nothing where it has steps that are no launches of kernels.
std::optional<std::string> source_text(const program::Program& program);

/// Kind `bad_source`; the message names the line. What only the region can know (how many inputs it has) is not
/// checked here.
Result<codegen::Emitted> parse_source_text(std::string_view text, const backend::Backend& target);

}  // namespace planish::coder
