#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "backend/backend.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "ship/embed.h"
#include "ship/export.h"
#include "ship/folder.h"
#include "ship/manifest.h"
#include "ship/single_file.h"

namespace planish::ship {
namespace {

namespace fs = std::filesystem;

/// By this file a later export knows that it may replace the folder.
constexpr const char* hub_mark = "planish-hub.txt";

/// What the package `kernels` reads of the variant that is loaded.
struct HubVariant {
  std::string name;     ///< of the kernel: letters, digits and dashes
  std::string backend;  ///< as that package calls it
  std::string title;    ///< of the target, in sentences
  std::string folder() const { return "torch-" + backend; }
};

/// A name as the hub takes one: "RMS_norm" is rms-norm.
std::string hub_name(const std::string& task) {
  std::string out;
  for (const char c : task) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!plain && !out.empty() && out.back() != '-') out += '-';
  }
  while (out.ends_with('-')) out.pop_back();
  const bool begins = !out.empty() && std::isalpha(static_cast<unsigned char>(out.front())) != 0;
  return begins && out.size() > 1 ? out : "kernel-" + (out.empty() ? "of-planish" : out);
}

/// "sm_90a" is 9.0a; empty for what is no architecture of a GPU.
std::string capability(const std::string& arch) {
  if (!arch.starts_with("sm_")) return {};
  const std::size_t end = std::min(arch.find_first_not_of("0123456789", 3), arch.size());
  if (end < 5) return {};
  return fmt::format("{}.{}{}", arch.substr(3, end - 4), arch[end - 1], arch.substr(end));
}

std::string bytes_of_hex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

std::string hub_metadata(const HubVariant& variant, const std::string& arch, const std::string& code) {
  const std::string digest = sha256_hex(code);
  std::string id = "_" + variant.name;
  std::ranges::replace(id, '-', '_');
  Json runs_on = {{"type", variant.backend}};
  if (const std::string one = capability(arch); !one.empty()) runs_on["archs"] = Json::array({one});
  const Json out = {{"id", fmt::format("{}_{}_{}", id, variant.backend, digest.substr(0, 8))},
                    {"name", variant.name},
                    {"version", 1},
                    {"license", "other"},
                    {"python-depends", Json::array()},
                    {"backend", std::move(runs_on)},
                    {"digest", {{"algorithm", "sha256"}, {"files", {{"__init__.py", base64(bytes_of_hex(digest))}}}}}};
  return out.dump(2) + "\n";
}

/// A line for each module that was timed, from the evidence.
std::string times_table(const Json& evidence) {
  std::string out;
  const Json::json_pointer place("/times");
  if (!evidence.is_object() || !evidence.contains(place) || !evidence[place].is_object()) return out;
  for (const auto& [name, time] : evidence[place].items()) {
    if (!time.is_object() || !time.contains("median_ms") || !time["median_ms"].is_number()) continue;
    out += fmt::format("| {} | {:.4g} |\n", name == "shipped" ? "this" : name, time["median_ms"].get<double>());
  }
  return out.empty() ? out : "| module | ms a call, median |\n|---|---|\n" + out + "\n";
}

std::string hub_card(const HubVariant& variant, const Json& manifest, const Json& evidence, const std::string& arch) {
  return fmt::format(
      "---\nlibrary_name: kernels\nlicense: other\ntags:\n- kernel\n---\n\n# {0}\n\n"
      "A PyTorch module whose forward runs kernels for {1} ({2}), found and verified by Planish {3} with PyTorch {4}. "
      "They are made for one set of shapes and dtypes: those of `get_inputs()`. Every other call runs the original "
      "forward.\n\n"
      "```python\nfrom kernels import get_kernel\n\nkernel = get_kernel(\"YOU/{0}\", version=1, "
      "trust_remote_code=True)\nmodel = kernel.ModelNew(*kernel.get_init_inputs())  # parameters and state_dict of "
      "`kernel.Model`\n```\n\n"
      "{5}`evidence.json` says what was measured, on which machine, and how accurate it was.\n\n"
      "## Before you push it\n\n"
      "The original is part of `build/{6}/__init__.py`: name its licence in this file and in "
      "`build/{6}/metadata.json` (`other` stands there). Then `hf upload YOU/{0} . --repo-type kernel --revision v1`; "
      "without pushing it, `kernels.get_local_kernel(Path(\"this folder\"))` loads it.\n",
      variant.name, variant.title, arch, manifest.value("planish", ""), manifest.value("torch", ""),
      times_table(evidence), variant.folder());
}

}  // namespace

Status export_hub(const ExportRequest& request) {
  PLANISH_TRY(const std::string code, single_file(request));
  PLANISH_TRY(const std::string manifest_text, read_file(request.folder / "ship.json"));
  PLANISH_TRY(const Json manifest, parse_json(manifest_text, "not_shipped", "ship.json"));
  if (manifest.value("mode", "") != "program") {
    return fail(
        "unsupported",
        fmt::format("a baseline ships there ({}): there are no kernels to share", manifest.value("baseline", "")),
        "use --form folder or --form file");
  }
  PLANISH_TRY(const std::string program_text, read_file(request.folder / "program.json"));
  PLANISH_TRY(const Json program, parse_json(program_text, "bad_program", "program.json"));
  PLANISH_TRY(const std::string evidence_text, read_file(request.folder / "evidence.json"));
  const backend::Backend& target = backend::named(program["target"].get<std::string>());
  const HubVariant variant{hub_name(manifest["task"].value("name", "")), target.name, target.title};
  const std::string arch = program.value("arch", "");
  return make_folder(request.out, hub_mark, [&](const fs::path& made) -> Status {
    const fs::path build = made / "build" / variant.folder();
    PLANISH_CHECK(write_file(build / "__init__.py", code));
    PLANISH_CHECK(write_file(build / "metadata.json", hub_metadata(variant, arch, code)));
    PLANISH_CHECK(write_file(made / "evidence.json", evidence_text));
    PLANISH_CHECK(write_file(made / "README.md", hub_card(variant, manifest, json_or_discarded(evidence_text), arch)));
    return write_file(made / hub_mark, "Made by planish export --form hub; a later export may replace this folder.\n");
  });
}

}  // namespace planish::ship
