#include "codegen/earlier_names.h"

#include <algorithm>
#include <array>
#include <utility>

namespace planish::codegen {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

constexpr std::array<Names, 9> renamed_genes{{{"walk", "persistent_rows"},
                                              {"hold", "operand_residency"},
                                              {"skip", "predication"},
                                              {"strips", "stencil_reuse"},
                                              {"keep", "partial_residency"},
                                              {"team", "cooperative"},
                                              {"ahead", "pipeline_depth"},
                                              {"rest", "register_residency"},
                                              {"slices", "grid_split"}}};
constexpr std::array<Names, 2> renamed_anchors{{{"cross", "row_and_column"}, {"parts", "segmented_row"}}};

}  // namespace

std::string_view present_gene_name(std::string_view stored) {
  const auto* found = std::ranges::find(renamed_genes, stored, &Names::first);
  return found == renamed_genes.end() ? stored : found->second;
}

std::string_view earlier_anchor_name(std::string_view name) {
  const auto* found = std::ranges::find(renamed_anchors, name, &Names::second);
  return found == renamed_anchors.end() ? std::string_view() : found->first;
}

}  // namespace planish::codegen
