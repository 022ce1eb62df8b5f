#include "codegen/genome.h"

#include "base/named_values.h"

namespace planish::codegen {

std::string text(const Genome& genome) {
  return named_values_text(genome);
}

Result<Genome> genome_from_text(std::string_view text) {
  return named_values_from_text<Genome>(text, "bad_genome");
}

}  // namespace planish::codegen
