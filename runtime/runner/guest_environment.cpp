#include "guest_environment.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace planish::runner {
namespace {

constexpr std::array<std::string_view, 23> single_variables{"PATH",        "HOME",           "USER",
                                                            "LOGNAME",     "LANG",           "LANGUAGE",
                                                            "TZ",          "TERM",           "CC",
                                                            "CXX",         "CFLAGS",         "CXXFLAGS",
                                                            "LDFLAGS",     "CPATH",          "MAX_JOBS",
                                                            "SYSROOT",     "LIBRARY_PATH",   "LD_LIBRARY_PATH",
                                                            "LD_PRELOAD",  "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
                                                            "VIRTUAL_ENV", "CONDA_PREFIX"};

constexpr std::array<std::string_view, 26> variable_families{
    "LC_",     "PYTHON",  "OMP_",    "GOMP_",     "KMP_",   "MKL_",     "OPENBLAS_", "BLIS_",        "ATEN_",
    "DNNL_",   "ONEDNN_", "CUDA",    "CUBLAS_",   "CUDNN_", "NVIDIA_",  "NVCC_",     "TORCH",        "PYTORCH_",
    "TRITON_", "THP_",    "MALLOC_", "TILELANG_", "CUTE_",  "CUTLASS_", "HF_",       "TRANSFORMERS_"};

/// Of our own: what the Python side and the runtime read.
constexpr std::array<std::string_view, 6> own_variables{
    "PLANISH_RT", "PLANISH_SITE_PACKAGES", "PLANISH_GRAPH", "PLANISH_OUTPUT_POOL", "PLANISH_INSIDE", "PLANISH_PRELOAD"};

/// What downloads need. A task may fetch its weights while it is captured; guests, who have no network, find them in
/// the cache.
constexpr std::array<std::string_view, 12> download_variables{
    "HTTP_PROXY",   "HTTPS_PROXY",        "FTP_PROXY",      "ALL_PROXY", "NO_PROXY",      "SSL_CERT_FILE",
    "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HF_TOKEN",  "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN"};

constexpr std::array<std::string_view, 8> secret_words{"TOKEN",      "SECRET",  "PASSW", "PASSPHRASE",
                                                       "CREDENTIAL", "PRIVATE", "AUTH",  "KEY"};

constexpr std::array<std::array<const char*, 2>, 9> cache_variables{{{"TMPDIR", "tmp"},
                                                                     {"XDG_CACHE_HOME", "cache"},
                                                                     {"TORCHINDUCTOR_CACHE_DIR", "inductor"},
                                                                     {"TRITON_CACHE_DIR", "triton"},
                                                                     {"TORCH_EXTENSIONS_DIR", "extensions"},
                                                                     {"CUDA_CACHE_PATH", "cuda"},
                                                                     {"CUPY_CACHE_DIR", "cupy"},
                                                                     {"NUMBA_CACHE_DIR", "numba"},
                                                                     {"TILELANG_CACHE_DIR", "tilelang"}}};

std::string upper_case(std::string_view name) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return upper;
}

bool speaks_of_secrets(std::string_view name) {
  const std::string upper = upper_case(name);
  return std::ranges::any_of(secret_words,
                             [&](std::string_view word) { return upper.find(word) != std::string::npos; });
}

bool known_variable(std::string_view name) {
  if (std::ranges::find(own_variables, name) != own_variables.end()) return true;
  if (speaks_of_secrets(name)) return false;
  return std::ranges::find(single_variables, name) != single_variables.end() ||
         std::ranges::any_of(variable_families, [&](std::string_view family) { return name.starts_with(family); });
}

/// Null where it is none of them.
const std::array<const char*, 2>* cache_variable(std::string_view name) {
  const auto* found =
      std::ranges::find(cache_variables, name, [](const auto& pair) { return std::string_view(pair[0]); });
  return found == cache_variables.end() ? nullptr : found;
}

bool below_any(std::string_view path, const std::vector<std::string>& folders) {
  return std::ranges::any_of(folders, [&](const std::string& folder) {
    return path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
  });
}

}  // namespace

std::vector<std::string> guest_environment(char** environment, const std::string& scratch,
                                           const std::vector<std::string>& writable) {
  std::vector<std::string> kept;
  std::vector<std::string_view> pointed;  // cache_variables that lie where the guest may write
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t at = text.find('=');
    if (at == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, at), value = text.substr(at + 1);
    if (const auto* cache = cache_variable(name); cache != nullptr) {
      if (!below_any(value, writable)) continue;
      pointed.push_back((*cache)[0]);
    } else if (!known_variable(name)) {
      continue;
    }
    kept.emplace_back(text);
  }
  for (const auto& [name, folder] : cache_variables) {
    if (std::ranges::find(pointed, std::string_view(name)) == pointed.end())
      kept.push_back(std::string(name) + "=" + scratch + "/" + folder);
  }
  return kept;
}

std::vector<std::string> capture_environment(char** environment) {
  std::vector<std::string> kept;
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (known_variable(name) || cache_variable(name) != nullptr ||
        std::ranges::find(download_variables, upper_case(name)) != download_variables.end())
      kept.emplace_back(text);
  }
  return kept;
}

}  // namespace planish::runner
