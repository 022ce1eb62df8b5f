#include "codegen/contraction/cuda_contraction.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/pack.h"
#include "codegen/emit/cuda_plan.h"

namespace planish::codegen {
namespace {

using contraction::Element;
using contraction::Operand;
using contraction::Problem;
using contraction::Scheme;
using contraction::TilePlan;

constexpr std::int64_t largest_launch = (std::int64_t{1} << 31) - 1;

/// The 16-bit type whose values a factor has, all of them exactly.
std::optional<DType> narrow_type(const Kernel& kernel, int factor) {
  const Node& node = kernel.nodes[static_cast<std::size_t>(factor)];
  const auto narrow = [](DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; };
  if (node.op == Op::cast && !node.args.empty()) {
    const Node& from = kernel.nodes[static_cast<std::size_t>(node.args[0])];
    const bool rounded = from.op == Op::load || (from.op == Op::cast && from.rounds);
    if (narrow(from.dtype) && rounded) return from.dtype;
  }
  if (narrow(node.dtype) && (node.op == Op::load || (node.op == Op::cast && node.rounds))) return node.dtype;
  return std::nullopt;
}

/// Set where both factors have the same 16-bit type.
std::optional<DType> narrow_type(const Kernel& kernel, const Contraction& c) {
  const auto first = narrow_type(kernel, c.first), second = narrow_type(kernel, c.second);
  return first && first == second ? first : std::nullopt;
}

Problem problem_of(const Kernel& kernel, const Contraction& c) {
  return {c.rows,
          c.columns,
          c.depth,
          c.batches,
          !contraction::is_shared(kernel, c, Operand::a),
          !contraction::is_shared(kernel, c, Operand::b)};
}

TilePlan plan_of(const Kernel& kernel, const Contraction& c, const Genome& genome) {
  const auto value = [&](GeneName name, std::int64_t otherwise) {
    return static_cast<int>(gene(genome, name, otherwise));
  };
  TilePlan plan;
  const auto narrow = narrow_type(kernel, c);
  plan.scheme = narrow ? Scheme::plain : Scheme::split;
  plan.element = narrow == DType::bf16 ? Element::bf16 : Element::f16;
  plan.bm = value("tile_m", 128);
  plan.consumers = plan.bm / 64;
  plan.bn = value("tile_n", 128);
  plan.bk = value("tile_k", 64);
  plan.stages = value("stages", 3);
  plan.promote_k = value("promote", 64);
  plan.raster = value("raster", 8);
  plan.split_k = value("split", 1);
  return plan;
}

std::int64_t scratch_of(const Problem& problem, const TilePlan& plan) {
  return problem.batches * plan.split_k * problem.m * problem.n * 4;
}

}  // namespace

std::string tensor_cores_lack(const Kernel& kernel, const Device& device) {
  if (!schedules_contractions(device)) return "the device has no wgmma";
  if (kernel.anchor != Anchor::contraction) return "not a contraction";
  const auto c = contraction_of(kernel);
  if (!c) return c.error().message;
  if (std::ranges::any_of(kernel.nodes, gathers)) return "places known at run time alone";
  const auto in_f32 = [&](int id) {
    const DType dtype = kernel.nodes[static_cast<std::size_t>(id)].dtype;
    return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  };
  if (!in_f32(c->first) || !in_f32(c->second)) return "factors that are not computed in f32";
  const Status fits = contraction::check(problem_of(kernel, *c), plan_of(kernel, *c, {}), device.shared_bytes);
  return fits ? std::string() : fits.error().message;
}

std::vector<Gene> contraction_genes(const Kernel& kernel, const Device& device) {
  const auto c = contraction_of(kernel);
  if (!c) return {};
  const bool splits = !narrow_type(kernel, *c);
  std::vector<Gene> genes;
  genes.push_back({"tile_m", splits ? std::vector<std::int64_t>{64, 128} : std::vector<std::int64_t>{64, 128, 192}});
  genes.push_back({"tile_n", splits ? std::vector<std::int64_t>{16, 32, 48, 64, 80, 96, 112, 128}
                                    : std::vector<std::int64_t>{16, 32, 64, 96, 128, 160, 192, 224, 256}});
  genes.push_back({"tile_k", {32, 64, 128}});
  genes.push_back({"stages", {2, 3, 4, 5, 6, 7, 8}});
  if (splits) genes.push_back({"promote", {32, 64, 128, 256}});
  genes.push_back({"raster", {1, 2, 4, 8, 16, 32}});
  // More parts than fill the device twice only add traffic.
  std::vector<std::int64_t> parts{1};
  const std::int64_t least_tiles = (c->rows + 127) / 128 * ((c->columns + 127) / 128) * c->batches;
  for (const std::int64_t count : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
    if (count * 256 <= c->depth && least_tiles * count <= 2 * device.sms) parts.push_back(count);
  }
  genes.push_back({"split", parts});
  return genes;
}

std::string contraction_illegal(const Kernel& kernel, const Device& device, const Genome& genome) {
  const auto c = contraction_of(kernel);
  if (!c) return c.error().message;
  const Problem problem = problem_of(kernel, *c);
  const TilePlan plan = plan_of(kernel, *c, genome);
  if (const Status fits = contraction::check(problem, plan, device.shared_bytes); !fits) return fits.error().message;
  const auto extents = contraction::extents_of(problem, plan);
  // Zeros beyond what there is: tiles much larger than the product only multiply those.
  if (plan.bm > 64 && c->rows <= plan.bm / 2) return "tile_m is twice what there is";
  if (plan.bn > 16 && c->columns <= plan.bn / 2) return "tile_n is twice what there is";
  if (c->batches * std::max(extents.rows_a, extents.rows_b) > largest_launch)
    return "too many rows to pack in a launch";
  if (plan.split_k > 1 && c->batches * c->rows * ((c->columns + 1) / 2) / 256 >= largest_launch)
    return "too many results to join";
  return {};
}

std::vector<Genome> contraction_seeds(const Kernel& kernel, const Device& device) {
  const auto c = contraction_of(kernel);
  if (!c) return {};
  const auto genes = contraction_genes(kernel, device);
  const bool splits = !narrow_type(kernel, *c);
  struct Tile {
    std::int64_t m, n, k, stages;
  };
  const std::vector<Tile> tiles =
      splits ? std::vector<Tile>{{128, 128, 64, 3}, {128, 128, 32, 6}, {128, 112, 64, 3}, {128, 96, 64, 3},
                                 {128, 64, 64, 4},  {64, 128, 64, 4},  {64, 64, 64, 6},   {128, 32, 64, 5},
                                 {64, 32, 64, 8},   {64, 16, 64, 8}}
             : std::vector<Tile>{{128, 256, 64, 4}, {192, 192, 64, 4}, {128, 192, 64, 5},
                                 {128, 128, 64, 6}, {64, 256, 64, 5},  {64, 128, 64, 8},
                                 {64, 64, 64, 8},   {64, 32, 64, 8},   {64, 16, 64, 8}};
  std::vector<std::pair<double, Genome>> ranked;
  for (const Tile& tile : tiles) {
    for (const std::int64_t split : genes.back().choices) {
      Genome genome{{"tile_m", tile.m},      {"tile_n", tile.n}, {"tile_k", tile.k},
                    {"stages", tile.stages}, {"raster", 8},      {"split", split}};
      if (splits) genome["promote"] = 64;
      if (!contraction_illegal(kernel, device, genome).empty()) continue;
      // Work of the busiest multiprocessor: its tiles, each as long as tensor cores or shared memory take, whichever is
      // longer.
      const TilePlan plan = plan_of(kernel, *c, genome);
      const auto e = contraction::extents_of(problem_of(kernel, *c), plan);
      const double turns = static_cast<double>((e.tiles + device.sms - 1) / device.sms);
      const auto m = static_cast<double>(tile.m), n = static_cast<double>(tile.n);
      const double products = splits ? 3 : 1, operands = splits ? 2 : 1;
      const double stages = static_cast<double>(e.depth) / static_cast<double>(tile.k * split);
      const double math = products * m * n * static_cast<double>(tile.k) / 2048;
      const double moved =
          operands * (m + n) * static_cast<double>(tile.k) * 2 / 40;  // bytes a clock from the L2 cache
      const double write = (split > 1 ? 3 : 1) * m * n * 4 / 20;
      ranked.emplace_back(turns * (stages * std::max(math, moved) + write + 2000) + (split > 1 ? 6000 : 0), genome);
    }
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& each) { return each.first; });
  std::vector<Genome> out;
  for (auto& [cost, genome] : ranked) {
    if (out.size() < 12) out.push_back(std::move(genome));
  }
  return out;
}

