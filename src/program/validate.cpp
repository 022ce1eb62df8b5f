#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "backend/backend.h"
#include "program/program.h"

namespace planish::program {
namespace {

std::unexpected<Error> refuse(std::string message) {
  return fail("bad_program", std::move(message));
}

bool hex64(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool identifier(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
}

Status check_buffer(const Buffer& buffer, const std::string& where) {
  if (buffer.dtype.empty()) return refuse(where + ": empty dtype");
  if (buffer.shape.size() != buffer.strides.size()) {
    return refuse(fmt::format("{}: {} dims but {} strides", where, buffer.shape.size(), buffer.strides.size()));
  }
  std::int64_t extent = 1, end = 0;
  for (std::size_t i = 0; i < buffer.shape.size(); ++i) {
    if (buffer.shape[i] < 0 || buffer.strides[i] < 0) return refuse(where + ": negative shape or stride");
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(extent, std::max<std::int64_t>(buffer.shape[i], 1), &extent) ||
        __builtin_mul_overflow(buffer.shape[i], buffer.strides[i], &reach) || extent > (std::int64_t{1} << 60) ||
        __builtin_add_overflow(end, reach, &end) || end > (std::int64_t{1} << 60)) {
      return refuse(where + ": larger than can be addressed");
    }
  }
  const Source& source = buffer.source;
  const bool named = !source.name.empty() && source.index < 0 && source.blob.empty();
  bool ok = false;
  switch (buffer.role) {
    case Role::input:
      ok = source.name.empty() && source.blob.empty() &&
           (source.kind == "generator" ? source.index < 0 : source.kind == "user" && source.index >= 0);
      break;
    case Role::param:
      ok = (source.kind == "param" || source.kind == "buffer") && named;
      break;
    case Role::state:
      ok = source.kind == "buffer" && named;
      break;
    case Role::constant:
      ok = source.kind == "const" && hex64(source.blob) && source.index < 0 && source.name.empty();
      break;
    case Role::temp:
    case Role::output:
      ok = source.kind.empty() && source.index < 0 && source.name.empty() && source.blob.empty();
      break;
  }
  if (!ok) return refuse(where + ": `source` does not fit its role");
  return {};
}

Status check_kernel(const KernelSource& kernel, const backend::Backend& target, const std::string& where) {
  const backend::Language* language = target.language(kernel.language);
  if (language == nullptr)
    return refuse(fmt::format("{}: language `{}` does not run on target {}", where, kernel.language, target.name));
  if (!identifier(kernel.entry)) return refuse(fmt::format("{}: `{}` is no entry name", where, kernel.entry));
  if (kernel.source.empty()) return refuse(where + ": empty source");
  for (const auto& flag : kernel.flags) {
    if (!language->allows(flag)) return refuse(fmt::format("{}: flag `{}` is not allowed", where, flag));
  }
  return {};
}

/// Which buffers hold a value at some point of the step list.
class Definitions {
 public:
  Definitions(const Program& program, const backend::Backend& target)
      : program_(program), target_(target), defined_(program.buffers.size()) {
    for (std::size_t i = 0; i < defined_.size(); ++i) defined_[i] = from_caller(static_cast<int>(i));
  }

  bool exists(int buffer) const { return buffer >= 0 && buffer < static_cast<int>(defined_.size()); }
  bool defined(int buffer) const { return defined_[static_cast<std::size_t>(buffer)]; }
  void define(int buffer) { defined_[static_cast<std::size_t>(buffer)] = true; }
  Role role(int buffer) const { return program_.buffers[static_cast<std::size_t>(buffer)].role; }
  bool from_caller(int buffer) const { return role(buffer) != Role::temp && role(buffer) != Role::output; }
  bool writable(int buffer) const { return !from_caller(buffer) || role(buffer) == Role::state; }

  /// Kernels and copies know how large an element of these dtypes is, as the runtime does; the others are for
  /// operators.
  bool has_size(int buffer) const {
    const std::string& dtype = program_.buffers[static_cast<std::size_t>(buffer)].dtype;
    constexpr std::array<std::string_view, 6> whole{"complex32", "complex64", "complex128",
                                                    "uint16",    "uint32",    "uint64"};
    return known(buffer) || dtype.starts_with("float8_") || std::ranges::find(whole, dtype) != whole.end();
  }
  /// A fill also how a value is written.
  bool known(int buffer) const {
    const auto dtype = dtype_from_name(program_.buffers[static_cast<std::size_t>(buffer)].dtype);
    return dtype.has_value() && *dtype != DType::other;
  }

