#pragma once

#include <string>
#include <vector>

#include "llm/http_provider.h"

namespace planish::llm {

/// What was found about one configured model.
struct ModelReport {
  std::string label, name, base_url;
  WireKind wire = WireKind::openai;
  std::vector<Role> roles;
  bool key = false;  ///< present, or not needed
  bool reachable = false;
  std::optional<bool> listed;  ///< the server lists this name; nothing: it lists none
  bool answers = false;
  bool streams = false;
  bool tools = false;
  bool structured = false;         ///< an answer in a schema came, by `capabilities.structured`
  bool usage = false;              ///< it reports tokens
  bool open_text = false;          ///< a key goes over http:// to another machine
  Capabilities capabilities;       ///< as learned
  Amount spent;                    ///< of the questions asked
  double seconds = 0;              ///< of the first answer
  std::optional<Error> problem;    ///< the first thing that keeps it from being used
  std::vector<std::string> notes;  ///< what else is worth knowing
  bool ok() const { return !problem; }
};

/// Looks at a model: key, server, name, then three questions of a few tokens each (text, a tool, a schema), which count
/// against the ledger. Each ends by the call's deadline.
ModelReport probe(HttpProvider& model, const Call& call);
/// The report of a model whose key cannot be read.
ModelReport unusable(const ModelConfig& config, Error problem);

}  // namespace planish::llm
