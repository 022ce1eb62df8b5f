#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "patterns/importer/walk.h"
#include "patterns/pattern.h"

namespace planish::patterns {

/// What reads files whose language is Python, for who imports: processes of their own, in a guest's place. Each gives
/// the rows of python/planish/patterns/rows.py.
struct Readers {
  /// Of Triton files.
  std::function<Result<std::string>(const std::vector<SourceFile>&)> triton;
  /// Of the generator in the package `cutlass_library` that lies in this folder.
  std::function<Result<std::string>(const std::filesystem::path&)> generator;
};

/// What a folder holds, before equal patterns are counted once.
struct Imported {
  std::vector<Pattern> patterns;
  std::vector<Skipped> skipped;
  std::int64_t files = 0;
};

/// Reads somebody's folder; nothing in it is compiled or imported into this process. `corpus` is the name that the
/// patterns get. Error kinds: those of walk(), `bad_kind`, `nothing_found`, and what a reader fails with.
Result<Imported> import_folder(std::string_view kind, const std::filesystem::path& folder, const std::string& corpus,
                               const Readers& readers);

/// Kernels of CUDA files, whatever library they belong to.
void read_cuda(const SourceFile& file, const std::string& text, std::vector<Pattern>& into);
/// Of a file of CUTLASS: collectives, kernels, device classes, epilogues, instructions, examples.
void read_cutlass(const SourceFile& file, const std::string& text, std::vector<Pattern>& into);
/// Of a reader's rows. Rows that are none are skipped; error kind `reader_failed` where the end is missing.
Status read_rows(std::string_view rows, std::string_view kind, Imported& into);

}  // namespace planish::patterns
