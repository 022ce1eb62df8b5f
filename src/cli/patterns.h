#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/output.h"
#include "llm/config.h"
#include "patterns/library.h"

namespace planish::cli {

enum class PatternsAction : std::uint8_t { import, search, show, list, forget, embed };

struct PatternsVerb {
  std::string index;               ///< file; empty for the one in the data folder
  std::string store;               ///< what our own patterns achieved
  std::string kind, folder, name;  ///< import; `kind` and `name` limit a search, too
  std::string query, form;         ///< search
  std::vector<std::string> operation, variant, direction, dtype, arch, tile, layout, schedule, epilogue, shape,
      language;
  int limit = 10;
  llm::ConfigFile config;     ///< planish.toml, for its [embedding]; empty: none is looked for
  bool no_embedding = false;  ///< search: by words and facts alone
  bool source = false;        ///< show: the source alone
  std::string id;             ///< show; of forget, the corpus
};
int patterns_verb(PatternsAction action, const PatternsVerb& options, const Output& output);

/// What the options of a search ask for, in the words of patterns/fact.h: "--op matmul" is the operation gemm, "--arch
/// sm_90a" the architecture 90. Kind `bad_filter`.
Result<patterns::Filter> pattern_filter(const PatternsVerb& options);

}  // namespace planish::cli
