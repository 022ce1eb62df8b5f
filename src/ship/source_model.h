#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

// Private to src/ship: the launch code of a source project.
namespace planish::ship {

/// model.py for a program and its manifest: one Python statement a step, with the shapes beside it. Error kind
/// `unsupported` for a kernel written in Triton.
Result<std::string> source_model(const Json& program, const Json& manifest);

}  // namespace planish::ship
