#include "codegen/contraction/cuda_contraction.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/mend.h"
#include "codegen/contraction/pack.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/pooled_epilogue.h"
#include "codegen/emit/cuda_plan.h"

namespace planish::codegen {
namespace {

using contraction::Carrier;
using contraction::Element;
using contraction::Operand;
using contraction::Problem;
using contraction::Product;
using contraction::Scheme;
using contraction::Sliding;
using contraction::TilePlan;

constexpr std::int64_t largest_launch = (std::int64_t{1} << 31) - 1;

TilePlan plan_of(const Product& product, const Genome& genome, const Device& device) {
  const auto value = [&](GeneName name, std::int64_t otherwise) {
    return static_cast<int>(gene(genome, name, otherwise));
  };
  TilePlan plan;
  const auto narrow = contraction::narrow_type(product.kernel, product.c);
  plan.scheme = narrow ? Scheme::plain : value("passes", 3) == 1 ? Scheme::single : Scheme::split;
  plan.element = narrow == DType::bf16 ? Element::bf16 : Element::f16;
  plan.bm = value("tile_m", 128);
  plan.turns = value("pingpong", 0);
  plan.consumers = plan.turns != 0 ? 2 : plan.bm / 64;
  plan.bn = value("tile_n", 128);
  plan.bk = value("tile_k", 64);
  plan.stages = value("stages", 3);
  plan.promote_k = value("promote", 64);
  plan.raster = value("raster", 8);
  plan.split_k = value("split", 1);
  plan.blocks = value("min_blocks", 1);
  plan.maps = value("direct", 0) == 2 ? 1 : 0;
  if (value("direct", 0) != 0) {
    // A factor whose tile does not come in whole rows of 128 bytes is packed, whatever becomes of the other one.
    if (product.direct_a && contraction::fits(product.direct_a->carrier, plan.bm))
      plan.carrier_a = product.direct_a->carrier;
    if (product.direct_b && contraction::fits(product.direct_b->carrier, plan.bn))
      plan.carrier_b = product.direct_b->carrier;
  }
  return contraction::with_exchange(product.problem, contraction::with_strips(product.problem, plan),
                                    device.shared_bytes);
}

/// The same with all factors packed.
Genome packed(Genome genome) {
  genome["direct"] = 0;
  return genome;
}

/// Whether tensor maps can bring the factors that are not packed.
bool has_boxes(const Product& product) {
  return std::ranges::all_of(std::array{Operand::a, Operand::b}, [&](Operand operand) {
    const auto& direct = product.direct(operand);
    return !direct || contraction::is_box(product.c, operand, *direct);
  });
}

/// The first `count` and those behind them, one of each in turn.
std::vector<Genome> in_turn(const std::vector<Genome>& all, std::size_t count) {
  std::vector<Genome> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i < count) out.push_back(all[i]);
    if (count + i < all.size()) out.push_back(all[count + i]);
  }
  return out;
}

std::int64_t scratch_of(const Problem& problem, const TilePlan& plan) {
  return problem.batches * plan.split_k * problem.m * problem.n * 4;
}

}  // namespace

std::string tensor_cores_lack(const Kernel& kernel, const Device& device) {
  if (!schedules_contractions(device)) return "the device has no wgmma";
  if (kernel.anchor != Anchor::contraction) return "not a contraction";
  const auto product = contraction::product_of(kernel);
  if (!product) return product.error().message;
  if (const Status able = contraction::computable(*product); !able) return able.error().message;
  const Genome smallest{
      {"tile_m", 64}, {"tile_n", contraction::least_columns(product->problem)}, {"tile_k", 32}, {"stages", 2}};
  const Status fits = contraction::check(product->problem, plan_of(*product, smallest, device), device.shared_bytes);
  return fits ? std::string() : fits.error().message;
}

