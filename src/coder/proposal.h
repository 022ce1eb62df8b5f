#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "codegen/genome.h"
#include "codegen/partition/partition.h"
#include "coder/patch.h"

namespace planish::coder {

/// A program as a coder wrote it (docs/formats/source.md).
struct Source {
  std::string text;
  auto operator<=>(const Source&) const = default;
};

/// A change of another proposal: edits of its source.
struct Patch {
  std::string parent;          ///< its source text
  std::string parent_program;  ///< hash of its program, for people; may be empty
  std::vector<Edit> edits;
  auto operator<=>(const Patch&) const = default;
};

/// What a coder proposes for one region: a genome of its template, a source, or a patch. Ordered, so that it can be a
/// key. Plain data.
using Proposal = std::variant<codegen::Genome, Source, Patch>;

/// Null where the proposal is none.
inline const codegen::Genome* genome_of(const Proposal& proposal) {
  return std::get_if<codegen::Genome>(&proposal);
}

/// The form that rows of the store and reports have: a genome's text, `source HASH`, `patch HASH`; the hash is that of
/// document().
std::string text(const Proposal& proposal);
/// All that a source or a patch says: a source is its own document, a patch a JSON object. Empty for a genome, which
/// its text says whole.
std::string document(const Proposal& proposal);
/// The hash in such a text, which is the name of the document; empty for a genome's.
std::string_view document_hash(std::string_view text);
/// The source of a proposal that is no genome: a patch with its edits made. Kind `bad_patch`.
Result<std::string> written_source(const Proposal& proposal);
/// `text` as text() gave it, with its document. Kinds `bad_proposal`, and those of genome_from_text().
Result<Proposal> proposal_from(std::string_view text, std::string_view document);

/// The launches that a proposal for a region stands for. Error kinds: those of codegen::emit(), `bad_source`,
/// `bad_patch`.
Result<codegen::Emitted> emit(const codegen::Region& region, const codegen::Device& device, const Proposal& proposal);

}  // namespace planish::coder
