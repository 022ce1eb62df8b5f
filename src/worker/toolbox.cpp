#include "worker/toolbox.h"

#include <fmt/core.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "base/file.h"

namespace planish::worker {
namespace fs = std::filesystem;
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// The first of folder/relative, its parent's, … that exists; else the one beside `folder`.
fs::path search_upwards(fs::path folder, const fs::path& relative) {
  const fs::path fallback = folder / relative;
  for (int level = 0; level < 5 && !folder.empty(); ++level) {
    if (is_there(folder / relative)) return folder / relative;
    if (folder == folder.root_path()) break;
    folder = folder.parent_path();
  }
  return fallback;
}

fs::path in_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const std::string path = variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const fs::path candidate = fs::path(path.substr(begin, end - begin)) / name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return name;
}

/// Where it is found by name, or where CUDA is usually installed; empty where it is in neither.
fs::path sanitizer_of_cuda() {
  if (const auto named = variable("PLANISH_COMPUTE_SANITIZER")) return in_path(*named);
  const std::string tool = "compute-sanitizer";
  for (const fs::path& found : {in_path(tool), fs::path("/usr/local/cuda/bin") / tool}) {
    if (found.is_absolute() && ::access(found.c_str(), X_OK) == 0) return found;
  }
  return {};
}

/// Not by asking the interpreter: that costs a process start for every command.
std::vector<fs::path> site_packages_of(const fs::path& python) {
  std::vector<fs::path> prefixes;
  if (python.has_parent_path()) prefixes.push_back(python.parent_path().parent_path());
  std::error_code ignored;
  if (const fs::path real = fs::canonical(python, ignored); real.has_parent_path())
    prefixes.push_back(real.parent_path().parent_path());
  prefixes.emplace_back("/usr/local");
  prefixes.emplace_back("/usr");
  if (const auto home = variable("HOME")) prefixes.push_back(fs::path(*home) / ".local");
  std::vector<fs::path> found;
  const auto add = [&](const fs::path& folder) {
    if (is_there(folder) && std::find(found.begin(), found.end(), folder) == found.end()) found.push_back(folder);
  };
  for (const fs::path& prefix : prefixes) {
    for (const auto& entry : fs::directory_iterator(prefix / "lib", ignored)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      add(entry.path() / "site-packages");
      add(entry.path() / "dist-packages");
    }
  }
  return found;
}

std::vector<std::string> absolute_parts(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    if (path[begin] == '/') parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Where PyTorch's compilers keep what they have made, by the variable that says so, as they themselves would choose.
std::vector<std::pair<std::string, fs::path>> compiler_caches() {
  std::string user = "user";
  for (const char* name : {"LOGNAME", "USER", "LNAME", "USERNAME"}) {
    if (const auto value = variable(name); value && !value->empty()) {
      user = *value;
      break;
    }
    if (const passwd* entry = ::getpwuid(::getuid()); entry != nullptr) user = entry->pw_name;
  }
  std::ranges::replace(user, '/', '_');
  fs::path inductor = temporary_root() / ("torchinductor_" + user);
  if (const auto named = variable("TORCHINDUCTOR_CACHE_DIR")) inductor = fs::absolute(*named);
  // Under the folder of the other, as PyTorch itself has it.
  fs::path triton = inductor / "triton";
  if (const auto named = variable("TRITON_CACHE_DIR")) triton = fs::absolute(*named);
  return {{"TORCHINDUCTOR_CACHE_DIR", inductor}, {"TRITON_CACHE_DIR", triton}};
}

}  // namespace

// A lock on a file that may only be read would stop those who write. A store has further files beside it.
std::vector<std::string> kept_from_guests() {
  std::vector<std::string> found{data_dir().string()};
  std::vector<std::string> given = absolute_parts(variable("PLANISH_HIDDEN").value_or(""));
  for (const char* name : {"PLANISH_STORE", "PLANISH_OUT"}) {
    if (const auto path = variable(name); path && !path->empty()) given.push_back(fs::absolute(*path).string());
  }
  for (const std::string& path : given) {
    for (const char* further : {"", "-wal", "-shm", "-journal"}) found.push_back(path + further);
  }
  return found;
}

bool HiddenPaths::add(const std::vector<std::string>& paths) {
  std::scoped_lock lock(mutex_);
  const std::size_t before = paths_.size();
  paths_.insert(paths.begin(), paths.end());
  return paths_.size() > before;
}

std::vector<std::string> HiddenPaths::all() const {
  std::scoped_lock lock(mutex_);
  return {paths_.begin(), paths_.end()};
}

Toolbox Toolbox::resolve() {
  return resolve(executable_path().parent_path());
}

