#include "codegen/genome.h"

#include "base/named_values.h"
#include "codegen/earlier_names.h"

namespace planish::codegen {

std::string text(const Genome& genome) {
  return named_values_text(genome);
}

Result<Genome> genome_from_text(std::string_view text) {
  PLANISH_TRY(Genome out, named_values_from_text<Genome>(text, "bad_genome"));
  for (auto it = out.begin(); it != out.end();) {
    const auto at = it++;
    const std::string_view present = present_gene_name(at->first);
    if (present == at->first) continue;
    auto renamed = out.extract(at);
    renamed.key() = present;
    if (!out.insert(std::move(renamed)).inserted)
      return fail("bad_genome", fmt::format("'{}' stands beside its earlier name", present));
  }
  return out;
}

}  // namespace planish::codegen