Result<Emitted> emit_contraction(const Kernel& kernel, const Device& device, const Genome& genome) {
  PLANISH_TRY(const Contraction c, contraction_of(kernel));
  if (const auto why = contraction_illegal(kernel, device, genome); !why.empty()) return fail("illegal_genome", why);
  const Problem problem = problem_of(kernel, c);
  const TilePlan plan = plan_of(kernel, c, genome);
  const auto extents = contraction::extents_of(problem, plan);
  const bool splits = plan.scheme == Scheme::split;
  using Argument = Emitted::Argument;

  std::vector<std::int64_t> scratch;
  std::vector<Argument> operands, exponents;
  std::vector<Emitted> launches;
  for (const Operand operand : {Operand::a, Operand::b}) {
    const auto packing = contraction::print_packing(
        kernel, c, operand, plan, operand == Operand::a ? extents.rows_a : extents.rows_b, extents.depth);
    Emitted launch;
    launch.source = packing.source;
    launch.grid[0] = packing.blocks;
    launch.block[0] = packing.threads;
    launch.cluster[0] = packing.cluster;
    for (const int input : packing.inputs) launch.args.push_back({Argument::Kind::input, input});
    const auto add = [&](std::int64_t bytes, std::vector<Argument>& readers) {
      const Argument place{Argument::Kind::scratch, static_cast<int>(scratch.size())};
      scratch.push_back(bytes);
      launch.args.push_back(place);
      readers.push_back(place);
    };
    for (int part = 0; part < contraction::parts(plan); ++part) add(packing.part_bytes, operands);
    if (splits) add(packing.exponents * 4, exponents);
    launches.push_back(std::move(launch));
  }

  const auto epilogue = contraction::print_epilogue(kernel, c);
  std::vector<Argument> ends;
  for (const int input : epilogue.inputs) ends.push_back({Argument::Kind::input, input});
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) ends.push_back({Argument::Kind::output, static_cast<int>(o)});
  const bool joined = plan.split_k > 1;
  contraction::Attachment attachment;
  if (joined) {
    attachment = contraction::plain_store(problem);
  } else {
    attachment.scaled = splits;
    attachment.prelude = std::string(printing::prelude(true)) + epilogue.text;
    attachment.parameters =
        (splits ? "const int* __restrict__ ea, const int* __restrict__ eb, " : "") + epilogue.parameters;
    attachment.arguments = epilogue.arguments;
  }
  PLANISH_TRY(const contraction::MainLoop loop,
              contraction::print_main_loop(problem, plan, attachment, device.sms, device.shared_bytes));
  Emitted main;
  main.source = loop.source;
  main.grid[0] = loop.blocks;
  main.block[0] = loop.threads;
  main.shared = loop.shared_bytes;
  main.args = operands;
  if (joined) {
    const Argument parts{Argument::Kind::scratch, static_cast<int>(scratch.size())};
    scratch.push_back(scratch_of(problem, plan));
    main.args.push_back(parts);
    launches.push_back(std::move(main));
    const auto joining = contraction::print_joining(problem, plan, epilogue);
    Emitted join;
    join.source = joining.source;
    join.grid[0] = joining.blocks;
    join.block[0] = joining.threads;
    join.args = {parts};
    join.args.insert(join.args.end(), exponents.begin(), exponents.end());
    join.args.insert(join.args.end(), ends.begin(), ends.end());
    launches.push_back(std::move(join));
  } else {
    main.args.insert(main.args.end(), exponents.begin(), exponents.end());
    main.args.insert(main.args.end(), ends.begin(), ends.end());
    launches.push_back(std::move(main));
  }

  for (Emitted& launch : launches) {
    launch.language = "cuda";
    launch.entry = "planish_kernel";
  }
  Emitted whole = std::move(launches.front());
  whole.after.assign(std::make_move_iterator(launches.begin() + 1), std::make_move_iterator(launches.end()));
  whole.scratch_bytes = std::move(scratch);
  return whole;
}

}  // namespace planish::codegen
