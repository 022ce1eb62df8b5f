#include "document.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

namespace planish::rt {
namespace {

using Json = nlohmann::json;

// The library recurses a level a bracket: a folder of somebody else's that holds brackets alone would overflow the
// stack.
bool too_deep(std::string_view source) {
  constexpr int most = 200;
  int depth = 0;
  bool in_string = false, escaped = false;
  for (const char c : source) {
    if (in_string) {
      in_string = escaped || c != '"';
      escaped = !escaped && c == '\\';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

std::unexpected<Failure> bad(const std::string& where, const std::string& what) {
  return fail("bad_program", where + ": " + what);
}

const Json* field(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it == object.end() ? nullptr : &*it;
}

Result<std::string> text(const Json& object, const char* name, const std::string& where) {
  const Json* value = field(object, name);
  if (value == nullptr || !value->is_string()) return bad(where, std::string("`") + name + "` must be a string");
  return value->get<std::string>();
}

Result<std::int64_t> integer(const Json& object, const char* name, std::int64_t lo, std::int64_t hi,
                             const std::string& where) {
  const Json* value = field(object, name);
  if (value == nullptr || !value->is_number_integer())
    return bad(where, std::string("`") + name + "` must be an integer");
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(hi)) {
    return bad(where, std::string("`") + name + "` is out of range");
  }
  const auto n = value->get<std::int64_t>();
  if (n < lo || n > hi) return bad(where, std::string("`") + name + "` is out of range");
  return n;
}

Result<std::vector<std::int64_t>> integers(const Json& object, const char* name, const std::string& where) {
  const Json* value = field(object, name);
  if (value == nullptr || !value->is_array())
    return bad(where, std::string("`") + name + "` must be a list of integers");
  std::vector<std::int64_t> out;
  for (const Json& item : *value) {
    if (!item.is_number_integer() || item.get<std::int64_t>() < 0) {
      return bad(where, std::string("`") + name + "` must hold integers that are not negative");
    }
    out.push_back(item.get<std::int64_t>());
  }
  return out;
}

Result<const Json*> list(const Json& object, const char* name, const std::string& where) {
  const Json* value = field(object, name);
  if (value == nullptr || !value->is_array()) return bad(where, std::string("`") + name + "` must be a list");
  return value;
}

Result<Buffer> parse_buffer(const Json& json, const std::string& where) {
  Buffer out;
  PRT_TRY(const std::string role, text(json, "role", where));
  if (role == "input")
    out.role = Role::input;
  else if (role == "param")
    out.role = Role::param;
  else if (role == "const")
    out.role = Role::constant;
  else if (role == "state")
    out.role = Role::state;
  else if (role == "temp")
    out.role = Role::temp;
  else if (role == "output")
    out.role = Role::output;
  else
    return bad(where, "unknown role `" + role + "`");
  PRT_TRY(out.dtype, text(json, "dtype", where));
  out.element_bytes = dtype_bytes(out.dtype);
  PRT_TRY(out.shape, integers(json, "shape", where));
  PRT_TRY(out.strides, integers(json, "strides", where));
  if (out.shape.size() != out.strides.size()) return bad(where, "`shape` and `strides` differ in length");
  const bool empty = std::find(out.shape.begin(), out.shape.end(), 0) != out.shape.end();
  out.elements = out.extent = empty ? 0 : 1;
  for (std::size_t i = 0; i < out.shape.size() && !empty; ++i) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(out.elements, out.shape[i], &out.elements) ||
        __builtin_mul_overflow(out.shape[i] - 1, out.strides[i], &reach) ||
        __builtin_add_overflow(out.extent, reach, &out.extent)) {
      return bad(where, "the size overflows 64 bits");
    }
  }
  if (std::int64_t bytes = 0; __builtin_mul_overflow(out.extent, out.element_bytes, &bytes))
    return bad(where, "the size overflows 64 bits");
  return out;
}

Result<int> buffer_index(const Json& value, const Document& doc, const std::string& where) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 ||
      value.get<std::int64_t>() >= static_cast<std::int64_t>(doc.buffers.size())) {
    return bad(where, "no such buffer: " + value.dump());
  }
  return value.get<int>();
}

Status writable(const Document& doc, int buffer, const std::string& where) {
  const Role role = doc.buffers[static_cast<std::size_t>(buffer)].role;
  if (role == Role::input || role == Role::param || role == Role::constant) {
    return bad(where, "writes buffer " + std::to_string(buffer) + ", which is only read");
  }
  return {};
}

