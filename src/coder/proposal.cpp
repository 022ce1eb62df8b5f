#include "coder/proposal.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/json.h"
#include "codegen/compose/staged.h"
#include "coder/source_text.h"

namespace planish::coder {
namespace {

constexpr std::string_view source_word = "source ", patch_word = "patch ";

struct DocumentOf {
  std::string operator()(const codegen::Genome&) const { return {}; }
  std::string operator()(const Source& source) const { return source.text; }
  std::string operator()(const Patch& patch) const {
    Json edits = Json::array();
    for (const Edit& edit : patch.edits) edits.push_back({{"search", edit.search}, {"replace", edit.replace}});
    return dump_json({{"schema", "planish.patch/1"},
                      {"parent", patch.parent},
                      {"parent_program", patch.parent_program},
                      {"edits", std::move(edits)}});
  }
};

Result<Proposal> patch_from(std::string_view document) {
  PLANISH_TRY(const Json json, parse_json(document, "bad_proposal", "patch"));
  const auto bad = [] { return fail("bad_proposal", "the document is no planish.patch/1"); };
  const auto words = [](const Json& object, const char* name) -> const std::string* {
    const auto at = object.is_object() ? object.find(name) : object.end();
    return at != object.end() && at->is_string() ? at->get_ptr<const std::string*>() : nullptr;
  };
  const auto* parent = words(json, "parent");
  const auto* program = words(json, "parent_program");
  if (parent == nullptr || program == nullptr || !json.contains("edits") || !json["edits"].is_array()) return bad();
  Patch out{*parent, *program, {}};
  for (const Json& edit : json["edits"]) {
    const auto* search = words(edit, "search");
    const auto* replace = words(edit, "replace");
    if (search == nullptr || replace == nullptr) return bad();
    out.edits.push_back({*search, *replace});
  }
  return Proposal(std::move(out));
}

}  // namespace

std::string document(const Proposal& proposal) {
  return std::visit(DocumentOf{}, proposal);
}

std::string text(const Proposal& proposal) {
  if (const auto* genome = genome_of(proposal)) return codegen::text(*genome);
  return fmt::format("{}{}", std::holds_alternative<Source>(proposal) ? source_word : patch_word,
                     sha256_hex(document(proposal)));
}

std::string_view document_hash(std::string_view text) {
  for (const std::string_view word : {source_word, patch_word}) {
    if (text.starts_with(word)) return text.substr(word.size());
  }
  return {};
}

Result<Proposal> proposal_from(std::string_view text, std::string_view document) {
  const std::string_view hash = document_hash(text);
  if (hash.empty()) {
    PLANISH_TRY(auto genome, codegen::genome_from_text(text));
    return Proposal(std::move(genome));
  }
  if (sha256_hex(document) != hash)
    return fail("bad_proposal", fmt::format("the document of `{}` is another one", text));
  if (text.starts_with(source_word)) return Proposal(Source{std::string(document)});
  return patch_from(document);
}

Result<std::string> written_source(const Proposal& proposal) {
  if (const auto* source = std::get_if<Source>(&proposal)) return source->text;
  const auto& patch = std::get<Patch>(proposal);
  return apply_edits(patch.parent, patch.edits);
}

Result<codegen::Emitted> emit(const codegen::Region& region, const codegen::Device& device, const Proposal& proposal) {
  if (const auto* genome = genome_of(proposal)) return codegen::emit(region, device, *genome);
  PLANISH_TRY(const std::string text, written_source(proposal));
  return parse_source_text(text, *device.target);
}

}  // namespace planish::coder
