#include "codegen/contraction/cuda_contraction.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/cross_tile_epilogue.h"
#include "codegen/contraction/device_product.h"
#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/folded_epilogue.h"
#include "codegen/contraction/genome_plan.h"
#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/nonfinite_fix_up.h"
#include "codegen/contraction/pack.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/pooled_epilogue.h"
#include "codegen/contraction/strip_reader.h"
#include "codegen/emit/cuda_plan.h"

namespace planish::codegen {
namespace {

using contraction::Element;
using contraction::ImplicitOperand;
using contraction::LoadMode;
using contraction::Operand;
using contraction::Problem;
using contraction::Product;
using contraction::Scheme;
using contraction::TilePlan;

constexpr std::int64_t few_rows = 8;  ///< rows, beside so many times as many columns
constexpr std::int64_t largest_launch = (std::int64_t{1} << 31) - 1;

std::int64_t scratch_of(const Problem& problem, const TilePlan& plan) {
  return problem.batches * plan.split_k * problem.m * problem.n * 4;
}

}  // namespace

std::string tensor_cores_lack(const Kernel& kernel, const Device& device) {
  if (tensor_cores(device) != TensorCores::warpgroups) return "the device has no wgmma";
  if (kernel.anchor != Anchor::contraction) return "not a contraction";
  const auto product = contraction::product_of(kernel);
  if (!product) return product.error().message;
  if (const Status able = contraction::computable(*product); !able) return able.error().message;
  Genome smallest{
      {"tile_m", 64}, {"tile_n", contraction::least_columns(product->problem)}, {"tile_k", 32}, {"stages", 2}};
  const auto fits = [&] {
    return contraction::check(product->problem, plan_of(*product, smallest, device), device.shared_bytes);
  };
  const Status three = fits();
  if (three) return {};
  if (may_round(product->kernel)) {  // one product has half of the accumulators
    smallest["passes"] = 1;
    if (fits()) return {};
  }
  return three.error().message;
}

namespace {

/// Choices of the gene `direct`.
std::vector<std::int64_t> direct_ways(const Product& product) {
  std::vector<std::int64_t> ways{0};
  if (product.implicit) {
    if (can_read_strips(product)) ways.push_back(1);
    if (product.boxed && !product.boxed->gaps) ways.push_back(contraction::by_maps);
    if (contraction::warpgroup_way(product) != nullptr) ways.push_back(contraction::by_file);
    return ways;
  }
  if (contraction::narrow_type(product.kernel, product.c)) {
    if (product.direct_a || product.direct_b) {
      ways.push_back(1);
      if (contraction::has_boxes(product) || (product.boxed && !product.boxed->gaps))
        ways.push_back(contraction::by_maps);
    }
    if (contraction::warpgroup_way(product) != nullptr) ways.push_back(contraction::by_file);
    return ways;
  }
  if (contraction::warpgroup_way(product) != nullptr) ways.push_back(contraction::by_file);
  if (product.direct_a && product.direct_b) ways.push_back(1);
  if (can_split_in_registers(product) || (product.swapped && can_split_in_registers(*product.swapped)))
    ways.push_back(3);
  return ways;
}

/// What a genome that swaps operands is, where they are swapped.
Genome as_swapped(Genome genome) {
  genome.erase("swap_operands");
  return genome;
}

/// Whether the genome is of another of the product's ways.
bool is_elsewhere(const Product& product, const Genome& genome) {
  return &way_of(product, genome) != &product;
}

}  // namespace

std::vector<Gene> contraction_genes(const Product& product, const Device& device) {
  const Problem& problem = product.problem;
  const bool fp32 = !contraction::narrow_type(product.kernel, product.c);
  const bool rounds = fp32 && may_round(product.kernel);
  const bool wide = !fp32 || rounds, file = contraction::warpgroup_way(product) != nullptr;
  std::vector<Gene> genes;
  genes.push_back({"tile_m", {64, 128}});
  if (wide) genes.back().choices.push_back(192);
  if (file) genes.back().choices.push_back(256);
  genes.push_back({"tile_n", contraction::tile_widths(problem, wide)});
  genes.push_back({"tile_k", {32, 64, 128}});
  genes.push_back({"stages", {2, 3, 4, 5, 6, 7, 8}});
  if (rounds) genes.push_back({"passes", {3, 1}});
  if (fp32) genes.push_back({"promote", {32, 64, 128, 256}});
  genes.push_back({"raster", {1, 2, 4, 8, 16, 32}});
  genes.push_back({"min_blocks", {1, 2, 3, 4}});
  genes.push_back({"pingpong", {0, 1, 2, 3}});
  if (auto ways = direct_ways(product); ways.size() > 1) genes.push_back({"direct", std::move(ways)});
  if (product.swapped) genes.push_back({"swap_operands", {0, 1}});
  // The one tile of all columns, or a few rows of tiles, each for all of some blocks' tiles.
  std::vector<std::int64_t> stationary{0};
  if (problem.n <= 256 && problem.batches == 1 && !problem.is_implicit(Operand::b)) stationary.push_back(1);
  if (problem.m <= 1024 && problem.n >= few_rows * problem.m && problem.batches == 1 &&
      !problem.is_implicit(Operand::a))
    stationary.push_back(2);
  if (stationary.size() > 1) genes.push_back({"stationary", std::move(stationary)});
  if (contraction::has_fast_forms(product.kernel)) genes.push_back({"fast", {0, 1}});
  const bool many = contraction::result_bytes(product.kernel) > 0.5 * static_cast<double>(device.l2_bytes);
  if (!product.pool) {
    if (many) genes.push_back({"hints", {0, 2}});
    if (contraction::can_interleave(product.kernel, product.c, product.implicit ? &*product.implicit : nullptr))
      genes.push_back({"weave", {0, 1}});
  }
  const int shared = std::max(product.overlap[0], product.overlap[1]);
  if (many && shared > 0 && shared <= contraction::most_overlap(256)) genes.push_back({"overlap", {0, 1}});
  // More parts than fill the device twice only add traffic.
  std::vector<std::int64_t> parts{1};
  const std::int64_t least_tiles = (problem.m + 127) / 128 * ((problem.n + 127) / 128) * problem.batches;
  for (const std::int64_t count : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
    if (!product.pool && !product.cross_tile && count * 256 <= problem.k && least_tiles * count <= 2 * device.sms)
      parts.push_back(count);
  }
  if (file) genes.push_back({"multicast", {0, 1, 2}});
  genes.push_back({"split", parts});
  return genes;
}

namespace {

/// Of what the device file computes: genes of the others stay what they are when nothing was chosen.
std::string illegal_by_file(const Product& product, const Device& device, const Genome& genome) {
  const Product* const way = contraction::warpgroup_way(product);
  if (way == nullptr) return contraction::warpgroup_product_lacks(product.boxed ? *product.boxed : product);
  if (const auto step = contraction::step_of(*way); gene(genome, "tile_k", step) != step)
    return fmt::format("steps of the device file have {} k", step);
  if (gene(genome, "min_blocks", 1) != 1) return "a multiprocessor has one block of the device file";
  if (gene(genome, "pingpong", 0) > 1) return "two consumers of the device file take turns";
  if (gene(genome, "swap_operands", 0) != 0) return "results of the device file lie along columns";
  for (const GeneName foreign : {GeneName("stationary"), GeneName("hints"), GeneName("weave"), GeneName("overlap")}) {
    if (gene(genome, foreign, 0) != 0) return "the device file knows nothing of " + std::string(foreign.text);
  }
  const auto tiling = contraction::device_tiling_of(genome);
  if (auto why = contraction::device_tiling_lacks(*way, tiling, device); !why.empty()) return why;
  if (tiling.tile_rows > 64 && way->problem.m <= tiling.tile_rows / 2) return "tile_m is twice what there is";
  if (tiling.tile_columns > 16 && way->problem.n <= tiling.tile_columns / 2) return "tile_n is twice what there is";
  return {};
}

}  // namespace

std::string contraction_illegal(const Product& product, const Device& device, const Genome& genome) {
  if (gene(genome, "direct", 0) == contraction::by_file) return illegal_by_file(product, device, genome);
  if (gene(genome, "multicast", 0) != 0 || gene(genome, "tile_m", 64) > 192) return "the device file alone does that";
  if (is_elsewhere(product, genome)) return contraction_illegal(way_of(product, genome), device, as_swapped(genome));
  const Problem& problem = product.problem;
  const TilePlan plan = plan_of(product, genome, device);
  if (const Status fits = contraction::check(problem, plan, device.shared_bytes); !fits) return fits.error().message;
  if (plan.scheme == Scheme::single && gene(genome, "promote", 64) != 64) return "nothing is promoted";
  const auto extents = contraction::extents_of(problem, plan);
  if (plan.stationary == 2 && gene(genome, "raster", 8) != 8) return "blocks walk along their own row of tiles";
  if (contraction::blocks_of(problem, plan, std::int64_t{device.sms} * plan.blocks) < 1)
    return "more rows of tiles than blocks";
  // Zeros beyond what there is: tiles much larger than the product only multiply those.
  if (plan.bm > 64 && problem.m <= plan.bm / 2) return "tile_m is twice what there is";
  if (plan.bn > 16 && problem.n <= plan.bn / 2) return "tile_n is twice what there is";
  if (gene(genome, "direct", 0) != 0 && plan.scheme == Scheme::single && !contraction::reads_strips(plan))
    return "factors that are split on their way are split for three products";
  if (gene(genome, "weave", 0) != 0 &&
      (problem.boxed ||
       !contraction::can_interleave(product.kernel, product.c, product.implicit ? &*product.implicit : nullptr)))
    return "no phases to interleave";
  if (gene(genome, "overlap", 0) != 0 && plan.overlap == 0)
    return "tiles end between sectors, or neighbouring threads do not store neighbours";
  if (gene(genome, "direct", 0) != 0 && !contraction::reads(plan)) return "no factor can be read where it lies so";
  if (contraction::needs_fallback(plan)) {  // rows that have to be scaled are packed after all
    if (auto why = contraction_illegal(product, device, contraction::with_all_packed(genome)); !why.empty()) return why;
  }
  for (const Operand operand : {Operand::a, Operand::b}) {
    const std::int64_t rows = operand == Operand::a ? extents.rows_a : extents.rows_b;
    if (contraction::load_mode(plan, operand) == LoadMode::packed && problem.batches * rows > largest_launch)
      return "too many rows to pack in a launch";
  }
  if (plan.split_k > 1 && problem.batches * problem.m * problem.n / contraction::joining_threads >= largest_launch)
    return "too many results to join";
  return {};
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
        implicit_(product.implicit ? &*product.implicit : nullptr),
        plan_(plan_of(product, genome, device)),
        extents_(contraction::extents_of(problem_, plan_)),
        genome_(genome),
        scaled_(contraction::scales(plan_)),
        form_{.fast = gene(genome, "fast", 0) != 0,
              .streaming = gene(genome, "hints", 0) != 0,
              .interleave = gene(genome, "weave", 0) != 0,
              .overlap = plan_.overlap,
              .step = contraction::tile_step(plan_)},
        idle_(contraction::wasted(product)) {
    if (!problem_.boxed) return;
    const Operand places = problem_.boxed->operand;
    boxes_.emplace(kernel_, *product_.boxes(places), problem_, plan_, places);
    form_.boxes = &*boxes_;
  }

  Result<Emitted> emit() {
    pack_rows();
    if (implicit_ != nullptr && !is_direct(implicit_->operand)) pack_slides();
    PLANISH_CHECK(multiply());
    if (idle_) fix_up();
    if (product_.cross_tile) join_pieces();
    if (contraction::needs_fallback(plan_)) PLANISH_CHECK(again());
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

  /// Where results are summed up: those that have elements, or the sums'.
  void add_cross_tile_outputs(std::vector<Argument>& args, bool sums) const {
    const contraction::CrossTileReduction& cross_tile = *product_.cross_tile;
    for (std::size_t o = sums ? cross_tile.elements : 0; o < (sums ? cross_tile.order.size() : cross_tile.elements);
         ++o)
      args.push_back({Argument::Kind::output, cross_tile.order[o]});
  }

  /// Memory for what a packing makes of an operand.
  void store(Operand operand, const contraction::Packing& packing, std::vector<Argument>& args) {
    for (int part = 0; part < contraction::parts(plan_); ++part) {
      packed_[operand].parts.push_back(place(packing.part_bytes));
      args.push_back(packed_[operand].parts.back());
    }
  }

  /// The input that the sliding factor is.
  int input_of_strips() const {
    const int factor = implicit_->operand == Operand::a ? product_.c.first : product_.c.second;
    return kernel_.nodes[static_cast<std::size_t>(factor)].input;
  }

  /// Whether main loops read the factor where it lies.
  bool is_direct(Operand operand) const { return contraction::load_mode(plan_, operand) != LoadMode::packed; }

  /// Factors that do not slide. An image's largest magnitude is noted, and behind these whether it has elements that
  /// must not be multiplied with zero: the factor packed first clears what is noted of the other one.
  void pack_rows() {
    const std::int64_t more = contraction::reads_strips(plan_) ? 1 : 0;  // whether a result is not finite
    const std::int64_t noted =
        ((implicit_ != nullptr ? 1 : 0) + (idle_ ? 1 : 0)) * contraction::noted_images(product_) + more;
    for (const Operand operand : {Operand::a, Operand::b}) {
      if (problem_.is_implicit(operand)) {
        if (is_direct(operand)) packed_[operand].parts.push_back({Argument::Kind::input, input_of_strips()});
        continue;
      }
      if (is_direct(operand)) {
        packed_[operand].parts.push_back({Argument::Kind::input, product_.direct(operand)->input});
        continue;
      }
      const bool clears = launches_.empty();
      const contraction::Notes does{.cleared = clears ? noted : 0, .odd = operand == idle_};
      const auto packing = contraction::print_packing(
          kernel_, product_.c, operand, plan_, operand == Operand::a ? extents_.rows_a : extents_.rows_b,
          extents_.depth, implicit_, problem_.im2col ? &*problem_.im2col : nullptr, does);
      auto& args = launch(packing);
      // Where both factors are packed so, one packing clears what the other notes.
      launches_.back().packs = !packing.notes || implicit_ != nullptr;
      launches_.back().derives = !packing.notes;
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
    const auto packings = contraction::print_implicit_packings(kernel_, product_.c, *implicit_, *problem_.im2col, plan_,
                                                               idle_.has_value());
    // What is noted of the other factor is this kernel's alone.
    const bool derives = !idle_ || (scaled_ && idle_ == implicit_->operand);
    auto& first = launch(packings.front());
    launches_.back().derives = derives;
    store(implicit_->operand, packings.front(), first);
    if (!scaled_ && idle_) {  // no packing clears them
      notes_ = place(2 * contraction::noted_images(product_) * 4);
      zeroed_.push_back(notes_.index);
    }
    if (scaled_ || idle_) first.push_back(notes_);
    if (!scaled_) return;
    Packed& mine = packed_[implicit_->operand];
    auto& again = launch(packings.back());
    launches_.back().derives = derives;
    again.insert(again.end(), mine.parts.begin(), mine.parts.end());
    again.push_back(notes_);
    again.push_back(mine.exponents = place(packings.back().exponents * 4));
  }

  /// The main loop, and where k is split the kernel that joins its parts: whichever is last has the epilogue.
  Status multiply() {
    const auto epilogue = this->epilogue();
    const bool joined = plan_.split_k > 1;
    PLANISH_TRY(const contraction::MainLoop loop,
                contraction::print_main_loop(problem_, plan_, joined ? part_store() : end(epilogue), device_.sms,
                                             device_.shared_bytes, places()));
    Emitted main;
    main.source = loop.source;
    main.grid[0] = loop.blocks;
    main.block[0] = loop.threads;
    main.shared = loop.shared_bytes;
    for (const auto& [operand, each] : packed_) main.args.insert(main.args.end(), each.parts.begin(), each.parts.end());
    const auto add_maps = [&] {
      if (plan_.maps != 0) main.args.push_back(place(loop.blocks * contraction::map_bytes));
      if (!contraction::needs_fallback(plan_)) return;
      // Of strips, what is noted of their images; else a number of each block.
      const bool strips = contraction::reads_strips(plan_);
      fallback_flags_count_ = strips ? contraction::noted_images(product_) + 1 : loop.blocks;
      main.args.push_back(fallback_flags_ = strips ? notes_ : place(loop.blocks * 4));
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

  /// The sums of what the main loop left of its tiles.
  void join_pieces() {
    const auto joining = contraction::print_cross_tile_joining(product_, plan_, form_.fast);
    auto& args = launch(joining);
    args.insert(args.begin(), pieces_);
    add_cross_tile_outputs(args, true);
  }

  contraction::Epilogue epilogue() const {
    if (product_.cross_tile) return contraction::print_cross_tile_epilogue(product_, plan_, form_);
    if (!product_.pool) return contraction::print_epilogue(kernel_, product_.c, implicit_, form_);
    return problem_.folding->in_registers ? contraction::print_folded_epilogue(product_, plan_, form_.fast)
                                          : contraction::print_pooled_epilogue(product_, plan_, form_.fast);
  }

  std::string places() const {
    if (contraction::reads_strips(plan_))
      return contraction::print_strip_reader(kernel_, product_.c, *implicit_, problem_, plan_,
                                             contraction::noted_images(product_));
    std::string text;
    for (const Operand operand : {Operand::a, Operand::b}) {
      if (!is_direct(operand)) continue;
      if (const auto& boxes = product_.boxes(operand)) {
        text += contraction::print_box_copies(kernel_, product_.c, problem_, plan_, operand, *boxes);
        continue;
      }
      const auto& direct = *product_.direct(operand);
      text += plan_.maps != 0 ? contraction::print_boxes(kernel_, product_.c, plan_, operand, direct)
                              : contraction::print_places(kernel_, product_.c, operand, direct);
    }
    return text;
  }

  /// Of a part of k.
  contraction::EpilogueVisitor part_store() const {
    contraction::EpilogueVisitor out = contraction::plain_store(problem_);
    // What splits fp32 calls functions that come with an epilogue elsewhere.
    if (contraction::needs_fallback(plan_)) out.prelude = contraction::place_prelude() + out.prelude;
    out.images = contraction::noted_images(product_);
    return out;
  }

  contraction::EpilogueVisitor end(const contraction::Epilogue& epilogue) const {
    contraction::EpilogueVisitor out;
    out.scaled = scaled_;
    out.images = contraction::noted_images(product_);
    out.prelude = contraction::place_prelude() + epilogue.text;
    out.parameters = (scaled_ ? contraction::exponent_parameters(plan_) : "") + epilogue.parameters;
    out.arguments = epilogue.arguments;
    out.crowded = epilogue.crowded;
    out.folds = epilogue.folds;
    out.stores = epilogue.stores;
    return out;
  }

  /// What the kernel with the epilogue is given behind the sums' operands.
  void add_ends(const contraction::Epilogue& epilogue, std::vector<Argument>& args) {
    for (const auto& [operand, each] : packed_) {
      if (scaled_ && !is_direct(operand)) args.push_back(each.exponents);
    }
    for (const int input : epilogue.inputs) args.push_back({Argument::Kind::input, input});
    if (!product_.cross_tile) return add_outputs(args);
    add_cross_tile_outputs(args, false);
    args.push_back(pieces_ = place(contraction::cross_tile_bytes(*product_.cross_tile, problem_, plan_)));
  }

  /// Results that zeros times something infinite have spoiled.
  void fix_up() {
    if (!product_.cross_tile || product_.cross_tile->elements > 0) {
      auto& args = launch(contraction::print_fix_up(product_, device_.sms));
      product_.cross_tile ? add_cross_tile_outputs(args, false) : add_outputs(args);
      args.push_back(notes_);
    }
    if (!product_.cross_tile) return;
    auto& args = launch(contraction::print_piece_fix_up(product_, plan_, device_.sms));
    args.insert(args.end(), {pieces_, notes_});
  }

  /// The same product of packed factors, whose launches end at once unless some block met a row that has to be scaled.
  Status again() {
    ContractionLaunches other(product_, device_, contraction::with_all_packed(genome_));
    other.scratch_ = std::move(scratch_);
    const bool strips = contraction::reads_strips(plan_);
    if (strips) {  // beside the other factor, which is packed already
      other.packed_[Operand::a] = packed_[Operand::a];
      other.notes_ = notes_;
      other.pack_slides();
    } else {
      other.pack_rows();
    }
    PLANISH_CHECK(other.multiply());
    if (product_.cross_tile) other.join_pieces();
    const std::string asked =
        strips ? contraction::is_unusual_text("fallbacks", fallback_flags_count_ - 1) : std::string();
    for (Emitted& one : other.launches_) {
      one.source = contraction::only_if_any(std::move(one.source), "fallbacks", fallback_flags_count_, asked);
      one.args.insert(one.args.begin(), fallback_flags_);
      one.packs = one.derives = false;
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
    whole.zeroed = std::move(zeroed_);
    return whole;
  }

  const Product& product_;
  const Device& device_;
  const Kernel& kernel_;
  const Problem& problem_;
  const ImplicitOperand* const implicit_;
  const TilePlan plan_;
  const contraction::Extents extents_;
  const Genome genome_;
  const bool scaled_;
  contraction::StoreForm form_;
  std::optional<contraction::BoxPlaces> boxes_;
  const std::optional<Operand> idle_;  ///< the factor that zeros are multiplied with (see contraction::wasted())
  std::vector<std::int64_t> scratch_;
  std::vector<int> zeroed_;  ///< of them
  std::vector<Emitted> launches_;
  std::map<Operand, Packed> packed_;
  Argument notes_;
  Argument pieces_;                        ///< of sums of more results than a tile has
  Argument fallback_flags_;                ///< what a kernel that splits or rounds its factors says of them
  std::int64_t fallback_flags_count_ = 0;  ///< so many numbers
};

}  // namespace

Result<Emitted> emit_contraction(const Product& product, const Device& device, const Genome& genome) {
  if (const auto why = contraction_illegal(product, device, genome); !why.empty()) return fail("illegal_genome", why);
  if (gene(genome, "direct", 0) == contraction::by_file)
    return contraction::emit_device_product(*contraction::warpgroup_way(product), contraction::device_tiling_of(genome),
                                            device);
  if (is_elsewhere(product, genome)) return emit_contraction(way_of(product, genome), device, as_swapped(genome));
  return ContractionLaunches(product, device, genome).emit();
}

}  // namespace planish::codegen
