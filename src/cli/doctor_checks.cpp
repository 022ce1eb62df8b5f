#include "cli/doctor_checks.h"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>
#include <utility>

#include "backend/backend.h"
#include "base/file.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "cli/doctor_system.h"
#include "store/store.h"
#include "worker/toolbox.h"

namespace planish::cli {
namespace {

namespace fs = std::filesystem;

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

Check check_compiler() {
  Check check{"g++", false, Check::Need::target, "", "install a C++ compiler: apt install g++", backend::cpu().name};
  const char* chosen = std::getenv("PLANISH_CXX");
  SpawnOptions options;
  options.command = {chosen != nullptr && *chosen != '\0' ? chosen : "g++", "--version"};
  const auto ran = run_command(options, 20);
  if (!ran || !ran->status.ok()) {
    check.found = ran ? first_line(ran->output) : ran.error().message;
    return check;
  }
  check.ok = true;
  check.advice.clear();
  check.found = first_line(ran->output);
  return check;
}

Check check_file(const char* name, const fs::path& path) {
  std::error_code ignored;
  Check check{name, fs::exists(path, ignored), Check::Need::required, path.string(), ""};
  if (!check.ok) {
    check.found += " is missing";
    check.advice = "run make build";
  }
  return check;
}

/// Asked of the interpreter itself: what can be imported is the only thing that counts.
constexpr const char* ask_python = R"(
import json, os, platform, sys
out = {"python": platform.python_version()}
for name in ("torch", "triton", "numpy"):
    try:
        module = __import__(name)
        out[name] = module.__version__
        if name == "torch":
            out["cuda"] = module.version.cuda
            out["cuda_available"] = module.cuda.is_available()
            out["compiled"] = os.path.exists(module.__spec__.cached or "")
            out["packages"] = os.path.dirname(os.path.dirname(module.__file__))
    except Exception as error:
        out[name + "_error"] = f"{type(error).__name__}: {error}"
print("\nPLANISH " + json.dumps(out))
)";

std::vector<Check> check_python(const worker::Toolbox& tools) {
  Check python{"python", false, Check::Need::required, tools.python.string(),
               "set PLANISH_PYTHON to a Python (3.10 or newer) that can import torch"};
  Check torch{"torch", false, Check::Need::required, "not asked", "pip install torch"};
  Check triton{"triton", false, Check::Need::optional, "not asked",
               "torch.compile on a GPU needs it as a baseline, and search tries its kernels: pip install triton"};
  Check bytecode{"bytecode", false, Check::Need::optional, "not asked", python.advice};
  SpawnOptions options;
  options.command = {tools.python.string(), "-c", ask_python};
  const auto ran = run_command(options, 120);
  const std::size_t at = ran ? ran->output.rfind("\nPLANISH ") : std::string::npos;
  if (at == std::string::npos) {
    python.found += ran ? " does not answer" : ": " + ran.error().message;
    return {python, torch, triton, bytecode};
  }
  const auto answer = parse_json(first_line(ran->output.substr(at + 9)), "internal", "the interpreter's answer");
  if (!answer || !answer->is_object()) return {python, torch, triton, bytecode};
  python.ok = true;
  python.advice.clear();
  python.found = fmt::format("{} ({})", answer->value("python", ""), tools.python.string());
  const auto fill = [&answer](Check& check, const char* name) {
    check.ok = answer->contains(name);
    check.found =
        check.ok ? (*answer)[name].get<std::string>() : answer->value(std::string(name) + "_error", "not found");
    if (check.ok) check.advice.clear();
  };
  fill(torch, "torch");
  fill(triton, "triton");
  if (torch.ok) {
    const Json& cuda = (*answer)["cuda"];
    torch.found += cuda.is_string() ? fmt::format(", built for CUDA {}, {}", cuda.get<std::string>(),
                                                  answer->value("cuda_available", false) ? "which it can use"
                                                                                         : "which it cannot use here")
                                    : ", built without CUDA";
    bytecode.ok = answer->value("compiled", false);
    bytecode.found = bytecode.ok ? "of torch is there" : "of torch is not there, and Python does not keep it";
    bytecode.advice.clear();
    if (!bytecode.ok)
      bytecode.advice = fmt::format(
          "a run starts a dozen processes, each of which compiles torch's sources for some seconds; once: {} -m "
          "compileall -q {}",
          tools.python.string(), answer->value("packages", "SITE_PACKAGES"));
  }
  return {python, torch, triton, bytecode};
}

Check check_store(const fs::path& file) {
  // Only what exists is opened; a store that is not there yet needs a folder that can be written.
  std::error_code ignored;
  if (fs::exists(file, ignored)) {
    if (auto opened = store::Store::open(file); !opened) {
      return {"store", false, Check::Need::required, opened.error().message, opened.error().hint};
    }
    return {"store", true, Check::Need::required, file.string(), ""};
  }
  Check check = check_writable("store", file.parent_path(), "make it writable, set PLANISH_DATA, or use --store FILE");
  if (check.ok) check.found = file.string() + " (not there yet)";
  return check;
}

}  // namespace

std::vector<Check> run_checks(const fs::path& store_file) {
  const auto tools = worker::Toolbox::resolve();
  std::vector<Check> out = check_gpu();
  out.push_back(check_nvrtc(tools.site_packages));
  out.push_back(check_compiler());
  for (Check& check : check_python(tools)) out.push_back(std::move(check));
  out.push_back(check_file("python_package", tools.python_path / "planish"));
  out.push_back(check_file("runner", tools.runner));
  out.push_back(check_file("compiler", tools.compiler));
  out.push_back(check_file("runtime", tools.rt_library));
  out.push_back(check_user_namespaces());
  out.push_back(check_private_tmp());
  out.push_back(check_landlock());
  out.push_back(check_seccomp());
  out.push_back(check_guest_user());
  out.push_back(check_store(store_file));
  out.push_back(check_writable("cache", cache_dir(), "make it writable, or set PLANISH_CACHE"));
  return out;
}

}  // namespace planish::cli
