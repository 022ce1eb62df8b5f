#pragma once

#include <vector>

#include "codegen/genome.h"
#include "judge/verdict.h"

namespace planish::judge {

/// Issues name aims; which genes serve which aim is said of each gene (codegen/gene.h).
using codegen::Aim;

/// The moves that serve the aim and exist: the gene is in `genes`, and the genome's value has a neighbour in that
/// direction (for 0: any other choice). `worth` is the gain when the aim is reached; a move gets the part of it that
/// this gene usually brings. Largest first; equal gains in the order of gene_catalogue().
std::vector<Move> moves_for(Aim aim, double worth, const codegen::Genome& genome,
                            const std::vector<codegen::Gene>& genes);

}  // namespace planish::judge