std::vector<Gene> contraction_genes(const Product& product, const Device& device) {
  const Problem& problem = product.problem;
  const bool fp32 = !contraction::narrow_type(product.kernel, product.c);
  // Where PyTorch itself may round fp32 factors to ten bits, as convolutions do unless told otherwise, one product of
  // rounded factors may be as good: the gate says.
  const bool rounds = fp32 && product.sliding;
  const bool wide = !fp32 || rounds;
  std::vector<Gene> genes;
  genes.push_back({"tile_m", wide ? std::vector<std::int64_t>{64, 128, 192} : std::vector<std::int64_t>{64, 128}});
  genes.push_back({"tile_n", wide ? std::vector<std::int64_t>{16, 32, 64, 96, 128, 160, 192, 224, 256}
                                  : std::vector<std::int64_t>{16, 32, 48, 64, 80, 96, 112, 128}});
  genes.push_back({"tile_k", {32, 64, 128}});
  genes.push_back({"stages", {2, 3, 4, 5, 6, 7, 8}});
  if (rounds) genes.push_back({"passes", {3, 1}});
  if (fp32) genes.push_back({"promote", {32, 64, 128, 256}});
  genes.push_back({"raster", {1, 2, 4, 8, 16, 32}});
  genes.push_back({"min_blocks", {1, 2, 3, 4}});
  genes.push_back({"pingpong", {0, 1}});
  if (product.direct_a || product.direct_b)
    genes.push_back(
        {"direct", !fp32 && has_boxes(product) ? std::vector<std::int64_t>{0, 1, 2} : std::vector<std::int64_t>{0, 1}});
  if (contraction::has_fast_forms(product.kernel)) genes.push_back({"fast", {0, 1}});
  // More parts than fill the device twice only add traffic.
  std::vector<std::int64_t> parts{1};
  const std::int64_t least_tiles = (problem.m + 127) / 128 * ((problem.n + 127) / 128) * problem.batches;
  for (const std::int64_t count : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
    if (!product.pool && count * 256 <= problem.k && least_tiles * count <= 2 * device.sms) parts.push_back(count);
  }
  genes.push_back({"split", parts});
  return genes;
}

std::string contraction_illegal(const Product& product, const Device& device, const Genome& genome) {
  const Problem& problem = product.problem;
  const TilePlan plan = plan_of(product, genome, device);
  if (const Status fits = contraction::check(problem, plan, device.shared_bytes); !fits) return fits.error().message;
  if (plan.scheme == Scheme::single && gene(genome, "promote", 64) != 64) return "nothing is promoted";
  const auto extents = contraction::extents_of(problem, plan);
  // Zeros beyond what there is: tiles much larger than the product only multiply those.
  if (plan.bm > 64 && problem.m <= plan.bm / 2) return "tile_m is twice what there is";
  if (plan.bn > 16 && problem.n <= plan.bn / 2) return "tile_n is twice what there is";
  if (gene(genome, "direct", 0) != 0 && !contraction::reads(plan)) return "no factor can be read where it lies so";
  if (contraction::converts(plan)) {  // rows that have to be scaled are packed after all
    if (auto why = contraction_illegal(product, device, packed(genome)); !why.empty()) return why;
  }
  for (const Operand operand : {Operand::a, Operand::b}) {
    const std::int64_t rows = operand == Operand::a ? extents.rows_a : extents.rows_b;
    if (contraction::carrier(plan, operand) == Carrier::packed && problem.batches * rows > largest_launch)
      return "too many rows to pack in a launch";
  }
  if (plan.split_k > 1 && problem.batches * problem.m * problem.n / contraction::joining_threads >= largest_launch)
    return "too many results to join";
  return {};
}

