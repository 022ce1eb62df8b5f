#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

/// Tasks and solutions of other collections, made into files that every verb takes: a task file with Model and
/// get_inputs, and files with ModelNew. Each is one Python file that carries the sources it was made of.
namespace planish::suite::formats {

/// The kind of errors about what a collection's file holds.
inline constexpr ErrorKind bad_task = "bad_task";

struct ImportedTask {
  std::string name;  ///< of its file, without .py
  std::string text;
  std::string origin;  ///< JSON object: what its collection calls it, for writing results back
};

struct ImportedSolution {
  std::string author;  ///< a folder of solutions is one author's
  std::string task;    ///< name of the task it answers
  std::string text;
  std::string origin;
};

struct Imported {
  std::string format;  ///< gpu-mode | flashinfer-bench | backendbench | tritonbench | atrex-bench
  std::vector<ImportedTask> tasks;
  std::vector<ImportedSolution> solutions;
  std::vector<std::string> left_out;  ///< what could not be read, with why: the rest stands
};

/// Folders are those of the collection; errors name the file. Kinds: `bad_task`, `no_tasks`, `unsupported`, and those
/// of file_error().

/// A folder with task.yml, reference.py and submission.py; or a folder of such folders.
Result<Imported> import_gpu_mode(const std::filesystem::path& folder);
/// definitions/*.json, workloads/*.jsonl, solutions/*.json, at any depth below these.
Result<Imported> import_flashinfer(const std::filesystem::path& folder);
/// A file of traced calls, and a folder of operators' folders (empty: none).
Result<Imported> import_backendbench(const std::filesystem::path& traces, const std::filesystem::path& operators);
/// Files with functions, a line of `#`, and a test that calls them; predictions in JSON lines (empty: none).
Result<Imported> import_tritonbench(const std::filesystem::path& folder, const std::filesystem::path& predictions);

/// A folder with reference.py, input.py and shapes.json; or a folder of such folders, or one whose `data` is that.
Result<Imported> import_atrex(const std::filesystem::path& folder);
/// Whether a folder holds one operator's three files.
bool is_atrex(const std::filesystem::path& folder);
/// Such folders below a folder, or below its `data` as in a checkout; sorted. Errors: one that cannot be read.
Result<std::vector<std::filesystem::path>> atrex_operators(const std::filesystem::path& folder);

/// What of a collection a folder or file is by what it holds; empty where nothing is known of it.
std::string format_of(const std::filesystem::path& from);

}  // namespace planish::suite::formats
