#pragma once

#include <string>

#include "backend/backend.h"
#include "base/json.h"
#include "base/result.h"

// Private to src/ship: how a source project builds and launches its kernels.
namespace planish::ship {

/// A target's part of the form `source`.
class SourceBuild {
 public:
  virtual ~SourceBuild() = default;
  /// The variable of a makefile that names the compiler; its flags are in …FLAGS.
  virtual std::string compiler() const = 0;
  /// The makefile's lines that set both.
  virtual std::string tools(const std::string& arch) const = 0;
  /// The class of launch.py that runs a kernel.
  virtual std::string kernel_class() const = 0;
  /// In the readme: what runs it, what `make` needs, and what its memory costs.
  virtual std::string devices() const = 0;
  virtual std::string needs() const { return {}; }
  virtual std::string memory() const { return {}; }
};

/// That of a kernel of a checked program.
const backend::Language& language_of(const Json& kernel);

/// `unsupported` where the target brought none.
Result<const SourceBuild*> source_build(const backend::Backend& target);

}  // namespace planish::ship
