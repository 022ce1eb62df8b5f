#include "codegen/contraction/direct.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "codegen/contraction/place_writer.h"
#include "codegen/emit/cuda_access.h"
#include "codegen/passes.h"

namespace planish::codegen::contraction {
namespace {

constexpr std::int64_t most_chunks = (std::int64_t{1} << 31) - 1;  // places are ints

/// True where eight neighbours of the last of `variables`, whose extents are whole eights there, are 16 aligned bytes.
bool in_chunks(const Kernel& kernel, const Node& load, const std::vector<int>& variables) {
  if (variables.empty() || kernel.space.extent(variables.back()) % 8 != 0) return false;
  if (load.dtype == DType::f32) {
    return load.index.constant_term() % 8 == 0 && std::ranges::all_of(load.index.terms(), [&](const auto& term) {
             return term.atom.variable == variables.back() ? term.coefficient == 1 : term.coefficient % 8 == 0;
           });
  }
  const printing::Lanes lanes{printing::Lanes::Mode::along, 8, variables.back(), {}, {}};
  const auto access = printing::classify(load.index, load.where, load.dtype, kernel.space, lanes);
  return access.kind == printing::Access::Kind::vector && access.unit == 8;
}

/// A dim of a tensor map.
struct Dim {
  int variable = -1;
  std::int64_t stride = 1;  ///< elements
};

/// The one that memory runs along, the other of rows and k, and what the batch moves.
std::vector<Dim> dims_of(const Contraction& c, Operand operand, const Direct& direct) {
  const int row = (operand == Operand::a ? c.m : c.n).front(), k = c.k.front();
  std::vector<Dim> out{{k, direct.depth.coefficient_of(k)}, {row, direct.row.coefficient_of(row)}};
  if (direct.load_mode == LoadMode::along_rows) std::swap(out[0], out[1]);
  for (const int v : c.batch) out.push_back({v, direct.row.coefficient_of(v)});
  return out;
}

}  // namespace

std::pair<ir::IndexExpr, ir::IndexExpr> parted(const ir::IndexExpr& index, const std::vector<int>& sum) {
  std::vector<ir::IndexExpr::Term> depth, row;
  for (const auto& term : index.terms())
    (std::ranges::find(sum, term.atom.variable) != sum.end() ? depth : row).push_back(term);
  return {ir::IndexExpr::build(0, std::move(depth)), ir::IndexExpr::build(index.constant_term(), std::move(row))};
}

const Node* plain_load(const Kernel& kernel, int factor) {
  const Node* node = &kernel.nodes[static_cast<std::size_t>(factor)];
  const auto half = node->dtype == DType::f32 && node->op == Op::load ? DType::f32 : half_type(kernel, factor);
  if (!half) return nullptr;
  if (node->op == Op::cast) node = &kernel.nodes[static_cast<std::size_t>(node->args[0])];
  if (node->op != Op::load || !node->args.empty()) return nullptr;
  return kernel.inputs[static_cast<std::size_t>(node->input)].dtype == *half ? node : nullptr;
}

void print_map(PlaceWriter& writer, const TilePlan& plan, Operand operand, std::int64_t begin,
               const std::vector<MapDim>& dims) {
  const bool fp32 = load_mode(plan, operand) == LoadMode::registers;
  const int type = fp32 ? 7 : plan.element == Element::f16 ? 6 : 10;  // as PTX numbers them
  writer.open(fmt::format("PL_DEVICE void map_{}(u32 map, const char* from) {{", letter(operand)));
  writer.line(fmt::format("tensor_map_at(map, from + {}ll);", begin));
  writer.line(fmt::format("tensor_map_type<{}, {}>(map);", dims.size(), type));
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const MapDim& dim = dims[d];
    writer.line(fmt::format("tensor_map_dim<{}>(map, {}, {}, {});", d, dim.extent, dim.box, dim.step));
    if (d > 0) writer.line(fmt::format("tensor_map_stride<{}>(map, {}ull);", d, dim.stride));
  }
  writer.close();
}