  Status launch(const Launch& step, const std::string& where) {
    if (step.kernel < 0 || step.kernel >= static_cast<int>(program_.kernels.size())) {
      return refuse(where + ": no such kernel");
    }
    std::int64_t threads = 1, cluster = 1;
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t limit = d == 0 ? 2147483647 : 65535;
      if (step.grid[d] < 1 || step.grid[d] > limit) return refuse(where + ": grid out of range");
      if (step.block[d] < 1 || step.block[d] > (d == 2 ? 64 : 1024)) return refuse(where + ": block out of range");
      if (step.cluster[d] < 1 || step.cluster[d] > 16 || step.grid[d] % step.cluster[d] != 0) {
        return refuse(where + ": cluster out of range, or does not divide the grid");
      }
      threads *= step.block[d];
      cluster *= step.cluster[d];
    }
    if (threads > 1024) return refuse(where + ": more than 1024 threads a block");
    if (cluster > 16) return refuse(where + ": more than 16 blocks a cluster");
    if (step.shared < 0 || step.shared > (1 << 20)) return refuse(where + ": shared bytes out of range");
    if (!target_.has_grids && (step.grid != one_ || step.block != one_ || step.cluster != one_)) {
      return refuse(fmt::format("{}: grid, block and cluster are 1 for target {}", where, target_.name));
    }
    if (!target_.has_grids && step.shared != 0)
      return refuse(fmt::format("{}: target {} has no shared bytes", where, target_.name));
    if (step.args.size() > most_args) return refuse(fmt::format("{}: more than {} arguments", where, most_args));
    if (step.cooperative && !target_.has_grids)
      return refuse(fmt::format("{}: launches of target {} are not cooperative", where, target_.name));
    if (step.programmatic && !target_.has_grids)
      return refuse(fmt::format("{}: launches of target {} are not programmatic", where, target_.name));
    if (step.programmatic && step.cooperative)
      return refuse(where + ": a cooperative launch is not programmatic: its blocks need the whole device");
    const KernelSource& kernel = program_.kernels[static_cast<std::size_t>(step.kernel)];
    if (const backend::Language* language = target_.language(kernel.language); language->threads != nullptr) {
      const std::array<std::int64_t, 3> block{language->threads(kernel.flags), 1, 1};
      if (step.block != block)
        return refuse(fmt::format("{}: the kernel's flags ask for {} threads a block", where, block[0]));
      if (step.shared != 0 || step.cluster != one_)
        return refuse(
            fmt::format("{}: shared bytes and cluster are {}'s own to set: 0 and 1 here", where, language->title));
    }
    for (const auto& arg : step.args) {
      const auto* buffer = std::get_if<BufferArg>(&arg);
      if (buffer == nullptr) continue;
      if (!exists(buffer->buffer)) return refuse(where + ": no such buffer");
      if (!has_size(buffer->buffer))
        return refuse(fmt::format("{}: buffer {} has a dtype that only operators can touch", where, buffer->buffer));
      // A kernel's writes cannot be told from its reads here: it defines what it is given undefined.
      define(buffer->buffer);
    }
    return {};
  }

  Status aten(const Aten& step, const std::string& where) {
    const auto dot = step.op.find('.', 5);
    if (!step.op.starts_with("aten.") || dot == std::string::npos) {
      return refuse(fmt::format("{}: `{}` is no operator name", where, step.op));
    }
    const std::string name = step.op.substr(5, dot - 5);
    const std::string overload = step.op.substr(dot + 1);
    const bool dunder = name.starts_with("__") && name.ends_with("__");
    if ((name.ends_with('_') && !dunder) || overload == "out" || overload.ends_with("_out")) {
      return refuse(fmt::format("{}: {} writes to its arguments", where, step.op));
    }
    for (const int id : ir::reads(ir::GraphNode{step.op, step.args, {}})) {
      if (!exists(id)) return refuse(where + ": no such buffer");
      if (!defined(id)) return refuse(fmt::format("{}: buffer {} is read before it is defined", where, id));
    }
    for (const auto& out : step.outs) {
      if (!out) continue;
      if (!exists(*out)) return refuse(where + ": no such buffer");
      if (from_caller(*out)) return refuse(fmt::format("{}: buffer {} belongs to the caller", where, *out));
      if (defined(*out)) return refuse(fmt::format("{}: buffer {} is defined twice", where, *out));
      define(*out);
    }
    return {};
  }

