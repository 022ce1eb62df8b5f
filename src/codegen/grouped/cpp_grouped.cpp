#include "codegen/grouped/cpp_grouped.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/direct.h"
#include "codegen/device/device_files.h"
#include "codegen/emit/cpp_plan.h"
#include "codegen/emit/vector_math.h"

namespace planish::codegen {
namespace {

/// A tensor of the product: where its elements lie by row, by k (or column) and by group.
struct GroupedPlaces {
  int number = -1;  ///< of the input
  DType dtype = DType::f32;
  std::int64_t begin = 0, row = 0, along = 0;
};

struct CppGrouped {
  GroupedPlaces a, b, out;  ///< of b, `row` is a step of k and `along` one of columns
  std::int64_t rows = 0, depth = 0, columns = 0;
};

/// What memory moves by when all of these variables move as one, the last fastest.
std::optional<std::int64_t> common_stride(const Kernel& kernel, const std::vector<int>& variables,
                                          const ir::IndexExpr& index) {
  const std::int64_t last = index.coefficient_of(variables.back());
  std::int64_t stride = last;
  for (std::size_t i = variables.size(); i-- > 0;) {
    if (index.coefficient_of(variables[i]) != stride) return std::nullopt;
    stride *= kernel.space.extent(variables[i]);
  }
  return last;
}

std::optional<GroupedPlaces> places_of(const Kernel& kernel, const ir::IndexExpr& index, const std::vector<int>& rows,
                                       const std::vector<int>& along) {
  if (!index.is_affine()) return std::nullopt;
  const auto row = common_stride(kernel, rows, index), step = common_stride(kernel, along, index);
  if (!row || !step) return std::nullopt;
  GroupedPlaces out;
  out.begin = index.constant_term();
  out.row = *row;
  out.along = *step;
  return out;
}

/// What is stored is the sum, rounded at most.
bool stores_the_sum(const Kernel& kernel) {
  const Node* node = &kernel.nodes[static_cast<std::size_t>(kernel.outputs[0].node)];
  while (node->op == Op::cast && is_floating(node->dtype))
    node = &kernel.nodes[static_cast<std::size_t>(node->args[0])];
  return node->op == Op::reduced;
}

bool is_number_of_32_bits(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

Result<CppGrouped> cpp_grouped_of(const Kernel& kernel, const Grouped& grouped) {
  const auto no = [](const char* why) { return fail("unsupported", why); };
  const Kernel& plain = grouped.plain;
  PLANISH_TRY(Contraction c, contraction_of(plain));
  const Node* const weights = &plain.nodes[static_cast<std::size_t>(grouped.weights)];
  if (contraction::plain_load(plain, c.second) != weights) {
    std::swap(c.first, c.second);
    std::swap(c.m, c.n);
  }
  const Node* const a = contraction::plain_load(plain, c.first);
  if (a == nullptr || contraction::plain_load(plain, c.second) != weights || !a->where.empty())
    return no("factors of which something is computed");
  if (kernel.outputs.size() != 1 || !kernel.outputs[0].args.empty() || !stores_the_sum(kernel))
    return no("results of which something is computed");
  CppGrouped out;
  const auto of_a = places_of(kernel, a->index, c.m, c.k), of_b = places_of(kernel, weights->index, c.k, c.n),
             of_out = places_of(kernel, kernel.outputs[0].index, c.m, c.n);
  if (!of_a || !of_b || !of_out || of_out->along != 1 || (of_b->row != 1 && of_b->along != 1))
    return no("tensors that do not lie in rows");
  out.a = *of_a, out.b = *of_b, out.out = *of_out;
  out.a.number = a->input, out.b.number = weights->input;
  out.a.dtype = kernel.inputs[static_cast<std::size_t>(a->input)].dtype;
  out.b.dtype = kernel.inputs[static_cast<std::size_t>(weights->input)].dtype;
  out.out.dtype = kernel.outputs[0].dtype;
  if (!is_number_of_32_bits(out.a.dtype) || !is_number_of_32_bits(out.b.dtype) ||
      !is_number_of_32_bits(out.out.dtype) || kernel.reductions[0].accumulate != DType::f32)
    return no("numbers of another type");
  out.rows = grouped.rows;
  out.depth = c.depth;
  out.columns = 1;
  for (const int v : c.n) out.columns *= kernel.space.extent(v);
  return out;
}

int lanes_of(const Genome& genome) {
  return static_cast<int>(gene(genome, "bits", 128) / 32);
}

/// Columns of a unit: whole tiles of the device file (GroupedTile), whatever the vectors.
std::vector<std::int64_t> panels_of(const CppGrouped& product) {
  return product.b.row == 1 ? std::vector<std::int64_t>{48, 96, 192, 384}
                            : std::vector<std::int64_t>{64, 128, 256, 512};
}

std::vector<std::int64_t> teams(const Device& device) {
  std::vector<std::int64_t> out;
  for (std::int64_t n = 1; n < device.sms; n *= 2) out.push_back(n);
  out.push_back(std::max(device.sms, 1));
  return out;
}

std::string type_of(DType dtype) {
  return dtype == DType::f32 ? "float" : "unsigned short";
}
std::string_view suffix_of(DType dtype) {
  return dtype == DType::f32 ? "f32" : dtype == DType::bf16 ? "bf16" : "f16";
}

std::string policy_text(const CppGrouped& product, const Grouped& grouped, const Genome& genome, bool in_place) {
  const auto& [a, b, out, rows, depth, columns] = product;
  std::string text = "struct Policy {\n";
  text += fmt::format("  static constexpr i64 rows = {}, depth = {}, columns = {}, groups = {};\n", rows, depth,
                      columns, grouped.ends.count);
  text += fmt::format("  static constexpr i64 a_row = {}, a_depth = {}, b_group = {}, b_depth = {}, b_column = {};\n",
                      a.row, a.along, grouped.stride, b.row, b.along);
  text += fmt::format("  static constexpr i64 out_row = {}, end_step = {};\n", out.row, grouped.ends.stride);
  text += fmt::format("  static constexpr bool along_depth = {}, in_place = {};\n", b.row == 1, in_place);
  text += fmt::format("  static constexpr i64 step = {}, panel = {}, block = {};\n", gene(genome, "tile_k", 1024),
                      gene(genome, "tile_n", 64), gene(genome, "tile_m", 128));
  text += fmt::format("  typedef {} A;\n  typedef {} B;\n  typedef {} Out;\n", type_of(a.dtype), type_of(b.dtype),
                      type_of(out.dtype));
  for (const auto& [name, type, dtype] : {std::tuple{"a", "A", a.dtype}, std::tuple{"b", "B", b.dtype}}) {
    text += fmt::format("  FN vf {0}(const {1}* p) {{ return load_{2}(p); }}\n", name, type, suffix_of(dtype));
    text +=
        fmt::format("  FN vf {0}(const {1}* p, int n) {{ return load_{2}(p, n); }}\n", name, type, suffix_of(dtype));
  }
  text += fmt::format("  FN float a_one(const A* p) {{ return one_{}(p); }}\n", suffix_of(a.dtype));
  text += fmt::format("  FN void put(Out* p, vf v) {{ store_{}(p, v); }}\n", suffix_of(out.dtype));
  text += fmt::format("  FN void put(Out* p, vf v, int n) {{ store_{}(p, v, n); }}\n", suffix_of(out.dtype));
  return text + "};\n";
}

}  // namespace

std::string cpp_grouped_lacks(const Kernel& kernel, const Grouped& grouped) {
  const auto product = cpp_grouped_of(kernel, grouped);
  return product ? std::string() : product.error().message;
}

std::vector<Gene> cpp_grouped_genes(const Kernel& kernel, const Grouped& grouped, const Device& device) {
  const CppGrouped product = *cpp_grouped_of(kernel, grouped);
  const auto widths = cpp::widths(device);
  return {{"bits", std::vector<std::int64_t>(widths.rbegin(), widths.rend())},
          {"threads", teams(device)},
          {"tile_n", panels_of(product)},
          {"tile_m", {32, 64, 128, 256}},
          {"tile_k", {256, 512, 1024, 2048, 4096}}};
}

std::string cpp_grouped_illegal(const Kernel& kernel, const Grouped& grouped, const Genome& genome) {
  const CppGrouped product = *cpp_grouped_of(kernel, grouped);
  const std::int64_t panel = gene(genome, "tile_n", 64), step = gene(genome, "tile_k", 1024);
  const auto panels = panels_of(product);
  if (panel > panels.front() && panel / 2 >= product.columns) return "a panel is twice what there is";
  if (step > 256 && step / 2 >= product.depth) return "a step is twice what there is";
  if (const std::int64_t block = gene(genome, "tile_m", 128); block > 32 && block / 2 >= product.rows)
    return "a block is twice what there is";
  return {};
}

std::vector<Genome> cpp_grouped_seeds(const Kernel& kernel, const Grouped& grouped, const Device& device) {
  const auto genes = cpp_grouped_genes(kernel, grouped, device);
  std::vector<Genome> out;
  const auto choices = [&](std::string_view name) { return std::ranges::find(genes, name, &Gene::name)->choices; };
  const auto threads = choices("threads");
  // Sums as short as this stay in the cache beside what they are made of; matrices are read once with blocks this tall.
  for (const std::int64_t panel : {choices("tile_n")[0], choices("tile_n")[1]}) {
    for (const std::int64_t step : {1024, 512, 2048, 256}) {
      for (const std::int64_t block : {128, 64, 32}) {
        for (const std::int64_t count : {threads.back(), std::int64_t{1}}) {
          Genome genome{{"bits", cpp::widths(device)[0]},
                        {"threads", count},
                        {"tile_n", panel},
                        {"tile_m", block},
                        {"tile_k", step}};
          if (cpp_grouped_illegal(kernel, grouped, genome).empty() && std::ranges::find(out, genome) == out.end())
            out.push_back(std::move(genome));
        }
      }
    }
  }
  constexpr std::size_t most = 8;
  if (out.size() > most) out.resize(most);
  return out;
}

Result<Emitted> emit_cpp_grouped(const Kernel& kernel, const Grouped& grouped, const Device&, const Genome& genome) {
  if (const auto why = cpp_grouped_illegal(kernel, grouped, genome); !why.empty()) return fail("illegal_genome", why);
  PLANISH_TRY(const CppGrouped product, cpp_grouped_of(kernel, grouped));
  const int lanes = lanes_of(genome);
  const bool in_place = product.a.dtype == DType::f32 && product.a.along == 1 && product.depth % lanes == 0;
  std::set<std::string, std::less<>> used{"load_f32"};
  for (const DType dtype : {product.a.dtype, product.b.dtype}) used.insert(fmt::format("load_{}", suffix_of(dtype)));
  used.insert(fmt::format("store_{}", suffix_of(product.out.dtype)));
  Emitted out;
  out.language = "cpp";
  out.entry = "k0";
  static constexpr std::array<std::string_view, 1> files{"cpu/grouped_product.h"};
  std::string& text = out.source;
  text = vector_prelude(static_cast<int>(gene(genome, "bits", 128)), lanes, used);
  text +=
      "extern \"C\" int omp_get_thread_num(void);\nextern \"C\" int omp_get_num_threads(void);\nextern \"C\" int "
      "omp_get_max_threads(void);\n";
  text += device_text(files);
  text += policy_text(product, grouped, genome, in_place);
  const DType ends = kernel.inputs[static_cast<std::size_t>(grouped.ends.input)].dtype;
  const std::int64_t threads = gene(genome, "threads", 1);
  text += "extern \"C\" void k0(void** args) {\n";
  text += fmt::format("  const Policy::A* const a = (const Policy::A*)args[0] + {};\n", product.a.begin);
  text += fmt::format("  const Policy::B* const b = (const Policy::B*)args[1] + {};\n", product.b.begin);
  text += fmt::format("  const {0}* const ends = (const {0}*)args[2] + {1};\n", ends == DType::i64 ? "i64" : "int",
                      grouped.ends.first);
  text += fmt::format("  Policy::Out* const out = (Policy::Out*)args[3] + {};\n", product.out.begin);
  text += "  float* const copied = (float*)args[4];\n";
  text += "  float* const kept = copied + GroupedTile<Policy>::copied;\n";
  // Not more threads than whoever calls allows at the time.
  text += fmt::format(
      "  const int allowed = omp_get_max_threads();\n#pragma omp parallel num_threads(allowed < {0} ? allowed : {0})\n",
      threads);
  text += "  {\n    const i64 tid = omp_get_thread_num(), team = omp_get_num_threads();\n";
  if (in_place) {
    text += "    grouped_product<Policy>((const float*)a, b, ends, out, kept, tid, team);\n";
  } else {
    text += "    grouped_copy<Policy>(a, copied, tid, team);\n#pragma omp barrier\n";
    text += "    grouped_product<Policy>(copied, b, ends, out, kept, tid, team);\n";
  }
  text += "  }\n}\n";
  using Kind = Emitted::Argument::Kind;
  out.args = {{Kind::input, product.a.number},
              {Kind::input, product.b.number},
              {Kind::input, grouped.ends.input},
              {Kind::output, 0},
              {Kind::scratch, 0}};
  const std::int64_t pitch = (product.depth + lanes - 1) / lanes * lanes;
  const std::int64_t kept = gene(genome, "tile_m", 128) * gene(genome, "tile_n", 64) * threads;
  out.scratch_bytes = {4 * ((in_place ? 0 : product.rows * pitch) + kept)};
  return out;
}

}  // namespace planish::codegen
