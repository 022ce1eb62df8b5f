#include "coder/domain.h"

#include <utility>

namespace planish::coder {
namespace {

std::unexpected<Error> no_sources() {
  return fail("unsupported", "this region takes no sources");
}

}  // namespace

Candidate candidate_of(Proposal proposal, program::Program program) {
  const program::Checked checked(std::move(program));
  return {std::move(proposal), checked, checked.hash(), checked.variant()};
}

Result<Candidate> Domain::build_source(std::string_view) const {
  return no_sources();
}

Result<std::string> Domain::source(const codegen::Genome&) const {
  return no_sources();
}

Result<std::string> source_of(const Domain& domain, const Proposal& proposal) {
  if (const auto* genome = genome_of(proposal)) return domain.source(*genome);
  return written_source(proposal);
}

Result<Candidate> build(const Domain& domain, const Proposal& proposal) {
  if (const auto* genome = genome_of(proposal)) return domain.build(*genome);
  PLANISH_TRY(const std::string text, source_of(domain, proposal));
  PLANISH_TRY(auto candidate, domain.build_source(text));
  candidate.proposal = proposal;
  return candidate;
}

}  // namespace planish::coder