Toolbox Toolbox::resolve(const fs::path& folder) {
  Toolbox box;
  box.runner = variable("PLANISH_RUNNER").value_or((folder / "planish-runner").string());
  box.compiler = variable("PLANISH_COMPILER").value_or((folder / "planish-compiler").string());
  box.rt_library = variable("PLANISH_RT").value_or((folder.parent_path() / "lib" / "libplanish_rt.so").string());
  if (const auto path = variable("PLANISH_PYTHON_PATH")) {
    box.python_path = *path;
  } else {
    box.python_path = search_upwards(folder, fs::path("python") / "planish").parent_path();
  }
  if (const auto python = variable("PLANISH_PYTHON")) {
    box.python = in_path(*python);
  } else if (const auto environment = variable("VIRTUAL_ENV");
             environment && is_there(fs::path(*environment) / "bin/python")) {
    box.python = fs::path(*environment) / "bin/python";
  } else if (const fs::path local = search_upwards(folder, ".venv/bin/python"); is_there(local)) {
    box.python = local;
  } else {
    box.python = in_path("python3");
  }
  box.compute_sanitizer = sanitizer_of_cuda();
  box.cache_dir = planish::cache_dir();
  box.hidden->add(kept_from_guests());
  box.site_packages = site_packages_of(box.python);
  return box;
}

Status Toolbox::check() const {
  const auto need = [](const fs::path& path, std::string_view what, std::string hint) -> Status {
    if (is_there(path)) return {};
    return fail("environment", fmt::format("{} is missing: {}", what, path.string()), std::move(hint));
  };
  PLANISH_CHECK(need(python, "the Python interpreter", "set PLANISH_PYTHON to a Python that can import torch"));
  PLANISH_CHECK(need(python_path / "planish", "the Python package", "run `make build`, or set PLANISH_PYTHON_PATH"));
  PLANISH_CHECK(need(runner, "the runner", "run `make build`"));
  PLANISH_CHECK(need(compiler, "the compile worker", "run `make build`"));
  PLANISH_CHECK(need(rt_library, "the runtime library", "run `make build`, or set PLANISH_RT"));
  return {};
}

bool Toolbox::has_triton() const {
  return std::ranges::any_of(site_packages, [](const fs::path& folder) {
    return is_there(folder / "triton" / "backends" / "nvidia" / "bin" / "ptxas");
  });
}

SpawnOptions Toolbox::python_module(const std::string& module) const {
  SpawnOptions options = program(python);
  // Nothing of the working folder may be imported by whoever happens to look for a module of that name: not as its
  // first place (PYTHONSAFEPATH), nor through an empty or relative part of PYTHONPATH.
  options.command = {python.string(), "-m", module};
  std::string path = python_path.string();
  for (const std::string& part : absolute_parts(variable("PYTHONPATH").value_or(""))) path += ":" + part;
  options.env.emplace_back("PYTHONPATH", path);
  options.env.emplace_back("PYTHONSAFEPATH", "1");
  // What was installed for this interpreter, as ninja is, without its environment being activated.
  if (python.is_absolute()) {
    const std::string usual = variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
    options.env.emplace_back("PATH", usual + ":" + python.parent_path().string());
  }
  options.env.emplace_back("PYTHONUNBUFFERED", "1");
  options.env.emplace_back("TRITON_DEFAULT_FP_FUSION", variable("TRITON_DEFAULT_FP_FUSION").value_or("1"));
  return options;
}

SpawnOptions Toolbox::capture_module(const std::string& module) const {
  SpawnOptions options = python_module(module);
  if (variable("PLANISH_INSIDE") || !is_there(python)) return options;  // a missing Python is an error of its own
  options.command.insert(options.command.begin(), {runner.string(), "--capture", "--"});
  return options;
}

SpawnOptions Toolbox::guest_module(const std::string& module, const std::vector<std::string>& arguments,
                                   const GuestSettings& guest) const {
  SpawnOptions options = python_module(module);
  const std::vector<std::string> inner = std::move(options.command);
  options.command = {runner.string(), "--guest", "--scratch", guest.scratch.string(), "--device", guest.device};
  if (guest.max_rss > 0) options.command.insert(options.command.end(), {"--max-rss", std::to_string(guest.max_rss)});
  if (guest.shared_compiler_caches) {
    for (const auto& [name, folder] : compiler_caches()) {
      std::error_code failed;
      fs::create_directories(folder, failed);
      if (failed) continue;
      options.env.emplace_back(name, folder.string());
      options.command.insert(options.command.end(), {"--writable", folder.string()});
    }
  }
  // Builds of extensions: one whose C++ part fails, as many do, has then not paid for nvcc beside it, and several
  // guests build at once. A scratch folder is new each time: a cache of compilers would find nothing.
  if (!variable("MAX_JOBS")) options.env.emplace_back("MAX_JOBS", "1");
  options.env.emplace_back("TORCH_NO_COMPILER_WRAPPER", "1");
  if (guest.loopback) options.command.insert(options.command.end(), {"--network", "loopback"});
  if (guest.own_tmp) {
    options.command.insert(options.command.end(), {"--tmp", "own"});
    for (const std::string& path : hidden->all()) options.command.insert(options.command.end(), {"--hidden", path});
  }
  options.command.emplace_back("--");
  options.command.insert(options.command.end(), guest.before.begin(), guest.before.end());
  options.command.insert(options.command.end(), inner.begin(), inner.end());
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  return options;
}

SpawnOptions Toolbox::program(const fs::path& path) const {
  SpawnOptions options;
  options.command = {path.string()};
  options.channel = true;
  options.env.emplace_back("PLANISH_RT", rt_library.string());
  std::string sites;
  for (const fs::path& folder : site_packages) sites += (sites.empty() ? "" : ":") + folder.string();
  options.env.emplace_back("PLANISH_SITE_PACKAGES", sites);
  return options;
}

}  // namespace planish::worker
