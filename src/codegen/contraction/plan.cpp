#include "codegen/contraction/plan.h"

#include <algorithm>

namespace planish::codegen::contraction {
namespace {

constexpr int bytes_each = 2;
constexpr int alignment = 128;
constexpr int barrier_bytes = 16;  // full and empty, of one stage

std::int64_t up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace

std::uint64_t encode(const Descriptor& d) {
  return (static_cast<std::uint64_t>(d.leading / 16) << 16) | (static_cast<std::uint64_t>(d.stride / 16) << 32);
}

std::int64_t Columns::places(std::int64_t products, std::int64_t rows) const {
  // A tile may begin at the last position, and a shift is shorter than an image.
  return zeros(products) + rows + image;
}

int parts(const TilePlan& plan) {
  return plan.scheme == Scheme::split ? 2 : 1;
}

bool scales(const TilePlan& plan) {
  return plan.scheme != Scheme::plain;
}

int accumulators(const TilePlan& plan) {
  return plan.scheme == Scheme::split ? 2 : 1;
}

bool promotes(const TilePlan& plan) {
  return plan.scheme == Scheme::split;
}

int tile_rows(const TilePlan& plan, Operand operand) {
  return operand == Operand::a ? plan.bm : plan.bn;
}

int stage_bytes(const TilePlan& plan) {
  return parts(plan) * (plan.bm + plan.bn) * plan.bk * bytes_each;
}

int shared_bytes(const TilePlan& plan) {
  // The tensor core wants multiples of 128 bytes; what comes is aligned to 16.
  return alignment + plan.stages * (stage_bytes(plan) + barrier_bytes);
}

int threads(const TilePlan& plan) {
  return 128 * (plan.consumers + 1);
}

int feeder_registers(const TilePlan& plan) {
  return plan.consumers == 3 ? 32 : 24;
}

int consumer_registers(const TilePlan& plan) {
  // What blocks are launched with, in multiples of 8, is divided anew: the feeder gives of its share.
  const int each = std::min(65536 / (plan.blocks * threads(plan)) / 8 * 8, 248);
  return std::min((each * threads(plan) - feeder_registers(plan) * 128) / (plan.consumers * 128) / 8 * 8, 240);
}

int accumulator_registers(const TilePlan& plan) {
  return plan.bn / 2;
}

int part_offset(const TilePlan& plan, Operand operand, int part) {
  const int a = plan.bm * plan.bk * bytes_each;
  const int b = plan.bn * plan.bk * bytes_each;
  return operand == Operand::a ? part * a : parts(plan) * a + part * b;
}

std::int64_t place_in_operand(const TilePlan& plan, std::int64_t rows, std::int64_t row, std::int64_t k) {
  const std::int64_t slab = k / plan.bk, chunk = k % plan.bk / 8;
  return slab * rows * plan.bk * bytes_each + row / 8 * (plan.bk * 16) + chunk * 128 + row % 8 * 16 +
         k % 8 * bytes_each;
}

Descriptor descriptor_of(const Problem& problem, const TilePlan& plan, Operand operand, int part, int row, int k) {
  if (problem.slides(operand)) {
    const int chunk = tile_rows(plan, operand) * 16;
    return {part_offset(plan, operand, part) + row * 16 + k / 8 * chunk, chunk, 128};
  }
  return {part_offset(plan, operand, part) + row * plan.bk * bytes_each + k / 8 * 128, 128, plan.bk * 16};
}

std::vector<Copy> copies_of(const Problem& problem, const TilePlan& plan) {
  std::vector<Copy> all;
  for (const Operand operand : {Operand::a, Operand::b}) {
    const int rows = tile_rows(plan, operand);
    for (int part = 0; part < parts(plan); ++part) {
      const int target = part_offset(plan, operand, part);
      if (!problem.slides(operand)) all.push_back({operand, part, target, rows * plan.bk * bytes_each});
      for (int chunk = 0; problem.slides(operand) && chunk < plan.bk / 8; ++chunk)
        all.push_back({operand, part, target + chunk * rows * 16, rows * 16, chunk});
    }
  }
  return all;
}

std::vector<Step> steps_of(const TilePlan& plan) {
  std::vector<Step> high;
  std::vector<Step> low;
  for (int k = 0; k < plan.bk; k += 16) {
    high.push_back({0, k, 0, 0});
    low.push_back({1, k, 0, 1});
    low.push_back({1, k, 1, 0});
  }
  if (plan.scheme == Scheme::split) high.insert(high.end(), low.begin(), low.end());
  return high;
}

Place fragment(int thread, int index) {
  const int lane = thread % 32;
  return {thread / 32 * 16 + lane / 4 + index / 2 % 2 * 8, index / 4 * 8 + lane % 4 * 2 + index % 2};
}

Extents extents_of(const Problem& problem, const TilePlan& plan) {
  Extents e;
  e.rows_a = up(problem.m, plan.bm);
  e.rows_b = up(problem.n, plan.bn);
  e.depth = up(problem.k, std::int64_t{plan.split_k} * (promotes(plan) ? plan.promote_k : plan.bk));
  e.tiles = e.rows_a / plan.bm * (e.rows_b / plan.bn) * problem.batches * plan.split_k;
  return e;
}

Status check(const Problem& problem, const TilePlan& plan, std::int64_t shared_limit) {
  const auto bad = [](const std::string& what) { return fail("illegal_plan", what); };
  if (problem.m < 1 || problem.n < 1 || problem.k < 1 || problem.batches < 1) return bad("extents are at least 1");
  if (plan.consumers < 1 || plan.consumers > 3) return bad("consumers is 1, 2 or 3");
  if (plan.bm != 64 * plan.consumers) return bad("bm is 64 rows a consumer");
  if (plan.bn < 8 || plan.bn > 256 || plan.bn % 8 != 0) return bad("bn is a multiple of 8 up to 256");
  if (plan.bk != 32 && plan.bk != 64 && plan.bk != 128) return bad("bk is 32, 64 or 128");
  if (plan.stages < 2 || plan.stages > 16) return bad("stages is 2 to 16");
  if (plan.raster < 1) return bad("raster is at least 1");
  if (plan.split_k < 1 || plan.split_k > 64) return bad("split_k is 1 to 64");
  if (promotes(plan) && (plan.promote_k < plan.bk || plan.promote_k % plan.bk != 0 || plan.promote_k > 512)) {
    return bad("promote_k is a multiple of bk up to 512");
  }
  if (scales(plan) && plan.element != Element::f16) return bad("fp32 operands become fp16 parts");
  const int sums = accumulator_registers(plan) * (accumulators(plan) + (promotes(plan) ? 1 : 0));
  const int room =
      consumer_registers(plan) - (plan.consumers == 3 ? 48 : 40);  // the rest is for addresses and epilogues
  if (sums > room) {
    return bad("accumulators need " + std::to_string(sums) + " registers a thread of " + std::to_string(room));
  }
  if (plan.blocks < 1 || plan.blocks > 4) return bad("blocks is 1 to 4");
  // ptxas compiles for what a launch begins with, before registers are divided anew: an instruction's must fit.
  const int begun = 65536 / (plan.blocks * threads(plan)) / 8 * 8;
  if (accumulator_registers(plan) + 26 > begun)
    return bad(std::to_string(plan.blocks) + " blocks begin with " + std::to_string(begun) + " registers a thread");
  if (plan.blocks > 1 && plan.blocks * (shared_bytes(plan) + 1024) > shared_limit + 1024)
    return bad("the stages of " + std::to_string(plan.blocks) + " blocks do not fit a multiprocessor");
  if (shared_bytes(plan) > shared_limit) {
    return bad("stages need " + std::to_string(shared_bytes(plan)) + " bytes of shared memory of " +
               std::to_string(shared_limit));
  }
  const Extents e = extents_of(problem, plan);
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  if (e.rows_a >= limit || e.rows_b >= limit || e.depth >= limit || e.tiles >= limit) {
    return bad("an extent exceeds 2^31");
  }
  return {};
}

}  // namespace planish::codegen::contraction
