#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "codegen/genome.h"

/// Kernels and their launches as one text that people, models and edits work on (docs/formats/source.md). Pure;
/// thread-safe.
namespace planish::coder {

/// The text of what was emitted: parse_source_text() gives the same launches of the same kernels again.
std::string source_text(const codegen::Emitted& emitted);

/// Kind `bad_source`; the message names the line. What only the region can know (how many inputs it has) is not
/// checked here.
Result<codegen::Emitted> parse_source_text(std::string_view text, codegen::Target target);

}  // namespace planish::coder
