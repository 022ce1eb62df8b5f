#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"

namespace planish::worker {

/// How the folders of guests begin (base/owned_folder.h).
constexpr const char* guest_folder_prefix = "planish-guest-";

/// What a guest may use beyond reading files.
struct GuestSettings {
  std::filesystem::path scratch;        ///< its own folder; outlives it
  std::string device = "cpu";           ///< cuda: the driver's device files as well
  std::size_t max_rss = 0;              ///< resident bytes of all its processes together; 0 for no limit
  bool shared_compiler_caches = false;  ///< those of PyTorch's compilers that other processes use too: only for a guest
                                        ///< that runs no code of others
  bool loopback = false;  ///< its processes may speak with each other over 127.0.0.1, where it has a network of its own
  bool own_tmp = false;   ///< /tmp and the current folder are its own, from when it asks for them (runner/own_tmp.py)
  std::vector<std::string> before{};  ///< program and arguments that the guest's command is given to
};

/// Where the programs are that we start. A value; resolve it once and pass it on.
/// Stores and results of this process's command, as its environment names them, which guests are not to see.
std::vector<std::string> kept_from_guests();

/// Paths that guests do not see. They grow with the commands that an evaluator serves. Thread-safe.
class HiddenPaths {
 public:
  /// Whether one of them is new.
  bool add(const std::vector<std::string>& paths);
  std::vector<std::string> all() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> paths_;
};

struct Toolbox {
  std::filesystem::path python;                      ///< the interpreter that has torch
  std::filesystem::path python_path;                 ///< folder that holds the package `planish`
  std::filesystem::path runner;                      ///< planish-runner
  std::filesystem::path compiler;                    ///< planish-compiler
  std::filesystem::path rt_library;                  ///< libplanish_rt.so
  std::filesystem::path compute_sanitizer;           ///< NVIDIA's; empty where there is none
  std::filesystem::path cache_dir;                   ///< compiled kernels, constants
  std::vector<std::filesystem::path> site_packages;  ///< of that interpreter: where pip leaves NVRTC
  /// Of all copies of this.
  std::shared_ptr<HiddenPaths> hidden = std::make_shared<HiddenPaths>();

  /// From the folder of the running executable: a build tree (`bin/`, `lib/`, and the source's `python/` some folders
  /// up) or a packed one
  /// (`bin/`, `lib/`, `python/` side by side). PLANISH_PYTHON, PLANISH_PYTHON_PATH, PLANISH_RT, PLANISH_RUNNER,
  /// PLANISH_COMPILER, PLANISH_COMPUTE_SANITIZER win. Never fails: what does not exist is reported by check(), so that
  /// `doctor` can list all of it.
  static Toolbox resolve();
  static Toolbox resolve(const std::filesystem::path& executable_folder);
  /// `environment`, naming the first part that is missing.
  Status check() const;
  /// Whether that interpreter has a Triton with its assembler: looked up in its folders, since asking it takes seconds.
  bool has_triton() const;

  /// `$python -m module` with PYTHONPATH and PLANISH_RT set and a channel as descriptor 3.
  SpawnOptions python_module(const std::string& module) const;
  /// The same for what captures a task: it sees of the environment what guests will see, who run the task. Not so
  /// within planish.optimize(): a live module was made by a process that sees everything.
  SpawnOptions capture_module(const std::string& module) const;
  /// The same, confined (docs/sandbox.md): whatever runs code of others. Its caches and temporary files lie in
  /// `guest.scratch`.
  SpawnOptions guest_module(const std::string& module, const std::vector<std::string>& arguments,
                            const GuestSettings& guest) const;
  /// A program of ours with a channel as descriptor 3.
  SpawnOptions program(const std::filesystem::path& path) const;
};

}  // namespace planish::worker
