#pragma once

#include <span>
#include <string>
#include <string_view>

/// Device code kept as CUDA C++ files in this folder (`*.cuh`, `sm80/*.cuh`, `sm90/*.cuh`), and as C++ files for
/// processors
/// (`cpu/*.h`, behind vector_prelude()), embedded when Planish is built. A kernel
/// that a template prints is the text of the files it needs, then its policy and functors, then one instantiation.
/// Files need no header of CUDA's, so NVRTC compiles them as they are. Pure; thread-safe.
namespace planish::codegen {

struct DeviceFile {
  std::string_view name;  ///< from this folder: "sm90/ptx.cuh"
  std::string_view text;
};

/// All of them, by name.
std::span<const DeviceFile> device_files();

/// The files with everything that they include (`#include "NAME"`, NAME as in DeviceFile) in its place, each file once
/// and `#pragma once` left out. `instead` stands in for files of the same name: a CPU's form of `sm90/ptx.cuh` runs the
/// rest in tests. Expects names that exist; an unknown one throws std::logic_error, since it is a defect of the caller.
std::string device_text(std::span<const std::string_view> names, std::span<const DeviceFile> instead = {});

}  // namespace planish::codegen
