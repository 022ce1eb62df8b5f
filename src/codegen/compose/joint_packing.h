#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "codegen/genome.h"
#include "program/program.h"

/// One launch in place of several that bring inputs into the form that products read. A network has one a layer, most
/// of them too small to fill a device; what they read is there before anything has run.
namespace planish::codegen {

/// A launch of a program that brings an input into another form (Emitted::packs).
struct PackingStep {
  const Emitted* emitted = nullptr;        ///< borrowed
  std::vector<program::LaunchArg> args{};  ///< buffers
};

/// Which of them can be one launch, by their places; every place is in one group. Launches of one size of block whose
/// texts begin alike go together, as many as a launch has arguments for.
std::vector<std::vector<std::size_t>> packing_groups(std::span<const PackingStep> steps);

/// The launch of a group, which does what its members do, block by block; `kernel` of the launch is not set. Error
/// kind `unsupported` where a text has another form than packings have.
struct JointPacking {
  program::KernelSource source;
  program::Launch launch;
};
Result<JointPacking> joint_packing(std::span<const PackingStep> group);

}  // namespace planish::codegen