  Status copy(const Copy& step, const std::string& where) {
    if (!exists(step.from) || !exists(step.to)) return refuse(where + ": no such buffer");
    if (!defined(step.from)) return refuse(fmt::format("{}: buffer {} is read before it is defined", where, step.from));
    if (!writable(step.to)) return refuse(fmt::format("{}: buffer {} belongs to the caller", where, step.to));
    const Buffer& from = program_.buffers[static_cast<std::size_t>(step.from)];
    const Buffer& to = program_.buffers[static_cast<std::size_t>(step.to)];
    if (from.dtype != to.dtype || from.shape != to.shape) return refuse(where + ": dtype and shape must be equal");
    if (!has_size(step.from)) return refuse(fmt::format("{}: dtype {} cannot be copied", where, from.dtype));
    if (role(step.to) == Role::output && defined(step.to)) {
      return refuse(fmt::format("{}: buffer {} is defined twice", where, step.to));
    }
    define(step.to);
    return {};
  }

  Status set(const Set& step, const std::string& where) {
    if (!exists(step.buffer)) return refuse(where + ": no such buffer");
    if (!writable(step.buffer)) return refuse(fmt::format("{}: buffer {} belongs to the caller", where, step.buffer));
    if (!known(step.buffer))
      return refuse(fmt::format("{}: buffer {} has a dtype that cannot be filled", where, step.buffer));
    define(step.buffer);
    return {};
  }

 private:
  const Program& program_;
  const backend::Backend& target_;
  std::vector<bool> defined_;
  static constexpr std::size_t most_args = 256;  // as the runtime has it
  std::array<std::int64_t, 3> one_{1, 1, 1};
};

Status check_outputs(const Program& program, const Definitions& definitions) {
  std::vector<bool> listed(program.buffers.size(), false);
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const Output& output = program.outputs[i];
    const std::string where = fmt::format("outputs[{}]", i);
    if (output.kind == "scalar") {
      if (output.scalar_json.empty()) return refuse(where + ": a scalar needs `arg`");
      continue;
    }
    const bool mutation =
        output.kind == "mutate_buffer" || output.kind == "mutate_input" || output.kind == "mutate_generator";
    if (!mutation && output.kind != "user") return refuse(fmt::format("{}: unknown kind `{}`", where, output.kind));
    if (output.kind == "mutate_buffer" && output.target_name.empty()) return refuse(where + ": no target");
    if (output.kind == "mutate_input" && output.target_index < 0) return refuse(where + ": no target");
    if (!definitions.exists(output.buffer)) return refuse(where + ": no such buffer");
    if (!definitions.defined(output.buffer)) {
      return refuse(fmt::format("{}: buffer {} is never defined", where, output.buffer));
    }
    if (definitions.role(output.buffer) == Role::temp) {
      return refuse(fmt::format("{}: buffer {} is a temp; give it the role `output`", where, output.buffer));
    }
    listed[static_cast<std::size_t>(output.buffer)] = true;
  }
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (program.buffers[i].role == Role::output && !listed[i]) {
      return refuse(fmt::format("buffers[{}] has the role `output` but is not in `outputs`", i));
    }
  }
  return {};
}

}  // namespace

Status validate(const Program& program) {
  const backend::Backend* target = backend::find(program.target);
  if (target == nullptr) return refuse(fmt::format("unknown target `{}`", program.target));
  if (program.arch.empty()) return refuse("empty arch");
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    PLANISH_CHECK(check_buffer(program.buffers[i], fmt::format("buffers[{}]", i)));
  }
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    PLANISH_CHECK(check_kernel(program.kernels[i], *target, fmt::format("kernels[{}]", i)));
  }
  Definitions definitions(program, *target);
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const std::string where = fmt::format("steps[{}]", i);
    PLANISH_CHECK(std::visit(
        [&]<typename T>(const T& step) -> Status {
          if constexpr (std::is_same_v<T, Launch>) return definitions.launch(step, where);
          if constexpr (std::is_same_v<T, Aten>) return definitions.aten(step, where);
          if constexpr (std::is_same_v<T, Copy>) return definitions.copy(step, where);
          if constexpr (std::is_same_v<T, Set>) return definitions.set(step, where);
        },
        program.steps[i]));
  }
  return check_outputs(program, definitions);
}

}  // namespace planish::program
