#include "patterns/importer/text_facts.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "patterns/words.h"

namespace planish::patterns {

bool names(std::string_view code, std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (std::size_t at = code.find(text); at != std::string_view::npos; at = code.find(text, at + 1)) {
    if (at == 0 || !letter(text.front()) || !letter(code[at - 1])) return true;
  }
  return false;
}

void add_said(Facts& facts, std::string_view text, std::initializer_list<std::string_view> names) {
  for (const auto& [name, values] : recognise(words(text))) {
    if (names.size() > 0 && std::ranges::find(names, name) == names.end()) continue;
    for (const std::string& value : values) add_fact(facts, name, value);
  }
}

void add_shown(Facts& facts, std::string_view code) {
  struct Sign {
    std::string_view text, name, value;
  };
  static constexpr std::array signs{Sign{"wgmma", "trait", "wgmma"},
                                    Sign{"mma.sync", "trait", "mma"},
                                    Sign{"wmma::", "trait", "wmma"},
                                    Sign{"tcgen05", "trait", "tcgen05"},
                                    Sign{"cp.async.bulk", "schedule", "tma"},
                                    Sign{"cp.async", "schedule", "cp_async"},
                                    Sign{"__pipeline_memcpy_async", "schedule", "cp_async"},
                                    Sign{"__shared__", "trait", "shared memory"},
                                    Sign{"__shfl", "trait", "warp shuffle"},
                                    Sign{"__syncwarp", "trait", "warp"},
                                    Sign{"atomicAdd", "trait", "atomic"},
                                    Sign{"float4", "trait", "vector loads"},
                                    Sign{"int4", "trait", "vector loads"},
                                    Sign{"__ldg", "trait", "read-only loads"},
                                    Sign{"cooperative_groups", "trait", "cooperative groups"},
                                    Sign{"cluster", "trait", "clusters"},
                                    Sign{"mbarrier", "trait", "mbarrier"},
                                    Sign{"ldmatrix", "trait", "ldmatrix"},
                                    Sign{"BlockReduce", "trait", "cub"},
                                    Sign{"BlockScan", "operation", "scan"},
                                    Sign{"__half", "dtype", "f16"},
                                    Sign{"half2", "dtype", "f16"},
                                    Sign{"bfloat16", "dtype", "bf16"},
                                    Sign{"float ", "dtype", "f32"},
                                    Sign{"float*", "dtype", "f32"},
                                    Sign{"double", "dtype", "f64"},
                                    Sign{"int8_t", "dtype", "s8"},
                                    Sign{"fp8", "dtype", "fp8"},
                                    Sign{"e4m3", "dtype", "e4m3"},
                                    Sign{"e5m2", "dtype", "e5m2"}};
  for (const Sign& sign : signs) {
    if (names(code, sign.text)) add_fact(facts, sign.name, sign.value);
  }
}

std::string summary_of(std::string_view comment) {
  constexpr std::size_t most = 1200;
  std::string out(comment.substr(0, most));
  if (comment.size() > most) {
    const std::size_t end = out.find_last_of(" \n");
    if (end != std::string::npos) out.resize(end);
    out += " …";
  }
  return out;
}

}  // namespace planish::patterns
