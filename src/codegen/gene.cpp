#include "codegen/gene.h"

#include <iterator>
#include <map>

namespace planish::codegen {
namespace {

constexpr std::array<std::string_view, gene_kinds> kind_names{
    "tensor", "vector", "registers", "tile", "residency", "split", "pipeline", "cache", "algorithm"};

// Names of columns, kept from the rest of the namespace.
namespace table_of_genes {

using enum GeneKind;
using enum Aim;
using enum InCooperative;
constexpr bool triton = true, seeds_only = true;

constexpr std::array<GeneInfo, gene_names.size()> all{{
    {"exchange",
     residency,
     "how blocks of a cluster hand each other a row's state",
     {{less_coordination, 0, 0.3}},
     foreign},
    {"threads",
     tile,
     "threads of a block; on the processor, cores",
     {{fewer_registers, +1, 0.3},
      {fewer_registers, -1, 0.2},
      {more_registers, -1, 0.5},
      {more_registers, +1, 0.4},  // a resident row spread over more threads
      {more_in_flight, +1, 0.4},
      {more_blocks, +1, 0.7},
      {more_blocks, -1, 0.3},
      {even_waves, -1, 0.6},
      {less_coordination, -1, 0.3}},
     known,
     triton},
    {"vector",
     vector,
     "bytes that a thread takes at once",
     {{fewer_registers, -1, 0.4},
      {more_registers, -1, 0.4},
      {more_in_flight, +1, 0.6},
      {wider_access, +1, 0.9},
      {less_arithmetic, +1, 0.4},
      {inside_bounds, -1, 0.5}},
     known,
     triton},
    {"unroll",
     registers,
     "vectors of a thread that are under way together",
     {{fewer_registers, -1, 0.7},
      {more_registers, -1, 0.7},
      {more_in_flight, +1, 0.7},
      {more_blocks, -1, 0.4},
      {even_waves, -1, 0.3},
      {less_arithmetic, +1, 0.4},
      {inside_bounds, -1, 0.3}},
     known,
     triton},
    {"cluster",
     split,
     "blocks that share a row through each other's shared memory",
     {{more_registers, +1, 0.4},
      {less_shared, +1, 0.6},
      {more_blocks, +1, 0.5},
      {less_traffic, +1, 0.4},
      {less_coordination, -1, 0.6},
      {inside_bounds, -1, 0.2}},
     foreign},
    {"persistent_rows",
     pipeline,
     "rows that a block does one after the other, the next on its way",
     {{less_shared, -1, 0.4},
      {more_in_flight, +1, 0.3},
      {more_blocks, -1, 0.4},
      {even_waves, 0, 0.4},
      {less_coordination, -1, 0.6},
      {inside_bounds, -1, 0.2}},
     foreign},
    {"residency",
     residency,
     "where a row stays between sweeps: nowhere, in registers, in shared memory",
     {{fewer_registers, 0, 0.6},
      {more_registers, 0, 0.6},
      {less_shared, 0, 0.6},
      {more_in_flight, 0, 0.3},
      {less_traffic, 0, 0.9},
      {less_coordination, 0, 0.4}},
     known,
     triton},
    {"rows",
     tile,
     "rows that a block does side by side",
     {{less_shared, -1, 0.6}, {more_blocks, -1, 0.7}, {even_waves, -1, 0.5}, {inside_bounds, -1, 0.3}},
     foreign,
     triton},
    {"fast",
     algorithm,
     "the machine's approximations of functions and division",
     {{less_arithmetic, +1, 0.8}, {more_exact, -1, 0.8}},
     known,
     triton},
    {"bits",
     vector,
     "width of the processor's vectors",
     {{wider_access, +1, 0.8}, {less_arithmetic, +1, 0.8}, {inside_bounds, -1, 0.4}}},
    {"tile",
     tile,
     "edge of the tiles in which data are turned",
     {{less_shared, -1, 0.6},
      {more_blocks, -1, 0.3},
      {less_traffic, +1, 0.6},
      {wider_access, +1, 0.6},
      {less_coordination, -1, 0.4},
      {inside_bounds, -1, 0.4}}},
    {"stages",
     pipeline,
     "rows that the copy engine has on the way",
     {{less_shared, -1, 0.6}, {more_in_flight, +1, 0.6}, {less_coordination, -1, 0.5}},
     foreign},
    {"split",
     split,
     "threads of a block that share what is reduced; on the processor, whether cores share a row",
     {{more_blocks, +1, 0.8}, {less_coordination, -1, 0.6}, {more_exact, +1, 0.1}}},
    {"operand_residency",
     residency,
     "what all rows share stays in shared memory",
     {{less_shared, -1, 0.3}, {less_traffic, +1, 0.4}},
     foreign},
    {"min_blocks",
     registers,
     "blocks of a multiprocessor that the compiler leaves registers for",
     {{fewer_registers, +1, 0.8},
      {more_registers, -1, 0.9},
      {less_shared, -1, 0.3},
      {more_in_flight, +1, 0.5},
      {even_waves, 0, 0.3}}},
    {"persistent", split, "blocks of a multiprocessor that take piece after piece", {{even_waves, +1, 0.6}}},
    {"nt", cache, "stores that go past the cache", {{less_traffic, +1, 0.9}}},
    {"online",
     algorithm,
     "the second fold of a row is computed along with the first",
     {{less_traffic, +1, 0.7}, {less_arithmetic, -1, 0.3}, {more_exact, -1, 0.3}}},
    {"predication", algorithm, "masked elements are not loaded, or not computed", {{less_traffic, +1, 0.7}}, foreign},
    {"buffer",
     residency,
     "costly values of a row are kept between sweeps",
     {{less_traffic, +1, 0.5}, {less_arithmetic, +1, 0.5}}},
    {"panel", tile, "columns whose states a core keeps while it walks along rows", {{less_traffic, 0, 0.5}}},
    {"hints",
     cache,
     "loads and stores that need not stay in the cache",
     {{more_in_flight, 0, 0.2}, {less_traffic, 0, 0.3}},
     known,
     triton},
    {"raster", split, "which rows run at the same time, for what they share", {{less_traffic, 0, 0.3}}, foreign},
    {"chunk", tile, "elements that a core takes at a time", {{more_blocks, -1, 0.6}, {less_traffic, -1, 0.3}}},
    {"vary", vector, "the variable that vectors lie along", {{wider_access, 0, 0.6}}},
    {"stencil_reuse",
     vector,
     "loads that lie beside each other are loaded as one and shifted",
     {{wider_access, +1, 0.6}, {less_traffic, +1, 0.4}, {fewer_registers, -1, 0.3}}},
    {"down",
     registers,
     "rows of a window that a thread walks down, keeping what they share",
     {{less_traffic, +1, 0.6},
      {less_arithmetic, +1, 0.3},
      {fewer_registers, -1, 0.6},
      {more_registers, -1, 0.5},
      {more_blocks, -1, 0.5},
      {inside_bounds, -1, 0.2}}},
    {"realign",
     vector,
     "loads that lie otherwise than their row are loaded aligned and shifted",
     {{wider_access, +1, 0.7}, {fewer_registers, -1, 0.2}},
     foreign},
    {"partial_residency",
     residency,
     "as much of a row as fits stays in shared memory",
     {{less_traffic, +1, 0.6}, {less_shared, -1, 0.5}},
     foreign},
    {"lines",
     vector,
     "vectors begin where lines of memory do",
     {{wider_access, +1, 0.4}, {less_traffic, +1, 0.2}},
     foreign},
    {"reverse", cache, "the last sweep runs backwards, over what the cache still has", {{less_traffic, +1, 0.4}}},
    {"cooperative",
     split,
     "blocks that own a row together",
     {{less_traffic, +1, 0.5}, {more_blocks, +1, 0.6}, {less_coordination, -1, 0.6}, {even_waves, 0, 0.3}},
     own},
    {"pipeline_depth",
     pipeline,
     "rows or chunks that are begun before the one at hand is done",
     {{more_in_flight, +1, 0.5}, {fewer_registers, -1, 0.3}, {less_coordination, +1, 0.3}},
     own},
    {"prefetch",
     pipeline,
     "how much of the next row the cache is asked for before a meeting",
     {{more_in_flight, +1, 0.3}, {less_coordination, +1, 0.2}},
     own},
    {"register_residency",
     residency,
     "what shared memory does not hold of a slice stays in registers",
     {{less_traffic, +1, 0.4}, {fewer_registers, -1, 0.5}, {more_registers, -1, 0.5}},
     own},
    {"grid_split",
     split,
     "parts of what is reduced that have blocks of their own, joined by a launch",
     {{more_blocks, +1, 0.8}, {less_coordination, -1, 0.6}, {less_traffic, -1, 0.2}, {more_exact, +1, 0.1}},
     foreign},
    {"across",
     split,
     "threads that share a row whose columns are folded as well",
     {{wider_access, +1, 0.4}, {more_blocks, +1, 0.4}, {less_coordination, -1, 0.5}}},
    {"trips",
     registers,
     "vectors of a row that a thread owns",
     {{fewer_registers, -1, 0.7}, {more_registers, -1, 0.6}, {more_in_flight, +1, 0.5}}},
    {"blocks",
     split,
     "runs of rows, for each multiprocessor",
     {{more_blocks, +1, 0.8}, {even_waves, 0, 0.4}, {less_traffic, -1, 0.4}}},
    {"language",
     algorithm,
     "CUDA C++ or Triton: another compiler",
     {{more_registers, 0, 0.2}, {less_arithmetic, 0, 0.1}},
     known,
     triton,
     seeds_only},
    {"tile_m",
     tensor,
     "rows of a product that a block computes at once",
     {{fewer_registers, -1, 0.4},
      {less_shared, -1, 0.5},
      {more_blocks, -1, 0.6},
      {even_waves, 0, 0.5},
      {less_traffic, +1, 0.6},
      {inside_bounds, -1, 0.5}}},
    {"tile_n",
     tensor,
     "columns of a product that a block computes at once",
     {{fewer_registers, -1, 0.6},
      {less_shared, -1, 0.5},
      {more_blocks, -1, 0.6},
      {even_waves, 0, 0.6},
      {less_traffic, +1, 0.6},
      {inside_bounds, -1, 0.5}}},
    {"tile_k",
     tensor,
     "elements of a sum that a stage holds",
     {{less_shared, -1, 0.5}, {more_in_flight, 0, 0.4}, {less_coordination, +1, 0.4}, {inside_bounds, -1, 0.2}}},
    {"promote",
     tensor,
     "elements that the tensor cores sum before fp32 adds take over",
     {{more_exact, -1, 0.9}, {less_arithmetic, +1, 0.3}}},
    {"passes",
     tensor,
     "products of fp16 numbers that one of fp32 numbers is made of",
     {{more_exact, 0, 0.9}, {less_arithmetic, 0, 0.9}, {less_traffic, 0, 0.6}}},
    {"pingpong",
     tensor,
     "warpgroups have tiles of their own, in turn: so many store while another multiplies",
     {{more_in_flight, 0, 0.5}, {less_coordination, 0, 0.3}}},
    {"direct",
     tensor,
     "factors are read where they lie, not packed before: fp32 is split on its way; 2: by tensor maps",
     {{less_traffic, +1, 0.7}, {less_coordination, -1, 0.3}}},
}};
static_assert([] {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name != gene_names[i]) return false;
  }
  return true;
}());

}  // namespace table_of_genes

}  // namespace

std::string_view name(GeneKind kind) {
  return kind_names[static_cast<std::size_t>(kind)];
}

std::span<const GeneInfo> gene_catalogue() {
  return table_of_genes::all;
}

const GeneInfo* find_gene(std::string_view name) {
  static const auto index = [] {
    std::map<std::string_view, const GeneInfo*> out;
    for (const GeneInfo& one : gene_catalogue()) out.emplace(one.name, &one);
    return out;
  }();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

InCooperative in_cooperative(std::string_view name) {
  const GeneInfo* const info = find_gene(name);
  return info == nullptr ? InCooperative::known : info->in_cooperative;
}

const Gene* find_gene(const std::vector<Gene>& genes, std::string_view name) {
  const auto it = std::ranges::find(genes, name, &Gene::name);
  return it == genes.end() ? nullptr : &*it;
}

}  // namespace planish::codegen
