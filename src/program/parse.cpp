#include <fmt/format.h>

#include <limits>

#include "ir/args_json.h"
#include "program/program.h"

namespace planish::program {
namespace {

constexpr ErrorKind bad = "bad_program";
using Need = ObjectReader::Need;

std::optional<Role> role_from_name(const std::string& text) {
  if (text == "input") return Role::input;
  if (text == "param") return Role::param;
  if (text == "const") return Role::constant;
  if (text == "state") return Role::state;
  if (text == "temp") return Role::temp;
  if (text == "output") return Role::output;
  return std::nullopt;
}

Result<Buffer> parse_buffer(const Json& json, const std::string& where) {
  ObjectReader in(json, bad, where);
  Buffer buffer;
  std::string role;
  in.text("role", role);
  in.text("dtype", buffer.dtype);
  in.integers("shape", buffer.shape);
  in.integers("strides", buffer.strides);
  const Json* source = in.object("source", Need::optional);
  PLANISH_CHECK(in.finish());
  const auto known = role_from_name(role);
  if (!known) return fail(bad, fmt::format("{}: unknown role `{}`", where, role));
  buffer.role = *known;
  if (source != nullptr) {
    ObjectReader from(*source, bad, where + ".source");
    from.text("kind", buffer.source.kind);
    from.integer("index", buffer.source.index, Need::optional);
    from.text("name", buffer.source.name, Need::optional);
    from.text("blob", buffer.source.blob, Need::optional);
    PLANISH_CHECK(from.finish());
  }
  return buffer;
}

Result<LaunchArg> parse_launch_arg(const Json& json, const std::string& where) {
  if (!json.is_object() || json.size() != 1) return fail(bad, where + " must have exactly one field");
  const std::string key = json.begin().key();
  const Json& v = json.begin().value();
  if (key == "buffer" || key == "i32" || key == "i64") {
    if (!v.is_number_integer()) return fail(bad, fmt::format("{}: `{}` must be an integer", where, key));
    const auto value = v.get<std::int64_t>();
    if (key == "i64") return LaunchArg(value);
    if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max()) {
      return fail(bad, fmt::format("{}: `{}` does not fit in 32 bits", where, key));
    }
    if (key == "buffer") return LaunchArg(BufferArg{static_cast<int>(value)});
    return LaunchArg(I32Arg{static_cast<std::int32_t>(value)});
  }
  if (key == "f32" || key == "f64") {
    const auto value = v.is_string() ? ir::float_from_hex(v.get_ref<const std::string&>()) : std::nullopt;
    if (!value) return fail(bad, fmt::format("{}: `{}` must be a hexadecimal float", where, key));
    if (key == "f64") return LaunchArg(*value);
    return LaunchArg(F32Arg{static_cast<float>(*value)});
  }
  return fail(bad, fmt::format("{}: unknown field `{}`", where, key));
}

Status parse_triple(const std::vector<std::int64_t>& list, std::array<std::int64_t, 3>& out, const std::string& where) {
  if (list.size() != 3) return fail(bad, where + " must be three integers");
  std::copy(list.begin(), list.end(), out.begin());
  return {};
}

Result<Step> parse_launch(ObjectReader& in) {
  const std::string& where = in.where();
  Launch launch;
  std::vector<std::int64_t> grid, block, cluster;
  in.integer("kernel", launch.kernel);
  in.integers("grid", grid);
  in.integers("block", block);
  in.integers("cluster", cluster);
  in.integer("shared", launch.shared);
  in.boolean("cooperative", launch.cooperative, ObjectReader::Need::optional);
  in.boolean("programmatic", launch.programmatic, ObjectReader::Need::optional);
  const Json* args = in.array("args");
  PLANISH_CHECK(in.finish());
  PLANISH_CHECK(parse_triple(grid, launch.grid, where + ".grid"));
  PLANISH_CHECK(parse_triple(block, launch.block, where + ".block"));
  PLANISH_CHECK(parse_triple(cluster, launch.cluster, where + ".cluster"));
  for (std::size_t i = 0; i < args->size(); ++i) {
    PLANISH_TRY(LaunchArg arg, parse_launch_arg((*args)[i], fmt::format("{}.args[{}]", where, i)));
    launch.args.push_back(arg);
  }
  return Step(std::move(launch));
}

Result<Step> parse_step(const Json& json, int buffers, const std::string& where) {
  ObjectReader in(json, bad, where);
  std::string kind;
  in.text("kind", kind);
  if (kind == "launch") return parse_launch(in);
  if (kind == "aten") {
    Aten aten;
    in.text("op", aten.op);
    const Json* args = in.array("args");
    const Json* outs = in.array("outs");
    PLANISH_CHECK(in.finish());
    PLANISH_TRY(aten.args, ir::parse_args(*args, ir::program_refs, buffers, bad, where));
    PLANISH_TRY(aten.outs, ir::parse_outs(*outs, buffers, bad, where));
    return Step(std::move(aten));
  }
  if (kind == "copy") {
    Copy copy;
    in.integer("from", copy.from);
    in.integer("to", copy.to);
    PLANISH_CHECK(in.finish());
    return Step(copy);
  }
  if (kind == "set") {
    Set set;
    std::string value;
    in.integer("buffer", set.buffer);
    in.text("value", value);
    PLANISH_CHECK(in.finish());
    const auto number = ir::float_from_hex(value);
    if (!number) return fail(bad, where + ": `value` must be a hexadecimal float");
    set.value = *number;
    return Step(set);
  }
  if (kind.empty()) PLANISH_CHECK(in.finish());
  return fail(bad, fmt::format("{}: unknown kind `{}`", where, kind));
}

Result<Output> parse_output(const Json& json, const std::string& where) {
  ObjectReader in(json, bad, where);
  Output output;
  in.text("kind", output.kind);
  in.integer("buffer", output.buffer, Need::optional);
  const Json* target = in.get("target", Need::optional);
  const Json* arg = in.get("arg", Need::optional);
  PLANISH_CHECK(in.finish());
  if (output.kind == "mutate_buffer") {
    if (target == nullptr || !target->is_string()) return fail(bad, where + ": `target` must name a buffer");
    output.target_name = target->get<std::string>();
  } else if (output.kind == "mutate_input") {
    if (target == nullptr || !target->is_number_integer()) return fail(bad, where + ": `target` must be a leaf index");
    output.target_index = target->get<int>();
  } else if (target != nullptr) {
    return fail(bad, where + ": only a mutation has a `target`");
  }
  if (output.kind == "scalar") {
    if (arg == nullptr) return fail(bad, where + ": a scalar needs `arg`");
    output.scalar_json = dump_json(*arg);
  } else if (arg != nullptr) {
    return fail(bad, where + ": only a scalar has an `arg`");
  }
  return output;
}

}  // namespace