std::vector<Genome> contraction_seeds(const Product& product, const Device& device) {
  const auto genes = contraction_genes(product, device);
  const bool fp32 = !contraction::narrow_type(product.kernel, product.c),
             rounds = find_gene(genes, "passes") != nullptr, reads = find_gene(genes, "direct") != nullptr,
             approximates = find_gene(genes, "fast") != nullptr;
  struct Tile {
    std::int64_t m, n, k, stages, blocks = 1, pingpong = 0;
  };
  const std::vector<Tile> split_tiles{{128, 128, 64, 3}, {128, 128, 32, 6}, {128, 112, 64, 3},   {128, 96, 64, 3},
                                      {128, 64, 64, 4},  {64, 128, 64, 4},  {64, 64, 64, 6},     {128, 32, 64, 5},
                                      {64, 32, 64, 8},   {64, 16, 64, 8},   {64, 128, 64, 2, 2}, {64, 128, 32, 4, 2},
                                      {64, 64, 64, 3, 2}};
  // Of factors that are split on their way: a thread has registers for so many chunks.
  const std::vector<Tile> own_tiles{{128, 64, 64, 4}, {64, 128, 64, 4}, {128, 80, 64, 3}, {64, 64, 64, 6},
                                    {128, 32, 64, 5}, {64, 32, 64, 8},  {64, 16, 64, 8},  {64, 32, 64, 4, 2}};
  const std::vector<Tile> tiles{
      {128, 256, 64, 4},      {192, 192, 64, 4},      {128, 192, 64, 5},      {128, 128, 64, 6},    {64, 256, 64, 5},
      {64, 128, 64, 8},       {64, 64, 64, 8},        {64, 32, 64, 8},        {64, 16, 64, 8},      {64, 128, 64, 4, 2},
      {64, 256, 64, 5, 1, 1}, {64, 192, 64, 5, 1, 1}, {64, 128, 64, 8, 1, 1}, {64, 64, 64, 8, 1, 1}};
  // Where rows slide, stages are as many as fit.
  const std::vector<Tile> sliding_tiles{{128, 256, 64, 8},      {128, 192, 64, 8},      {128, 128, 64, 8},
                                        {64, 256, 64, 8},       {64, 128, 64, 8},       {64, 64, 64, 8},
                                        {64, 32, 64, 8},        {64, 128, 64, 8, 2},    {64, 256, 64, 8, 1, 1},
                                        {64, 192, 64, 8, 1, 1}, {64, 128, 64, 8, 1, 1}, {64, 64, 64, 8, 1, 1}};
  const std::vector<Tile> sliding_split_tiles{{128, 128, 64, 8},      {128, 96, 64, 8},     {64, 128, 64, 8},
                                              {64, 64, 64, 8},        {64, 32, 64, 8},      {64, 128, 64, 8, 2},
                                              {64, 128, 32, 8, 2},    {64, 64, 64, 8, 2},   {64, 128, 64, 8, 1, 1},
                                              {64, 128, 32, 8, 1, 1}, {64, 96, 64, 8, 1, 1}};
  const auto ranked = [&](const std::vector<Tile>& choices, std::int64_t passes, std::int64_t direct) {
    std::vector<std::pair<double, Genome>> found;
    for (const Tile& tile : choices) {
      for (const std::int64_t split : genes.back().choices) {
        Genome genome{{"tile_m", tile.m}, {"tile_n", tile.n}, {"tile_k", tile.k},          {"stages", tile.stages},
                      {"raster", 8},      {"split", split},   {"min_blocks", tile.blocks}, {"pingpong", tile.pingpong}};
        if (fp32) genome["promote"] = 64;
        if (rounds) genome["passes"] = passes;
        if (reads) genome["direct"] = direct;
        if (approximates) genome["fast"] = 1;
        const auto crowded = [&] {
          return !contraction_illegal(product, device, genome).empty() ||
                 (genome["stages"] > 4 && plan_of(product, genome, device).exchange < tile.n);
        };
        while (rounds && genome["stages"] > 2 && crowded()) --genome["stages"];
        if (!contraction_illegal(product, device, genome).empty()) continue;
        // Work of the busiest multiprocessor: its tiles, each as long as tensor cores or shared memory take, whichever
        // is longer.
        const TilePlan plan = plan_of(product, genome, device);
        const auto e = contraction::extents_of(product.problem, plan);
        const double turns = static_cast<double>((e.tiles + device.sms - 1) / device.sms);
        const auto m = static_cast<double>(tile.m), n = static_cast<double>(tile.n);
        const double stages = static_cast<double>(e.depth) / static_cast<double>(plan.bk * split);
        const double math = static_cast<double>(passes) * m * n * plan.bk / 2048;
        const int bytes = contraction::brings(plan) ? contraction::stage_bytes(product.problem, plan)
                                                    : contraction::copied_bytes(product.problem, plan);
        const double moved = bytes / 40.0;  // bytes a clock from the L2 cache
        // What is packed is read and written before, at 17 bytes a clock; a warpgroup splits some 16 elements a clock.
        const bool splits = contraction::converts(plan);
        const double before = fp32 && reads && !splits
                                  ? 8.0 *
                                            static_cast<double>((product.problem.m + product.problem.n) *
                                                                product.problem.k * product.problem.batches) /
                                            (17.0 * static_cast<double>(device.sms)) +
                                        6000
                                  : 0;
        const double split_on_the_way = splits ? (m + n) * plan.bk / 16 : 0;
        const double sum =
            stages * std::max({math, splits ? (m + n) * plan.bk * 4 / 30 : moved, split_on_the_way}) + 1000;
        const double write = (split > 1 ? 3 : 1) * m * n * 4 / 20 + 1000;
        // One block, or one consumer, stores while another multiplies.
        const bool overlaps = tile.blocks > 1 || tile.pingpong != 0;
        const double each = overlaps ? std::max(sum, write) + 500 : sum + write;
        found.emplace_back(before + turns * each + (overlaps ? std::min(sum, write) : 0) + (split > 1 ? 6000 : 0),
                           genome);
      }
    }
    std::ranges::stable_sort(found, {}, [](const auto& each) { return each.first; });
    return found;
  };
  std::vector<Genome> out;
  const auto take = [&](const std::vector<Tile>& choices, std::int64_t passes, std::size_t most,
                        std::int64_t direct = 0) {
    for (auto& [cost, genome] : ranked(choices, passes, direct)) {
      if (most-- > 0)
        out.push_back(std::move(genome));
      else
        break;
    }
  };
  if (reads && !fp32 && has_boxes(product)) take(tiles, 1, 8, 2);
  const std::size_t boxes = out.size();
  if (reads && !fp32) take(tiles, 1, boxes > 0 ? 2 : 6, 1);
  const std::size_t own = out.size();
  if (!fp32) take(tiles, 1, reads ? own - boxes : 12);
  // A warpgroup's own copies beat packing where sums are short, and lose where they are long: one of each in turn.
  if (boxes == 0) out = in_turn(out, own);
  if (rounds) take(sliding_tiles, 1, 6);
  const std::size_t precise = out.size();
  if (fp32 && !reads) take(rounds ? sliding_split_tiles : split_tiles, 3, rounds ? 6 : 12);
  if (fp32 && reads) {
    auto both = ranked(split_tiles, 3, 0);
    std::ranges::move(ranked(own_tiles, 3, 1), std::back_inserter(both));
    std::ranges::stable_sort(both, {}, [](const auto& each) { return each.first; });
    // The best of all, and some of each: what either takes is a guess.
    constexpr int most = 10, of_each = 4;
    std::array<int, 2> taken{};
    for (auto& [cost, genome] : both) {
      int& same = taken.at(genome["direct"] != 0 ? 1 : 0);
      if (taken[0] + taken[1] >= most && same >= of_each) continue;
      ++same;
      out.push_back(std::move(genome));
    }
  }
  // One of each first: where single products are wrong, that is known before all of them were tried.
  if (precise > 1 && out.size() > precise)
    std::rotate(out.begin() + 1, out.begin() + static_cast<std::ptrdiff_t>(precise),
                out.begin() + static_cast<std::ptrdiff_t>(precise) + 1);
  // Where approximations are not good enough, that is known soon.
  for (std::size_t i = 0; approximates && i < 2 && 2 * i < out.size(); ++i) {
    Genome exact = out[2 * i];
    exact["fast"] = 0;
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(2 * i) + 1, std::move(exact));
  }
  return out;
}

