#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/parts.h"

/// Targets: what kernels are made for. One object each says what is true of it, and one list has them all, so that
/// nobody else asks for a target's name. What a folder above adds (how kernels are printed, which cells the archive
/// has, how the device is described) is a part of the object (parts.h): the folder declares what such a part can do,
/// and code that needs it asks the object it was given.
namespace planish::backend {

/// What kernels of a target can be written in.
struct Language {
  std::string name;     ///< as programs, sources and genomes say it: "cuda"
  std::string title;    ///< in sentences: "CUDA"
  std::string suffix;   ///< of a source's file: "cu"
  std::string binary;   ///< of a compiled kernel's file: "cubin"
  bool python = false;  ///< its text is Python's: lines and their beginnings count, comments begin with #. Else C++'s
  /// Whether a program may bring this compiler flag: a fixed list, because a flag can read or write files, load
  /// plugins, or change what arithmetic means behind the accuracy gate's back. Asked where a program is read and again,
  /// by the compile worker, before the flag is used.
  bool (*allows)(std::string_view flag) = nullptr;
  /// Threads of a block, where the flags decide them; such a language sets shared bytes and clusters by itself. Null
  /// where a launch says all that.
  std::int64_t (*threads)(const std::vector<std::string>& flags) = nullptr;
};

struct Backend {
  std::string name;                 ///< as options, documents and stores say it: "cuda"
  std::string title;                ///< in sentences: "CUDA"
  std::vector<Language> languages;  ///< the first is meant where none is said
  /// Kernels are host code, on the cores that compilers and the supervisor use as well: they are confined as any
  /// foreign code, believed only what a fresh process confirms, and timed while all others stand still. Otherwise they
  /// run on a device with memory, a driver and failures of its own.
  bool on_host = false;
  /// Launches have grids, blocks, clusters and shared bytes, and may be cooperative. Otherwise all of these are 1 or 0.
  bool has_grids = true;
  double launch_seconds = 2e-6;  ///< what another launch costs, roughly
  /// What one multiprocessor holds at a time, where there are such; and what the driver adds to a block's shared bytes.
  struct Held {
    std::int64_t blocks = 32, threads = 2048, registers = 65536, shared_overhead = 1024;
  } held;
  /// How far the roofline's figures can be wrong, before a time is called impossible.
  struct Certainty {
    double bandwidth = 1.5;  ///< the true one over the one that was measured, at most
    double caches = 1;       ///< so many last-level caches may hold data from the call before
    bool arithmetic = true;  ///< the peak is known well enough to refuse by it
  } certainty;

  /// Null where it has no such language.
  const Language* language(std::string_view called) const;
  bool writes(std::string_view called) const { return language(called) != nullptr; }
  /// "cuda or triton"
  std::string language_names() const;
  bool operator==(const Backend& other) const { return this == &other; }

  Parts parts{};
};

/// NVIDIA's GPUs.
const Backend& cuda();
/// The processor that this runs on.
const Backend& cpu();

/// All targets; of those that are present the first is what `auto` means.
std::vector<const Backend*> all();
/// Null where there is no target of this name.
const Backend* find(std::string_view name);
/// The same with an object for names that nobody knows: it has no languages and no parts.
const Backend& named(std::string_view name);
/// "auto, cpu or cuda": what options take.
std::string choices();
/// Of any target; null where there is none of this name.
const Language* find_language(std::string_view name);

/// One more target, before anything else is asked. It stays until the process ends, and its name and languages are new.
const Backend& add(Backend backend);

}  // namespace planish::backend
