#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planish_target.h"
#include "result.h"

/// The planish.program/1 document as the runtime needs it: what to launch, not why. src/program validates the rest.
namespace planish::rt {

enum class Role : std::uint8_t { input, param, constant, state, temp, output };

struct Buffer {
  Role role = Role::temp;
  std::string dtype;
  std::int64_t element_bytes = 0;            ///< 0: a dtype that only aten steps may touch
  std::vector<std::int64_t> shape, strides;  ///< elements; strides are never negative
  std::int64_t elements = 0;                 ///< product of the shape
  std::int64_t extent = 0;                   ///< 1 + Σ (shape-1)·stride, or 0 when empty
  std::int64_t bytes() const { return extent * element_bytes; }
};

struct Kernel {
  std::string language, entry;
};

struct LaunchArg {
  int buffer = -1;  ///< -1: a scalar, whose bytes are in `value`
  int size = 8;
  alignas(8) std::array<unsigned char, 8> value{};
};

enum class StepKind : std::uint8_t { launch, aten, copy, set };

struct Step {
  StepKind kind = StepKind::launch;
  int kernel = -1;
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  std::uint32_t shared = 0;   ///< dynamic shared bytes
  bool cooperative = false;   ///< all blocks run at the same time
  bool programmatic = false;  ///< may begin before the step before it has ended: the kernel waits by itself
  std::vector<LaunchArg> args;
  int from = -1, to = -1;                  ///< copy; set uses `to`
  std::array<unsigned char, 8> pattern{};  ///< set: one element, encoded in the buffer's dtype
  std::vector<int> touches;                ///< every buffer the step reads or writes
};

struct Document {
  const Target* target = &targets.front();
  std::string arch;
  std::vector<Buffer> buffers;
  std::vector<Kernel> kernels;
  std::vector<Step> steps;
};

constexpr std::size_t max_launch_args = 256;

/// Fails with kind `bad_program` and a message that names the place.
Result<Document> parse_document(std::string_view json);

/// Bytes an element of a document dtype takes; 0 when unknown.
std::int64_t dtype_bytes(std::string_view dtype);

/// `0x1.8p+1`, `inf`, `-inf`, `nan`. False on anything else; does not depend on the locale.
bool parse_hex_float(std::string_view text, double* out);

/// One element of `dtype` holding `value`, little-endian; false for a dtype that has no such encoding.
bool encode_element(std::string_view dtype, double value, std::array<unsigned char, 8>* out);

}  // namespace planish::rt