namespace {

/// The launches of one contraction, one after the other, and the scratch memory through which they hand values on.
class ContractionLaunches {
 public:
  ContractionLaunches(const Product& product, const Device& device, const Genome& genome)
      : product_(product),
        device_(device),
        kernel_(product.kernel),
        problem_(product.problem),
        sliding_(product.sliding ? &*product.sliding : nullptr),
        plan_(plan_of(product, genome, device)),
        extents_(contraction::extents_of(problem_, plan_)),
        genome_(genome),
        scaled_(contraction::scales(plan_)),
        fast_(gene(genome, "fast", 0) != 0),
        idle_(contraction::wasted(product)) {}

  Result<Emitted> emit() {
    pack_rows();
    if (sliding_ != nullptr) pack_slides();
    PLANISH_CHECK(multiply());
    if (idle_) mend();
    if (contraction::converts(plan_)) PLANISH_CHECK(again());
    return joined_up();
  }

 private:
  using Argument = Emitted::Argument;
  /// A factor as main loops read it.
  struct Packed {
    std::vector<Argument> parts;
    Argument exponents;
  };

  Argument place(std::int64_t bytes) {
    scratch_.push_back(bytes);
    return {Argument::Kind::scratch, static_cast<int>(scratch_.size()) - 1};
  }

