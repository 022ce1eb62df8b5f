#include <fmt/core.h>

#include <string>

#include "base/file.h"
#include "base/json.h"
#include "ship/export.h"
#include "ship/folder.h"
#include "ship/manifest.h"
#include "ship/source_build.h"
#include "ship/source_model.h"

namespace planish::ship {
namespace {

namespace fs = std::filesystem;

/// By this file a later export knows that it may replace the folder.
constexpr const char* mark = "planish-source.txt";

std::string makefile(const Json& program, const SourceBuild& build) {
  const std::string arch = program["arch"];
  std::string targets, rules;
  for (std::size_t k = 0; k < program["kernels"].size(); ++k) {
    std::string flags;
    for (const Json& flag : program["kernels"][k]["flags"]) flags += " " + flag.get<std::string>();
    const backend::Language& language = language_of(program["kernels"][k]);
    const std::string made = fmt::format("build/k{}.{}", k, language.binary);
    targets += " " + made;
    rules += fmt::format("{0}: kernels/k{1}.{2}\n\t@mkdir -p build\n\t$({3}) $({3}FLAGS){4} -o $@ $<\n\n", made, k,
                         language.suffix, build.compiler(), flags);
  }
  return fmt::format(
      "# make builds the kernels; make test compares them with the original (PYTHON must be able to import torch).\n"
      "PYTHON ?= python3\n{}\n.PHONY: all test clean\nall:{}\n\n{}test: all\n\t$(PYTHON) test_model.py\n\nclean:\n\trm "
      "-rf build\n",
      build.tools(arch), targets, rules);
}

std::string readme(const Json& program, const Json& manifest, const SourceBuild& build) {
  const std::string task = manifest["task"].value("name", "task");
  return fmt::format(
      "# {0}, as source\n\n"
      "A PyTorch model whose forward runs {1} kernel{2} for {3} ({4}) in place of the original operations. Found and "
      "verified by Planish {5} with PyTorch {6};\n"
      "`evidence.json` has what was measured then. Program {7}.\n\n"
      "    make            # builds kernels/ into build/{8}\n"
      "    make test       # compares with the original on fresh data\n\n"
      "```python\nfrom model import ModelNew      # used as Model of reference.py is: same constructor, parameters and "
      "state_dict\n```\n\n"
      "| file | what |\n|---|---|\n"
      "| `kernels/` | the kernels |\n| `model.py` | `ModelNew`: what is allocated and launched, step by step |\n"
      "| `launch.py` | how a kernel is launched on torch tensors |\n| `reference.py` | the original |\n"
      "| `test_model.py` | the comparison |\n| `blobs/` | constants, where there are any |\n\n"
      "A call of another dtype, shape or layout, one that needs gradients, and one under autocast, torch.compile or a "
      "transform runs the original.\n"
      "This form is made to be read and changed. It is simpler than the shipped folder: hooks on submodules, replaced "
      "submodules, changed attributes and\n"
      "inputs that share memory while the program updates them are not looked for, and its launches cost more host "
      "time. It keeps no memory\n"
      "between calls{9}. So it may be slower than the original where the shipped folder is faster: `make test` says "
      "what "
      "both take on this machine.\n",
      task, program["kernels"].size(), program["kernels"].size() == 1 ? "" : "s", build.devices(),
      program["arch"].get<std::string>(), manifest.value("planish", ""), manifest.value("torch", ""),
      manifest.value("program", "").substr(0, 16), build.needs(), build.memory());
}

Status fill(const ExportRequest& request, const Json& manifest, const fs::path& made) {
  PLANISH_TRY(const std::string program_text, read_file(request.folder / "program.json"));
  PLANISH_TRY(const Json program, parse_json(program_text, "bad_program", "program.json"));
  PLANISH_TRY(const SourceBuild* build, source_build(backend::named(program["target"].get<std::string>())));
  PLANISH_TRY(const std::string model, source_model(program, manifest));
  PLANISH_CHECK(write_file(made / "model.py", model));
  PLANISH_CHECK(write_file(made / "Makefile", makefile(program, *build)));
  PLANISH_CHECK(write_file(made / "README.md", readme(program, manifest, *build)));
  PLANISH_CHECK(
      write_file(made / mark, "Made by planish export --form source; a later export may replace this folder.\n"));
  for (const auto& [path, digest] : manifest["files"].items()) {
    (void)digest;
    const bool binary = path.ends_with(".so") || path.ends_with(".cubin");
    const bool wanted =
        path == "reference.py" || path == "evidence.json" || path.starts_with("kernels/") || path.starts_with("blobs/");
    if (path.starts_with("neighbours/")) {
      PLANISH_TRY(const std::string bytes, read_file(request.folder / path));
      PLANISH_CHECK(write_file(made / path.substr(11), bytes));
    } else if (wanted && !binary) {
      PLANISH_TRY(std::string bytes, read_file(request.folder / path));
      // The entry point is found by its name, whatever visibility the flags give.
      if (path.ends_with(".cpp")) bytes = "#pragma GCC visibility push(default)\n" + bytes;
      PLANISH_CHECK(write_file(made / path, bytes));
    }
  }
  for (const char* part : {"launch.py", "test_model.py"}) {
    PLANISH_TRY(const std::string text, read_file(request.package / "ship" / "source" / part));
    PLANISH_CHECK(write_file(made / part, text));
  }
  return {};
}

}  // namespace

Status export_source(const ExportRequest& request) {
  PLANISH_CHECK(check_folder(request.folder));
  PLANISH_TRY(const std::string text, read_file(request.folder / "ship.json"));
  PLANISH_TRY(const Json manifest, parse_json(text, "not_shipped", "ship.json"));
  PLANISH_CHECK(only_our_code(request.folder, manifest));
  if (manifest.value("mode", "") != "program") {
    return fail(
        "unsupported",
        fmt::format("a baseline ships there ({}): there are no kernels to show", manifest.value("baseline", "")),
        "use --form folder or --form file");
  }
  if (!manifest["files"].contains("reference.py")) {
    return fail("live_module",
                fmt::format("{} was made from a live module, whose code is not in it", request.folder.string()),
                "load it with planish.load(folder, module)");
  }
  return make_folder(request.out, mark, [&](const fs::path& made) { return fill(request, manifest, made); });
}

}  // namespace planish::ship
