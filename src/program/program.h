#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "ir/graph.h"

/// The program document (docs/formats/program.md) as plain data.
namespace planish::program {

enum class Role : std::uint8_t { input, param, constant, state, temp, output };

struct Source {
  std::string kind;  ///< user | param | buffer | const | generator; empty for temps and outputs
  int index = -1;
  std::string name;
  std::string blob;
};

struct Buffer {
  Role role = Role::temp;
  Source source;
  std::string dtype;  ///< document name
  std::vector<std::int64_t> shape, strides;
};

struct KernelSource {
  std::string language;  ///< cuda | triton | cpp
  std::string entry;
  std::vector<std::string> flags;
  std::string source;
};

struct BufferArg {
  int buffer = -1;
};
struct I32Arg {
  std::int32_t value = 0;
};
struct F32Arg {
  float value = 0;
};
using LaunchArg = std::variant<BufferArg, I32Arg, std::int64_t, F32Arg, double>;

struct Launch {
  int kernel = -1;
  std::array<std::int64_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  std::int64_t shared = 0;
  bool cooperative = false;   ///< all blocks run at the same time, or the launch is refused
  bool programmatic = false;  ///< may begin before the step before it has ended: the kernel waits by itself
  std::vector<LaunchArg> args;
};
/// Arguments as in the graph, with buffer indices in place of value ids.
struct Aten {
  std::string op;
  std::vector<ir::Arg> args;
  std::vector<std::optional<int>> outs;
};
struct Copy {
  int from = -1, to = -1;
};
struct Set {
  int buffer = -1;
  double value = 0;
};
using Step = std::variant<Launch, Aten, Copy, Set>;

struct Output {
  std::string kind;  ///< user | mutate_buffer | mutate_input | mutate_generator | scalar
  int buffer = -1;
  std::string target_name;
  int target_index = -1;
  std::string scalar_json;
};

struct Program {
  std::string target;  ///< cuda | cpu
  std::string arch;
  std::vector<Buffer> buffers;
  std::vector<KernelSource> kernels;
  std::vector<Step> steps;
  std::vector<Output> outputs;
  bool has_aten() const;
};

/// Strict parse and validation: every rule of the format document. Error kind `bad_program`; the message names the
/// place.
Result<Program> parse(std::string_view json);
Status validate(const Program& program);
/// Canonical JSON text: parse(to_json(p)) gives p again, and equal programs give equal text.
std::string to_json(const Program& program);
/// SHA-256 of the canonical form: the candidate's identity.
std::string hash(const Program& program);
/// SHA-256 over the program with comments and white space removed from kernel sources, and entry names normalised.
std::string normalised_hash(const Program& program);

}  // namespace planish::program
