#include "codegen/genome.h"

#include "base/named_values.h"
#include "codegen/earlier_names.h"

namespace planish::codegen {

std::string text(const Genome& genome) {
  return named_values_text(genome);
}

Result<Genome> genome_from_text(std::string_view text) {
  PLANISH_TRY(const Genome stored, named_values_from_text<Genome>(text, "bad_genome"));
  Genome out;
  for (const auto& [name, value] : stored) {
    if (!out.emplace(present_gene_name(name), value).second)
      return fail("bad_genome", fmt::format("'{}' stands beside its earlier name", present_gene_name(name)));
  }
  return out;
}

}  // namespace planish::codegen