Result<LaunchArg> parse_arg(const Json& json, const Document& doc, const std::string& where) {
  if (!json.is_object() || json.size() != 1)
    return bad(where, "an argument has exactly one of buffer, i32, i64, f32, f64");
  LaunchArg out;
  const std::string kind = json.begin().key();
  const Json& value = json.begin().value();
  if (kind == "buffer") {
    PRT_TRY(out.buffer, buffer_index(value, doc, where));
    return out;
  }
  if (kind == "i32" || kind == "i64") {
    constexpr auto lo32 = std::numeric_limits<std::int32_t>::min();
    constexpr auto hi32 = std::numeric_limits<std::int32_t>::max();
    const bool narrow = kind == "i32";
    PRT_TRY(const std::int64_t n, integer(json, kind.c_str(), narrow ? lo32 : std::numeric_limits<std::int64_t>::min(),
                                          narrow ? hi32 : std::numeric_limits<std::int64_t>::max(), where));
    out.size = narrow ? 4 : 8;
    const auto n32 = static_cast<std::int32_t>(narrow ? n : 0);
    std::memcpy(out.value.data(), narrow ? static_cast<const void*>(&n32) : &n, static_cast<std::size_t>(out.size));
    return out;
  }
  if (kind == "f32" || kind == "f64") {
    double d = 0;
    if (!value.is_string() || !parse_hex_float(value.get_ref<const std::string&>(), &d)) {
      return bad(where, "`" + kind + "` must be a hexadecimal float string");
    }
    const auto f = static_cast<float>(d);
    out.size = kind == "f32" ? 4 : 8;
    std::memcpy(out.value.data(), kind == "f32" ? static_cast<const void*>(&f) : &d,
                static_cast<std::size_t>(out.size));
    return out;
  }
  return bad(where, "unknown argument kind `" + kind + "`");
}

Status parse_triple(const Json& json, const char* name, std::int64_t hi, std::array<std::uint32_t, 3>* out,
                    const std::string& where) {
  PRT_TRY(const auto values, integers(json, name, where));
  if (values.size() != 3) return bad(where, std::string("`") + name + "` must be three integers");
  for (std::size_t i = 0; i < 3; ++i) {
    if (values[i] < 1 || values[i] > hi) return bad(where, std::string("`") + name + "` is out of range");
    (*out)[i] = static_cast<std::uint32_t>(values[i]);
  }
  return {};
}

std::uint64_t product(const std::array<std::uint32_t, 3>& v) {
  return std::uint64_t{v[0]} * v[1] * v[2];
}

Status parse_launch(const Json& json, const Document& doc, const std::string& where, Step* out) {
  PRT_TRY(const std::int64_t kernel,
          integer(json, "kernel", 0, static_cast<std::int64_t>(doc.kernels.size()) - 1, where));
  out->kernel = static_cast<int>(kernel);
  PRT_CHECK(parse_triple(json, "grid", 2147483647, &out->grid, where));
  PRT_CHECK(parse_triple(json, "block", 1024, &out->block, where));
  if (field(json, "cluster") != nullptr) PRT_CHECK(parse_triple(json, "cluster", 16, &out->cluster, where));
  PRT_TRY(const std::int64_t shared, integer(json, "shared", 0, 1 << 20, where));
  out->shared = static_cast<std::uint32_t>(shared);
  if (out->grid[1] > 65535 || out->grid[2] > 65535) return bad(where, "`grid` y and z are at most 65535");
  if (product(out->block) > 1024) return bad(where, "`block` has more than 1024 threads");
  if (product(out->cluster) > 16) return bad(where, "`cluster` has more than 16 blocks");
  for (std::size_t i = 0; i < 3; ++i) {
    if (out->grid[i] % out->cluster[i] != 0) return bad(where, "`grid` is no multiple of `cluster`");
  }
  if (doc.target->on_host &&
      (product(out->grid) != 1 || product(out->block) != 1 || product(out->cluster) != 1 || shared != 0)) {
    return bad(where, "a launch of target " + std::string(doc.target->name) +
                          " has grid, block and cluster 1 and no shared memory");
  }
  if (const Json* cooperative = field(json, "cooperative"); cooperative != nullptr) {
    if (!cooperative->is_boolean()) return bad(where, "`cooperative` must be true or false");
    out->cooperative = cooperative->get<bool>();
    if (out->cooperative && doc.target->on_host)
      return bad(where, "launches of target " + std::string(doc.target->name) + " are not cooperative");
  }
  if (const Json* programmatic = field(json, "programmatic"); programmatic != nullptr) {
    if (!programmatic->is_boolean()) return bad(where, "`programmatic` must be true or false");
    out->programmatic = programmatic->get<bool>();
    if (out->programmatic && (doc.target->on_host || out->cooperative))
      return bad(where, "a programmatic launch is a CUDA one, and not cooperative");
  }
  PRT_TRY(const Json* args, list(json, "args", where));
  if (args->size() > max_launch_args) return bad(where, "more than " + std::to_string(max_launch_args) + " arguments");
  for (std::size_t i = 0; i < args->size(); ++i) {
    PRT_TRY(LaunchArg arg, parse_arg((*args)[i], doc, where + " args[" + std::to_string(i) + "]"));
    if (arg.buffer >= 0) {
      if (doc.buffers[static_cast<std::size_t>(arg.buffer)].element_bytes == 0) {
        return bad(where, "buffer " + std::to_string(arg.buffer) + " has a dtype that kernels cannot touch");
      }
      out->touches.push_back(arg.buffer);
    }
    out->args.push_back(arg);
  }
  return {};
}