  /// Its arguments, of which the inputs are there: valid until the next launch.
  std::vector<Argument>& launch(const contraction::Packing& packing) {
    Emitted& one = launches_.emplace_back();
    one.source = packing.source;
    one.grid[0] = packing.blocks;
    one.block[0] = packing.threads;
    one.cluster[0] = packing.cluster;
    for (const int input : packing.inputs) one.args.push_back({Argument::Kind::input, input});
    return one.args;
  }

  void add_outputs(std::vector<Argument>& args) const {
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
      args.push_back({Argument::Kind::output, static_cast<int>(o)});
  }

  /// Memory for what a packing makes of an operand.
  void store(Operand operand, const contraction::Packing& packing, std::vector<Argument>& args) {
    for (int part = 0; part < contraction::parts(plan_); ++part) {
      packed_[operand].parts.push_back(place(packing.part_bytes));
      args.push_back(packed_[operand].parts.back());
    }
  }

  /// Whether main loops read the factor where it lies.
  bool is_direct(Operand operand) const { return contraction::carrier(plan_, operand) != Carrier::packed; }

  /// Factors that do not slide. An image's largest magnitude is noted, and behind these whether it has elements that
  /// must not be multiplied with zero: the factor packed first clears what is noted of the other one.
  void pack_rows() {
    const std::int64_t noted = ((sliding_ != nullptr ? 1 : 0) + (idle_ ? 1 : 0)) * contraction::noted_images(product_);
    for (const Operand operand : {Operand::a, Operand::b}) {
      if (problem_.slides(operand)) continue;
      if (is_direct(operand)) {
        packed_[operand].parts.push_back({Argument::Kind::input, product_.direct(operand)->input});
        continue;
      }
      const bool clears = launches_.empty();
      const contraction::Notes does{.cleared = clears ? noted : 0, .odd = operand == idle_};
      const auto packing = contraction::print_packing(
          kernel_, product_.c, operand, plan_, operand == Operand::a ? extents_.rows_a : extents_.rows_b,
          extents_.depth, sliding_, problem_.columns ? &*problem_.columns : nullptr, does);
      auto& args = launch(packing);
      store(operand, packing, args);
      if (!scaled_) continue;
      args.push_back(packed_[operand].exponents = place(packing.exponents * 4));
      if (!packing.notes) continue;
      if (clears) notes_ = place(noted * 4);
      args.push_back(notes_);
    }
  }

  /// The factor that does: what the other packing cleared is noted by the first launch, and read by the second.
  void pack_slides() {
    const auto packings =
        contraction::print_slide_packings(kernel_, product_.c, *sliding_, *problem_.columns, plan_, idle_.has_value());
    auto& first = launch(packings.front());
    store(sliding_->operand, packings.front(), first);
    if (!scaled_) return;
    first.push_back(notes_);
    Packed& mine = packed_[sliding_->operand];
    auto& again = launch(packings.back());
    again.insert(again.end(), mine.parts.begin(), mine.parts.end());
    again.push_back(notes_);
    again.push_back(mine.exponents = place(packings.back().exponents * 4));
  }

  /// The main loop, and where k is split the kernel that joins its parts: whichever is last has the epilogue.
  Status multiply() {
    const auto epilogue = product_.pool ? contraction::print_pooled_epilogue(product_, plan_, fast_)
                                        : contraction::print_epilogue(kernel_, product_.c, sliding_, fast_);
    const bool joined = plan_.split_k > 1;
    PLANISH_TRY(
        const contraction::MainLoop loop,
        contraction::print_main_loop(problem_, plan_, joined ? contraction::plain_store(problem_) : end(epilogue),
                                     device_.sms, device_.shared_bytes, places()));
    Emitted main;
    main.source = loop.source;
    main.grid[0] = loop.blocks;
    main.block[0] = loop.threads;
    main.shared = loop.shared_bytes;
    for (const auto& [operand, each] : packed_) main.args.insert(main.args.end(), each.parts.begin(), each.parts.end());
    const auto add_maps = [&] {
      if (plan_.maps != 0) main.args.push_back(place(loop.blocks * contraction::map_bytes));
      if (!contraction::converts(plan_)) return;
      blocks_ = loop.blocks;
      main.args.push_back(doubts_ = place(loop.blocks * 4));
    };
    if (!joined) {
      add_ends(epilogue, main.args);
      add_maps();
      launches_.push_back(std::move(main));
      return {};
    }
    const Argument parts = place(scratch_of(problem_, plan_));
    main.args.push_back(parts);
    add_maps();
    launches_.push_back(std::move(main));
    const auto joining = contraction::print_joining(problem_, plan_, epilogue);
    Emitted& join = launches_.emplace_back();
    join.source = joining.source;
    join.grid[0] = joining.blocks;
    join.block[0] = joining.threads;
    join.args = {parts};
    add_ends(epilogue, join.args);
    return {};
  }

