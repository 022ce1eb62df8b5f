#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/file.h"
#include "ship/folder.h"
#include "ship/manifest.h"

// What ship.json says beside the digests: a forger seals those as well.
namespace planish::ship {
namespace {

namespace fs = std::filesystem;

using Fits = bool (*)(const Json&);

bool is_text(const Json& value) {
  return value.is_string();
}

bool are_texts(const Json& value) {
  return value.is_array() && std::ranges::all_of(value, is_text);
}

bool is_there(const Json& value) {
  return !value.is_null();
}

bool is_object(const Json& value) {
  return value.is_object();
}

struct Field {
  std::string_view name;
  Fits fits;
  bool required = true;
};

constexpr std::array<Field, 18> fields{{
    {"schema", is_text},
    {"mode", is_text},
    {"planish", is_text},
    {"torch", is_text},
    {"default_dtype", is_text},
    {"binaries", are_texts},
    {"input_tree", is_there},
    {"output_tree", is_there},
    {"scalars", is_there},
    {"effects", is_there},
    {"task", is_object},
    {"files", is_object},
    {"modules", is_object, false},
    {"twin", is_object, false},
    {"solution", is_text, false},
    {"baseline", is_text, false},
    {"program", is_text, false},
    {"cpu_flags", are_texts, false},
}};

}  // namespace

Status check_manifest(const fs::path& folder) {
  PLANISH_TRY(const std::string text, read_file(folder / "ship.json", most_bytes("ship.json")));
  PLANISH_TRY(const Json document, parse_json(text, "not_shipped", (folder / "ship.json").string()));
  const auto altered = [&](const std::string& what) {
    return fail("altered", fmt::format("{}: ship.json {}", folder.string(), what), "ship it again");
  };
  if (!document.is_object()) return altered("is no planish.ship/1 document");
  for (const auto& [name, value] : document.items()) {
    const auto* field = std::ranges::find(fields, std::string_view(name), &Field::name);
    if (field == fields.end()) return altered(fmt::format("has a field `{}`, which nothing is known of", name));
    if (!field->fits(value)) return altered(fmt::format("has something else than is due in `{}`", name));
  }
  for (const Field& field : fields) {
    if (field.required && !document.contains(field.name)) return altered(fmt::format("has no field `{}`", field.name));
  }
  if (document["default_dtype"] != Json("f32")) return altered("names another default dtype");
  const std::string mode = document["mode"].get<std::string>();
  for (const std::string_view named : {"program", "baseline", "solution"}) {
    if (document.contains(named) != (mode == named))
      return altered(fmt::format("is of mode `{}`, and {} `{}`", mode, mode == named ? "names no" : "names a", named));
  }
  const auto binaries = document["binaries"].get<std::vector<std::string>>();
  if (mode != "program" && !binaries.empty()) return altered("names kernels, and ships no program");
  const Json flags = document.value("cpu_flags", Json::array());
  for (const std::string& binary : binaries) {
    if (!binary.ends_with(".so")) return {};
  }
  if (binaries.empty()) return {};
  for (const std::string& flag : cpu_flags(folder, binaries)) {
    if (std::ranges::find(flags, Json(flag)) == flags.end())
      return altered(fmt::format("does not say that its kernels need {}", flag));
  }
  return {};
}

}  // namespace planish::ship
