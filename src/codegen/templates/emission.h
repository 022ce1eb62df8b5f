#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/genome.h"
#include "codegen/templates/template.h"

namespace planish::codegen {

/// How kernels become code for a target: its part of what code generation does. A folder that brings a target gives it
/// one (`backend.parts.give<Emission>(…)`).
class Emission {
 public:
  virtual ~Emission() = default;
  /// The ways to run a kernel that this template takes. Never null.
  virtual std::unique_ptr<const Schedule> schedule(const Template& kind, const Kernel& kernel,
                                                   const Device& device) const = 0;
  /// The text of a kernel `planish_kernel` of zeroing_threads threads a block, whose block k zeroes the memory of its
  /// k-th argument, so many 32-bit words long. Empty where a target has none: memory is set by steps then.
  virtual std::string zeroing(const std::vector<std::int64_t>& words) const {
    (void)words;
    return {};
  }
};

inline constexpr int zeroing_threads = 256;

/// That of the device's target; one that has no code for anything where the target brought none.
const Emission& emission_of(const Device& device);

}  // namespace planish::codegen
