#include "base/hash.h"
#include "base/json.h"
#include "ir/args_json.h"
#include "program/checked.h"
#include "program/normalise.h"
#include "program/program.h"

namespace planish::program {
namespace {

const char* role_name(Role role) {
  switch (role) {
    case Role::input:
      return "input";
    case Role::param:
      return "param";
    case Role::constant:
      return "const";
    case Role::state:
      return "state";
    case Role::temp:
      return "temp";
    case Role::output:
      return "output";
  }
  return "";
}

Json write(const Buffer& buffer) {
  Json json{
      {"role", role_name(buffer.role)}, {"dtype", buffer.dtype}, {"shape", buffer.shape}, {"strides", buffer.strides}};
  if (!buffer.source.kind.empty()) {
    Json source{{"kind", buffer.source.kind}};
    if (buffer.source.index >= 0) source["index"] = buffer.source.index;
    if (!buffer.source.name.empty()) source["name"] = buffer.source.name;
    if (!buffer.source.blob.empty()) source["blob"] = buffer.source.blob;
    json["source"] = std::move(source);
  }
  return json;
}

Json write(const LaunchArg& arg) {
  return std::visit(
      []<typename T>(const T& value) -> Json {
        if constexpr (std::is_same_v<T, BufferArg>) {
          return {{"buffer", value.buffer}};
        } else if constexpr (std::is_same_v<T, I32Arg>) {
          return {{"i32", value.value}};
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          return {{"i64", value}};
        } else if constexpr (std::is_same_v<T, F32Arg>) {
          return {{"f32", ir::float_to_hex(value.value)}};
        } else {
          return {{"f64", ir::float_to_hex(value)}};
        }
      },
      arg);
}

Json write(const Step& step) {
  return std::visit(
      []<typename T>(const T& s) -> Json {
        if constexpr (std::is_same_v<T, Launch>) {
          Json args = Json::array();
          for (const auto& arg : s.args) args.push_back(write(arg));
          Json out = {{"kind", "launch"},     {"kernel", s.kernel}, {"grid", s.grid},         {"block", s.block},
                      {"cluster", s.cluster}, {"shared", s.shared}, {"args", std::move(args)}};
          // Written where it holds alone: programs of before keep their hashes.
          if (s.cooperative) out["cooperative"] = true;
          if (s.programmatic) out["programmatic"] = true;
          return out;
        } else if constexpr (std::is_same_v<T, Aten>) {
          Json outs = Json::array();
          for (const auto& out : s.outs) outs.push_back(out ? Json(*out) : Json(nullptr));
          return {{"kind", "aten"},
                  {"op", s.op},
                  {"args", ir::args_to_json(s.args, ir::program_refs)},
                  {"outs", std::move(outs)}};
        } else if constexpr (std::is_same_v<T, Copy>) {
          return {{"kind", "copy"}, {"from", s.from}, {"to", s.to}};
        } else {
          return {{"kind", "set"}, {"buffer", s.buffer}, {"value", ir::float_to_hex(s.value)}};
        }
      },
      step);
}

Json write(const Output& output) {
  Json json{{"kind", output.kind}};
  if (output.kind == "scalar") {
    json["arg"] = json_or_discarded(output.scalar_json);
    return json;
  }
  json["buffer"] = output.buffer;
  if (output.kind == "mutate_buffer") json["target"] = output.target_name;
  if (output.kind == "mutate_input") json["target"] = output.target_index;
  return json;
}

}  // namespace

// nlohmann keeps object keys sorted and writes integers in decimal: its compact dump is the canonical form.
Json document(const Program& program) {
  Json buffers = Json::array(), kernels = Json::array(), steps = Json::array(), outputs = Json::array();
  for (const auto& buffer : program.buffers) buffers.push_back(write(buffer));
  for (const auto& kernel : program.kernels) {
    kernels.push_back(Json{
        {"language", kernel.language}, {"entry", kernel.entry}, {"flags", kernel.flags}, {"source", kernel.source}});
  }
  for (const auto& step : program.steps) steps.push_back(write(step));
  for (const auto& output : program.outputs) outputs.push_back(write(output));
  return Json{{"schema", "planish.program/1"}, {"target", program.target},      {"arch", program.arch},
              {"buffers", std::move(buffers)}, {"kernels", std::move(kernels)}, {"steps", std::move(steps)},
              {"outputs", std::move(outputs)}};
}

std::string to_json(const Program& program) {
  return dump_json(document(program));
}

std::string hash(const Program& program) {
  return sha256_hex(to_json(program));
}

std::string normalised_hash(const Program& program) {
  Program copy = program;
  for (std::size_t i = 0; i < copy.kernels.size(); ++i) {
    auto& kernel = copy.kernels[i];
    const std::string entry = "k" + std::to_string(i);
    kernel.source = normalise_source(kernel.source, kernel.language, kernel.entry, entry);
    kernel.entry = entry;
  }
  return hash(copy);
}

bool Program::has_aten() const {
  for (const auto& step : steps) {
    if (std::holds_alternative<Aten>(step)) return true;
  }
  return false;
}

}  // namespace planish::program