  std::string places() const {
    // What splits fp32 calls functions that come with an epilogue, where there is one.
    std::string text = contraction::converts(plan_) && plan_.split_k > 1 ? contraction::place_prelude() : std::string();
    for (const Operand operand : {Operand::a, Operand::b}) {
      if (!is_direct(operand)) continue;
      const auto& direct = *product_.direct(operand);
      text += plan_.maps != 0 ? contraction::print_boxes(kernel_, product_.c, plan_, operand, direct)
                              : contraction::print_places(kernel_, product_.c, operand, direct);
    }
    return text;
  }

  contraction::Attachment end(const contraction::Epilogue& epilogue) const {
    contraction::Attachment out;
    out.scaled = scaled_;
    out.prelude = contraction::place_prelude() + epilogue.text;
    out.parameters = (scaled_ ? "const int* __restrict__ ea, const int* __restrict__ eb, " : "") + epilogue.parameters;
    out.arguments = epilogue.arguments;
    return out;
  }

  /// What the kernel with the epilogue is given behind the sums' operands.
  void add_ends(const contraction::Epilogue& epilogue, std::vector<Argument>& args) const {
    for (const auto& [operand, each] : packed_) {
      if (scaled_) args.push_back(each.exponents);
    }
    for (const int input : epilogue.inputs) args.push_back({Argument::Kind::input, input});
    add_outputs(args);
  }

  /// Results that zeros times something infinite have spoiled.
  void mend() {
    auto& args = launch(contraction::print_mending(product_, device_.sms));
    add_outputs(args);
    args.push_back(notes_);
  }

  /// The same product of packed factors, whose launches end at once unless some block met a row that has to be scaled.
  Status again() {
    ContractionLaunches other(product_, device_, packed(genome_));
    other.scratch_ = std::move(scratch_);
    other.pack_rows();
    PLANISH_CHECK(other.multiply());
    for (Emitted& one : other.launches_) {
      one.source = contraction::only_if_any(std::move(one.source), "doubts", blocks_);
      one.args.insert(one.args.begin(), doubts_);
      launches_.push_back(std::move(one));
    }
    scratch_ = std::move(other.scratch_);
    return {};
  }

  /// The launches as one: the first, and those after it.
  Emitted joined_up() {
    for (Emitted& one : launches_) {
      one.language = "cuda";
      one.entry = "planish_kernel";
    }
    Emitted whole = std::move(launches_.front());
    whole.after.assign(std::make_move_iterator(launches_.begin() + 1), std::make_move_iterator(launches_.end()));
    whole.scratch_bytes = std::move(scratch_);
    return whole;
  }

  const Product& product_;
  const Device& device_;
  const Kernel& kernel_;
  const Problem& problem_;
  const Sliding* const sliding_;
  const TilePlan plan_;
  const contraction::Extents extents_;
  const Genome genome_;
  const bool scaled_;
  const bool fast_;                    ///< approximations in the epilogue
  const std::optional<Operand> idle_;  ///< the factor that zeros are multiplied with (see contraction::wasted())
  std::vector<std::int64_t> scratch_;
  std::vector<Emitted> launches_;
  std::map<Operand, Packed> packed_;
  Argument notes_;
  Argument doubts_;          ///< of each block of a kernel that splits its factors on their way
  std::int64_t blocks_ = 0;  ///< of that kernel
};

}  // namespace

Result<Emitted> emit_contraction(const Product& product, const Device& device, const Genome& genome) {
  if (const auto why = contraction_illegal(product, device, genome); !why.empty()) return fail("illegal_genome", why);
  return ContractionLaunches(product, device, genome).emit();
}

}  // namespace planish::codegen