std::optional<Direct> direct_of(const Kernel& kernel, const Contraction& c, Operand operand) {
  const Node* const load = plain_load(kernel, operand == Operand::a ? c.first : c.second);
  if (load == nullptr || !load->where.empty() || !load->index.is_affine() || load->index.constant_term() < 0)
    return std::nullopt;
  for (const auto& term : load->index.terms()) {
    if (term.coefficient < 0) return std::nullopt;
  }
  if (load->index.range(kernel.space).second / 8 > most_chunks) return std::nullopt;
  Direct out;
  out.input = load->input;
  if (in_chunks(kernel, *load, c.k)) {
    out.load_mode = LoadMode::along_k;
  } else if (in_chunks(kernel, *load, operand == Operand::a ? c.m : c.n)) {
    out.load_mode = LoadMode::along_rows;
  } else {
    return std::nullopt;
  }
  std::tie(out.depth, out.row) = parted(load->index, c.k);
  return out;
}

std::string print_places(const Kernel& kernel, const Contraction& c, Operand operand, const Direct& direct) {
  PlaceWriter writer(kernel);
  writer.open(fmt::format("PL_DEVICE int row_{}(int batch, int row) {{", letter(operand)));
  writer.decode("batch", c.batch);
  writer.decode("row", operand == Operand::a ? c.m : c.n);
  writer.line(fmt::format("return (int)(({}) / 8);", writer.place_of(direct.row)));
  writer.close();
  writer.open(fmt::format("PL_DEVICE int depth_{}(int k) {{", letter(operand)));
  writer.decode("k", c.k);
  writer.line(fmt::format("return (int)(({}) / 8);", writer.place_of(direct.depth)));
  writer.close();
  return std::move(writer.out);
}

bool is_box(const Contraction& c, Operand operand, const Direct& direct) {
  return (operand == Operand::a ? c.m : c.n).size() == 1 && c.k.size() == 1 &&
         dims_of(c, operand, direct).size() <= most_map_dims;
}

std::string print_boxes(const Kernel& kernel, const Contraction& c, const TilePlan& plan, Operand operand,
                        const Direct& direct) {
  const char name = letter(operand);
  const auto dims = dims_of(c, operand, direct);
  const bool along_k = direct.load_mode == LoadMode::along_k;
  const bool fp32 = load_mode(plan, operand) == LoadMode::registers;
  const int rows = tile_rows(plan, operand), size = fp32 ? 4 : 2, line = 128 / size;
  PlaceWriter writer(kernel);
  std::vector<MapDim> map;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const int box = d == 0 ? line : d > 1 ? 1 : along_k ? rows : plan.bk;
    map.push_back({.extent = kernel.space.extent(dims[d].variable), .box = box, .stride = dims[d].stride * size});
  }
  print_map(writer, plan, operand, direct.row.constant_term() * size, map);
  writer.open(fmt::format(
      "PL_DEVICE void fetch_{}(u32 to, const void* map, int product, int row, int k, u32 barrier) {{", name));
  if (dims.size() > 2) writer.decode("product", c.batch);
  std::string batch;
  for (std::size_t d = 2; d < dims.size(); ++d) batch += fmt::format(", (int)d{}", dims[d].variable);
  const int boxes = along_k ? plan.bk / line : rows / 64, bytes = (along_k ? rows : plan.bk) * 128;
  writer.line("#pragma unroll");
  writer.line(fmt::format("for (int i = 0; i < {}; ++i) tensor_load(to + i * {}, map, barrier, {}{});", boxes, bytes,
                          along_k ? fmt::format("k + i * {}, row", line) : "row + i * 64, k", batch));
  writer.close();
  return std::move(writer.out);
}

