#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

/// The judge as a trainer's environment: what a completion is worth. Knows no socket and no process.
namespace planish::environment {

enum class Form : std::uint8_t {
  module,  ///< Python with a `ModelNew`
  source,  ///< kernels and launches (docs/formats/source.md)
};
std::string_view name(Form form);

struct Code {
  Form form = Form::module;
  std::string text;
};

/// The code that a completion hands in: its last fenced block that defines `ModelNew`, or the one that has a launch
/// line; where nothing is fenced, the whole text where it is such code. Prose, other blocks and thoughts in <think> are
/// passed over. Kind `no_code` or `several_programs`, in words that a model can be told.
Result<Code> code_in(std::string_view completion);

}  // namespace planish::environment