Status parse_aten(const Json& json, const Document& doc, const std::string& where, Step* out) {
  PRT_TRY(const std::string op, text(json, "op", where));
  PRT_TRY(const Json* args, list(json, "args", where));
  PRT_TRY(const Json* outs, list(json, "outs", where));
  const auto touch = [&](const Json& value) -> Status {
    if (value.is_null()) return {};
    PRT_TRY(const int index, buffer_index(value, doc, where));
    out->touches.push_back(index);
    return {};
  };
  for (const Json& arg : *args) {
    if (const Json* one = field(arg, "buffer")) PRT_CHECK(touch(*one));
    if (const Json* many = field(arg, "buffers"); many != nullptr && many->is_array()) {
      for (const Json& one : *many) PRT_CHECK(touch(one));
    }
  }
  for (const Json& one : *outs) PRT_CHECK(touch(one));
  return {};
}

Status parse_copy(const Json& json, const Document& doc, const std::string& where, Step* out) {
  PRT_TRY(out->from, buffer_index(json.value("from", Json()), doc, where));
  PRT_TRY(out->to, buffer_index(json.value("to", Json()), doc, where));
  PRT_CHECK(writable(doc, out->to, where));
  const Buffer& from = doc.buffers[static_cast<std::size_t>(out->from)];
  const Buffer& to = doc.buffers[static_cast<std::size_t>(out->to)];
  if (from.dtype != to.dtype || from.shape != to.shape)
    return bad(where, "copies between buffers of different dtype or shape");
  if (from.element_bytes == 0) return bad(where, "cannot copy dtype " + from.dtype);
  out->touches = {out->from, out->to};
  return {};
}

Status parse_set(const Json& json, const Document& doc, const std::string& where, Step* out) {
  PRT_TRY(out->to, buffer_index(json.value("buffer", Json()), doc, where));
  PRT_CHECK(writable(doc, out->to, where));
  PRT_TRY(const std::string value, text(json, "value", where));
  double number = 0;
  if (!parse_hex_float(value, &number)) return bad(where, "`value` must be a hexadecimal float string");
  const Buffer& to = doc.buffers[static_cast<std::size_t>(out->to)];
  if (!encode_element(to.dtype, number, &out->pattern)) return bad(where, value + " does not fit in dtype " + to.dtype);
  out->touches = {out->to};
  return {};
}

Result<Step> parse_step(const Json& json, const Document& doc, const std::string& where) {
  Step out;
  PRT_TRY(const std::string kind, text(json, "kind", where));
  if (kind == "launch") {
    out.kind = StepKind::launch;
    PRT_CHECK(parse_launch(json, doc, where, &out));
  } else if (kind == "aten") {
    out.kind = StepKind::aten;
    PRT_CHECK(parse_aten(json, doc, where, &out));
  } else if (kind == "copy") {
    out.kind = StepKind::copy;
    PRT_CHECK(parse_copy(json, doc, where, &out));
  } else if (kind == "set") {
    out.kind = StepKind::set;
    PRT_CHECK(parse_set(json, doc, where, &out));
  } else {
    return bad(where, "unknown step kind `" + kind + "`");
  }
  return out;
}

}  // namespace

Result<Document> parse_document(std::string_view source) {
  if (too_deep(source)) return bad("program", "nested deeper than 200 levels");
  const Json json = Json::parse(source.begin(), source.end(), nullptr, false);
  if (json.is_discarded() || !json.is_object()) return bad("program", "not a JSON object");
  PRT_TRY(const std::string schema, text(json, "schema", "program"));
  if (schema != "planish.program/1") return bad("program", "schema `" + schema + "` is not planish.program/1");
  Document out;
  PRT_TRY(const std::string target, text(json, "target", "program"));
  out.target = find_target(target);
  if (out.target == nullptr) return bad("program", "unknown target `" + target + "`");
  PRT_TRY(out.arch, text(json, "arch", "program"));
  PRT_TRY(const Json* buffers, list(json, "buffers", "program"));
  for (std::size_t i = 0; i < buffers->size(); ++i) {
    PRT_TRY(Buffer buffer, parse_buffer((*buffers)[i], "buffers[" + std::to_string(i) + "]"));
    out.buffers.push_back(std::move(buffer));
  }
  PRT_TRY(const Json* kernels, list(json, "kernels", "program"));
  for (std::size_t i = 0; i < kernels->size(); ++i) {
    const std::string where = "kernels[" + std::to_string(i) + "]";
    Kernel kernel;
    PRT_TRY(kernel.language, text((*kernels)[i], "language", where));
    PRT_TRY(kernel.entry, text((*kernels)[i], "entry", where));
    if (out.target->language(kernel.language) == nullptr)
      return bad(where, "language `" + kernel.language + "` does not run on target " + target);
    out.kernels.push_back(std::move(kernel));
  }
  PRT_TRY(const Json* steps, list(json, "steps", "program"));
  for (std::size_t i = 0; i < steps->size(); ++i) {
    PRT_TRY(Step step, parse_step((*steps)[i], out, "steps[" + std::to_string(i) + "]"));
    out.steps.push_back(std::move(step));
  }
  return out;
}

}  // namespace planish::rt