int bringing_places(const TilePlan& plan, Operand operand) {
  return load_mode(plan, operand) == LoadMode::along_k ? tile_rows(plan, operand) / 16 : 1;
}

namespace {

/// The text that a producer has of an operand's tiles and stages.
struct Brought {
  char name;
  int rows, places;
  int across, step;  ///< along rows: chunks of a column; columns that all threads bring at once
  bool along_k;
  bool whole, deep;    ///< no tile, and no stage, reaches beyond what there is
  std::int64_t limit;  ///< rows that there are
};

Brought brought(const Problem& problem, const TilePlan& plan, Operand operand) {
  const std::int64_t limit = operand == Operand::a ? problem.m : problem.n;
  const int rows = tile_rows(plan, operand), across = rows / 8;
  return {.name = letter(operand),
          .rows = rows,
          .places = bringing_places(plan, operand),
          .across = across,
          .step = std::max(1, 128 / across),
          .along_k = load_mode(plan, operand) == LoadMode::along_k,
          .whole = limit % rows == 0,
          .deep = extents_of(problem, plan).depth == problem.k,
          .limit = limit};
}

// A row of 128 bytes is eight chunks, whose places are changed by the row's number: so the eight rows that a tensor
// core reads at once, and the eight chunks that neighbouring threads write, meet in no bank.
constexpr std::string_view place_along_k = "thread / 8 * 128 + (thread % 8 ^ thread / 8 % 8) * 16";
std::string place_along_rows(const TilePlan& plan) {
  return fmt::format("chunk / 8 * {} + y / 8 * 1024 + y % 8 * 128 + (chunk % 8 ^ y % 8) * 16", plan.bk * 128);
}

/// The functions that split an operand of fp32: load_a, put_a and flag_a (see print_bringing()).
std::string print_splitting(const Problem& problem, const TilePlan& plan, Operand operand) {
  const auto [name, rows, places, across, step, along_k, whole, deep, limit] = brought(problem, plan, operand);
  const int chunks = chunks_converted(plan, operand), tops = splitting_tops(plan, operand);
  const int apart = part_offset(problem, plan, operand, 1) - part_offset(problem, plan, operand, 0);
  std::string out;
  const auto line = [&](const std::string& text) { out += text + "\n"; };
  const auto each_chunk = [&](const auto& print) {
    line("#pragma unroll");
    line(fmt::format("  for (int c = 0; c < {}; ++c) {{", chunks));
    print();
    line("  }");
  };
  line(
      fmt::format("PL_DEVICE void load_{}(Eight (&v)[{}], const char* from, const int (&at)[{}], int k, int thread) {{",
                  name, chunks, places));
  each_chunk([&] {
    line(along_k ? fmt::format("    const int i = c % {0}, x = k + c / {0} * 64 + thread % 8 * 8;", places)
                 : fmt::format("    const int i = 0, x = k + c * {} + thread / {};", step, across));
    std::string there = whole ? "true" : "at[i] >= 0";
    if (!deep) there += fmt::format(" & x < {}", problem.k);
    line(fmt::format("    const bool there = {};", there));
    line(
        fmt::format("    v[c] = take_eight(from + (there ? (long long)(at[i] + depth_{}(x)) * 32 : 0), there);", name));
  });
  line("}");
  line(fmt::format("PL_DEVICE void put_{}(u32 to, const Eight (&v)[{}], unsigned (&top)[{}], int thread) {{", name,
                   chunks, tops));
  each_chunk([&] {
    line(along_k ? fmt::format("    const int i = c % {0};\n    const u32 place = c / {0} * {1} + i * 2048 + {2};",
                               places, rows * 128, place_along_k)
                 : fmt::format(
                       "    const int y = c * {0} + thread / {1}, chunk = thread % {1};\n    const u32 place = {2};",
                       step, across, place_along_rows(plan)));
    line(fmt::format("    keep_eight(to + place, to + {} + place, v[c]);", apart));
    line("#pragma unroll");
    line(fmt::format("    for (int j = 0; j < 8; ++j) top[{0}] = max(top[{0}], magnitude_bits(v[c].v[j]));",
                     along_k ? "i" : "j"));
  });
  line("}");
  line(fmt::format("PL_DEVICE void flag_{}(unsigned (&top)[{}], int* fallback) {{", name, tops));
  line("  bool odd = false;");
  line("#pragma unroll");
  line(fmt::format("  for (int i = 0; i < {}; ++i) {{", tops));
  // Lanes that have other elements of the same rows.
  line(
      fmt::format("    for (int apart = {}; apart < {}; apart *= 2) top[i] = max(top[i], __shfl_xor_sync(~0u, top[i], "
                  "apart));",
                  along_k ? 1 : across, along_k ? 8 : 32));
  line("    odd = odd | !fits_unscaled(top[i]);");
  line("    top[i] = 0;");
  line("  }");
  line("  if (odd) *fallback = 1;");
  line("}");
  return out;
}

}  // namespace