Result<Program> parse(std::string_view json) {
  PLANISH_TRY(const Json document, parse_json(json, bad, "program"));
  ObjectReader in(document, bad, "program");
  Program program;
  std::string schema;
  in.text("schema", schema);
  in.text("target", program.target);
  in.text("arch", program.arch);
  const Json* buffers = in.array("buffers");
  const Json* kernels = in.array("kernels");
  const Json* steps = in.array("steps");
  const Json* outputs = in.array("outputs");
  PLANISH_CHECK(in.finish());
  if (schema != "planish.program/1")
    return fail(bad, fmt::format("program has schema `{}`, not planish.program/1", schema));
  for (std::size_t i = 0; i < buffers->size(); ++i) {
    PLANISH_TRY(Buffer buffer, parse_buffer((*buffers)[i], fmt::format("buffers[{}]", i)));
    program.buffers.push_back(std::move(buffer));
  }
  for (std::size_t i = 0; i < kernels->size(); ++i) {
    ObjectReader reader((*kernels)[i], bad, fmt::format("kernels[{}]", i));
    KernelSource kernel;
    reader.text("language", kernel.language);
    reader.text("entry", kernel.entry);
    reader.text("source", kernel.source);
    reader.texts("flags", kernel.flags);
    PLANISH_CHECK(reader.finish());
    program.kernels.push_back(std::move(kernel));
  }
  const int limit = static_cast<int>(program.buffers.size());
  for (std::size_t i = 0; i < steps->size(); ++i) {
    PLANISH_TRY(Step step, parse_step((*steps)[i], limit, fmt::format("steps[{}]", i)));
    program.steps.push_back(std::move(step));
  }
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    PLANISH_TRY(Output output, parse_output((*outputs)[i], fmt::format("outputs[{}]", i)));
    program.outputs.push_back(std::move(output));
  }
  PLANISH_CHECK(validate(program));
  return program;
}

}  // namespace planish::program
