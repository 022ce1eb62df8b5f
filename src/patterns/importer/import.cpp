#include "patterns/importer/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace planish::patterns {
namespace {

namespace fs = std::filesystem;

std::vector<std::string_view> endings_of(std::string_view kind) {
  if (kind == "triton") return {".py"};
  if (kind == "cuda") return {".cu", ".cuh", ".h", ".hpp", ".inl", ".cpp", ".cc"};
  return {".cu", ".cuh", ".h", ".hpp", ".inl", ".cpp", ".py"};
}

/// The folder above a package `cutlass_library` with a generator; empty where there is none.
fs::path generator_of(const std::vector<SourceFile>& files) {
  const auto found = std::ranges::find_if(files, [](const SourceFile& one) {
    return one.name == "cutlass_library/generator.py" || one.name.ends_with("/cutlass_library/generator.py");
  });
  return found == files.end() ? fs::path() : found->path.parent_path().parent_path();
}

}  // namespace

Result<Imported> import_folder(std::string_view kind, const fs::path& folder, const std::string& corpus,
                               const Readers& readers) {
  if (kind != "cutlass" && kind != "triton" && kind != "cuda")
    return fail("bad_kind", fmt::format("patterns of kind {} cannot be imported", kind),
                "give --kind cutlass, triton or cuda");
  PLANISH_TRY(Walk found, walk(folder, endings_of(kind)));
  Imported out;
  out.files = std::ssize(found.files);
  out.skipped = std::move(found.skipped);
  if (kind == "triton") {
    PLANISH_TRY(auto rows, readers.triton(found.files));
    PLANISH_CHECK(read_rows(rows, kind, out));
  } else {
    for (const SourceFile& file : found.files) {
      const auto text = read_text(file);
      if (!text) {
        out.skipped.push_back({file.name, text.error().kind == "binary" ? "no text" : text.error().message});
        continue;
      }
      kind == "cuda" ? read_cuda(file, *text, out.patterns) : read_cutlass(file, *text, out.patterns);
    }
  }
  if (const fs::path above = kind == "cutlass" ? generator_of(found.files) : fs::path(); !above.empty()) {
    // A checkout's headers are worth having also where its generator does not run here.
    const auto rows = readers.generator(above);
    auto read = rows ? read_rows(*rows, kind, out) : std::unexpected(rows.error());
    if (!read)
      out.skipped.push_back({"cutlass_library/generator.py",
                             fmt::format("its kernels could not be enumerated: {}", read.error().message)});
  }
  if (out.patterns.empty()) {
    std::string why;
    for (const Skipped& one : out.skipped) {
      if (why.size() < 300) why += fmt::format("; {}: {}", one.path, one.why);
    }
    return fail(
        "nothing_found",
        fmt::format("no {} kernel was found in {} ({} files looked at{})", kind, folder.string(), out.files, why),
        kind == "triton" ? "Triton kernels are Python functions under @triton.jit; CUDA ones need --kind cuda"
                         : "name a folder with sources; Triton kernels need --kind triton");
  }
  for (Pattern& one : out.patterns) {
    one.kind = kind;
    one.corpus = corpus;
    one.foreign = true;
  }
  return out;
}

}  // namespace planish::patterns