int splitting_tops(const TilePlan& plan, Operand operand) {
  return load_mode(plan, operand) == LoadMode::along_k ? bringing_places(plan, operand) : 8;
}

std::string print_bringing(const Problem& problem, const TilePlan& plan, Operand operand) {
  const auto [name, rows, places, across, step, along_k, whole, deep, limit] = brought(problem, plan, operand);
  std::string out;
  const auto line = [&](const std::string& text) { out += text + "\n"; };
  line(fmt::format("PL_DEVICE void find_{}(int (&at)[{}], int product, int row, int thread) {{", name, places));
  line("#pragma unroll");
  line(fmt::format("  for (int i = 0; i < {}; ++i) {{", places));
  line(along_k ? "    const int r = row + thread / 8 + i * 16;"
               : fmt::format("    const int r = row + thread % {} * 8;", across));
  const std::string place = fmt::format("row_{}(product, r)", name);
  line(fmt::format("    at[i] = {};", whole ? place : fmt::format("r < {} ? {} : -1", limit, place)));
  line("  }");
  line("}");
  if (converts(plan)) return out + print_splitting(problem, plan, operand);
  line(fmt::format("PL_DEVICE void bring_{}(u32 to, const char* from, const int (&at)[{}], int k, int thread) {{", name,
                   places));
  const auto bring = [&](const std::string& index, const std::string& offset) {
    std::string there = deep ? "true" : fmt::format("x < {}", problem.k);
    if (!whole) there = fmt::format("at[{}] >= 0{}", index, deep ? "" : " & " + there);
    line(fmt::format("    cp_async_if(to + {}, from + (long long)(at[{}] + deep) * 16, {});", offset, index, there));
  };
  const std::string depth = fmt::format("depth_{}(x)", name);
  const std::string found =
      fmt::format("    const int deep = {};", deep ? depth : fmt::format("x < {} ? {} : 0", problem.k, depth));
  if (along_k) {
    line(fmt::format("  const u32 mine = {};", place_along_k));
    line("#pragma unroll");
    line(fmt::format("  for (int h = 0; h < {}; ++h) {{", plan.bk / 64));
    line("    const int x = k + h * 64 + thread % 8 * 8;");
    line(found);
    line("#pragma unroll");
    line(fmt::format("    for (int i = 0; i < {}; ++i)", places));
    bring("i", fmt::format("h * {} + i * 2048 + mine", rows * 128));
  } else {
    line(fmt::format("  const int chunk = thread % {};", across));
    line("#pragma unroll");
    line(fmt::format("  for (int i = 0; i < {}; ++i) {{", plan.bk / step));
    line(fmt::format("    const int y = i * {} + thread / {}, x = k + y;", step, across));
    line(found);
    bring("0", place_along_rows(plan));
  }
  line("  }");
  line("}");
  return out;
}

}  // namespace planish::codegen::contraction
