#include "codegen/attention/decode.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "codegen/attention/last_keys.h"
#include "codegen/attention/packing.h"
#include "codegen/cheapest.h"
#include "codegen/contraction/direct.h"
#include "codegen/emit/cuda_limits.h"
#include "codegen/passes.h"
#include "codegen/templates/common.h"
#include "codegen/variables.h"

namespace planish::codegen {
namespace {

std::unexpected<Error> no_decode(const char* why) {
  return fail("unsupported", why);
}

/// Whether a query's features lie as 16 neighbouring bytes each, at multiples of 16.
bool is_row(const Kernel& kernel, const Node* query, int feature) {
  constexpr std::int64_t whole = 8;
  if (query == nullptr || !query->where.empty() || query->index.coefficient_of(feature) != 1) return false;
  return is_multiple(ir::add(query->index, ir::scale(ir::IndexExpr::variable(feature), -1), kernel.space), whole);
}

DecodeTiling decode_plan(const Genome& genome) {
  const auto value = [&](GeneName name, std::int64_t otherwise) {
    return static_cast<int>(gene(genome, name, otherwise));
  };
  return {value("threads", 256) / 32, value("stages", 3), value("split", 1), value("min_blocks", 1)};
}

/// Keys so few that the launches beside it, where there are any, matter more: it has a block a multiprocessor then, of
/// half its shared memory (printing::half_shared).
bool is_brief(const Decode& d, const Device& device) {
  if (!backend::architecture(device.arch).dependent_launch) return false;
  constexpr std::int64_t few = 128 << 10;  // bytes a multiprocessor
  return d.units <= device.sms && d.units * d.length * decode_key_bytes(d) <= few * device.sms;
}

std::string illegal_plan(const Decode& d, const DecodeTiling& plan, const Device& device) {
  constexpr std::int64_t registers = 65536;
  if (is_brief(d, device) && (plan.blocks != 1 || d.units * plan.splits > device.sms ||
                              decode_shared_bytes(d, plan) > printing::half_shared(device)))
    return "no room for the launch after it";
  if ((decode_shared_bytes(d, plan) + 1024) * plan.blocks > device.shared_bytes + 1024)
    return "the blocks' shared memory does not fit";
  // Sums and queries of a thread, and what goes on beside them.
  const std::int64_t thread = (d.rows > 8 ? 2 : 1) * (d.columns / 4 + d.features / 8) + 72;
  if (thread * plan.warps * 32 * plan.blocks > registers) return "the blocks' registers do not fit";
  if (plan.splits > 1 && plan.splits * decode_tile(d) > d.length) return "more blocks than tiles of keys";
  return {};
}

std::int64_t launch_blocks(const Decode& d, const DecodeTiling& plan, const Device& device) {
  return is_brief(d, device) ? device.sms : d.units * plan.splits;
}

std::int64_t launch_shared(const Decode& d, const DecodeTiling& plan, const Device& device) {
  return is_brief(d, device) ? printing::half_shared(device) : decode_shared_bytes(d, plan);
}

class DecodeSchedule : public Schedule {
 public:
  DecodeSchedule(const Kernel& kernel, Attention parts, Decode decode, const Device& device)
      : kernel_(kernel), parts_(std::move(parts)), decode_(std::move(decode)), device_(device) {}

  std::vector<Gene> genes() const override {
    return {{"threads", {64, 128, 256, 320, 512}},
            {"stages", {1, 2, 3, 4}},
            {"min_blocks", {1, 2, 3, 4, 6}},
            {"split", splits()}};
  }
  std::string illegal(const Genome& genome) const override {
    return illegal_plan(decode_, decode_plan(genome), device_);
  }

  std::vector<Genome> seeds() const override {
    std::vector<std::pair<double, Genome>> found;
    for (const int threads : {256, 320, 512, 128, 64}) {
      for (const int stages : {3, 4, 2, 1}) {
        for (const int blocks : {1, 2, 3, 4}) {
          for (const std::int64_t split : splits()) {
            Genome genome{{"threads", threads}, {"stages", stages}, {"min_blocks", blocks}, {"split", split}};
            if (illegal(genome).empty()) found.emplace_back(microseconds(decode_plan(genome)), std::move(genome));
          }
        }
      }
    }
    return cheapest(std::move(found));
  }

  Outline outline(const Genome& genome) const override {
    const DecodeTiling plan = decode_plan(genome);
    Outline out;
    out.threads = plan.warps * 32;
    out.shared_bytes = static_cast<double>(launch_shared(decode_, plan, device_));
    out.blocks = static_cast<double>(launch_blocks(decode_, plan, device_));
    return out;
  }

  Result<Emitted> emit(const Genome& genome) const override {
    if (const auto why = illegal(genome); !why.empty()) return fail("illegal_genome", why);
    return emit_decode(kernel_, parts_, decode_, device_, genome, {});
  }

 private:
  /// Such that blocks fill the device once or twice, and powers of two between.
  std::vector<std::int64_t> splits() const {
    std::vector<std::int64_t> out{1};
    const std::int64_t most = std::max<std::int64_t>(decode_.length / decode_tile(decode_), 1);
    for (const std::int64_t blocks : {1, 2, 3, 4, 6}) out.push_back(blocks * device_.sms / decode_.units);
    for (std::int64_t s = 2; s <= 64; s *= 2) out.push_back(s);
    std::erase_if(out, [&](std::int64_t s) { return s < 1 || s > std::min<std::int64_t>(most, 256); });
    std::ranges::sort(out);
    out.erase(std::ranges::unique(out).begin(), out.end());
    return out;
  }

  /// As measured on an H200 for 16 bits (docs/results/decode_attention.md): what a launch, a wave of blocks and putting
  /// their sums together take beside the bytes. Codes and pages count by their bytes.
  double microseconds(const DecodeTiling& plan) const {
    const double resident = static_cast<double>(device_.sms) * plan.blocks;
    const auto blocks = static_cast<double>(decode_.units * plan.splits);
    const auto tile = static_cast<double>(decode_tile(decode_));
    const double tiles = std::ceil(std::ceil(static_cast<double>(decode_.length) / tile) / plan.splits);
    const double rounds = std::ceil(tiles / plan.warps);  // of a warp; what is not asked for at once is waited for
    if (decode_.ragged) return ragged_microseconds(rounds, blocks / resident);
    const double waves = std::ceil(blocks / resident);
    const double turns = rounds * plan.warps * tile;
    const double bytes = turns * static_cast<double>(decode_key_bytes(decode_));
    // A multiprocessor's share, of all that run beside it.
    const double busy = std::min(blocks, resident) / resident;
    const double rate = device_.bandwidth_gbs * 1e3 / resident / std::max(busy, 0.75);
    const bool alone = plan.stages == 1 && rounds > 1 && plan.warps * plan.blocks < 16;
    const double late = alone ? 1.5 : 1;  // a warp that waits for its only tile, and no other warp beside it
    const double flight = late * (plan.warps * plan.blocks * std::min<double>(plan.stages, rounds) >= 8 ? 1 : 1.3);
    const double joins = plan.splits == 1 ? 0 : 2 + 0.03 * plan.splits;
    return waves * (3 + 0.4 * std::min(rounds, 4.0) + bytes / rate * flight) + joins + 0.1 * plan.blocks;
  }
  /// Units have an eighth of the keys to all of them, evenly: blocks end at different times, and others begin.
  /// `rounds`: of a block of all keys. `waves`: blocks, of those that run at once.
  double ragged_microseconds(double rounds, double waves) const {
    constexpr double mean = 9.0 / 16, begin = 5, block = 2.5;
    const double round = decode_tile(decode_) == 32 ? 1.6 : 1.05;
    const double longest = begin + round * rounds;
    const double bytes = static_cast<double>(decode_.units * decode_.length * decode_key_bytes(decode_)) * mean;
    return std::max(longest, begin + bytes / (device_.bandwidth_gbs * 1e3) + block * waves) + 0.3 * longest;
  }

  const Kernel& kernel_;
  const Attention parts_;
  const Decode decode_;
  const Device& device_;
};

}  // namespace

Result<Decode> decode_of(const Kernel& kernel, const Attention& a) {
  if (!decodes(a)) return no_decode("more rows of queries than a fragment has");
  if (attention::packing_of(kernel, a)) return no_decode("packed sequences, each with keys of its own");
  if (a.scores.k.size() != 1 || a.values.n.size() != 1) return no_decode("features or columns that lie apart");
  Decode d;
  d.units = a.scores.batches;
  d.rows = a.scores.rows;
  d.length = a.scores.columns;
  d.features = a.scores.depth;
  d.columns = a.values.columns;
  if (d.features % 32 != 0 || d.features > 256 || d.columns % 64 != 0 || d.columns > 256)
    return no_decode("heads of another width");
  if (d.units > (1 << 20) || d.length > (1 << 30)) return no_decode("more units or keys than are counted");
  const auto half = half_type(kernel, a.scores.first);
  if (!half) return no_decode("queries of another dtype than f16 and bf16");
  d.element = *half;
  PLANISH_TRY(d.keys, key_rows_of(kernel, a.scores.second, a.scores.k[0], a.scores.n, d.element));
  PLANISH_TRY(d.values, key_rows_of(kernel, a.values.second, a.values.n[0], a.values.k, d.element));
  // A weight times a scale has to be a number of the type.
  if (d.values.weighs() && d.element == DType::f16) return no_decode("values with a scale for each key in f16");
  d.computed = !is_row(kernel, contraction::plain_load(kernel, a.scores.first), a.scores.k[0]);
  d.ragged = ends_move_with(kernel, a, a.scores.batch);
  return d;
}

std::int64_t decode_tile(const Decode& d) {
  return d.keys.element_bytes() == 1 && d.values.element_bytes() == 1 && d.rows <= 8 ? 32 : 16;
}

std::int64_t decode_key_bytes(const Decode& d) {
  return d.features * d.keys.element_bytes() + d.columns * d.values.element_bytes();
}

std::int64_t decode_shared_bytes(const Decode& d, const DecodeTiling& plan) {
  // As DecodeKeys and DecodeValues have it.
  const std::int64_t wide = d.keys.element_bytes() == 2 ? 64 : d.features % 64 == 0 ? 32 : 0;
  const std::int64_t ring = plan.warps * plan.stages * decode_tile(d) * (decode_key_bytes(d) + wide + 16);
  const std::int64_t queries = d.computed ? d.rows * d.features * 2 : 0;
  const std::int64_t written = plan.written * (d.features + d.columns) * 2 + (plan.written + 1) / 2 * 16;
  // A warp's sums as DecodeLayout lays them out.
  const std::int64_t row = d.columns + d.columns / 32 * 4 + (d.columns / 32 % 4 == 0 ? 8 : 0);
  const std::int64_t left = (d.rows * row + (2 * d.rows + 3) / 4 * 4) * 4;
  return std::max({queries + written + ring, plan.warps * left, (d.rows * (plan.splits + 1) + 1) * 4});
}

std::int64_t decode_partial_bytes(const Decode& d) {
  return d.rows * (d.columns + 2) * 4;
}

Result<Emitted> emit_decode(const Kernel& kernel, const Attention& parts, const Decode& d, const Device& device,
                            const Genome& genome, const DecodeWrites& writes) {
  DecodeTiling plan = decode_plan(genome);
  plan.beside = is_brief(d, device);
  plan.chained = backend::architecture(device.arch).dependent_launch;
  plan.written = writes.scatter == nullptr ? 0 : static_cast<int>(writes.rows.rows);
  if (const auto why = illegal_plan(d, plan, device); !why.empty()) return fail("illegal_genome", why);
  DecodeText text = print_decode(kernel, parts, d, plan, writes);
  using Kind = Emitted::Argument::Kind;
  Emitted out;
  out.language = "cuda";
  out.entry = "planish_kernel";
  out.source = std::move(text.source);
  out.grid[0] = launch_blocks(d, plan, device);
  out.block[0] = plan.warps * 32;
  out.shared = launch_shared(d, plan, device);
  for (const int input : text.inputs) out.args.push_back({Kind::input, input});
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) out.args.push_back({Kind::output, static_cast<int>(o)});
  for (const int input : text.written)
    out.args.push_back({Kind::input, static_cast<int>(kernel.inputs.size()) + input});
  if (plan.chained) out.early.emplace();
  if (writes.scatter == nullptr) out.few_queries = genome;
  if (plan.splits == 1) return out;
  out.scratch_bytes = {d.units * plan.splits * decode_partial_bytes(d), d.units * 4};
  out.zeroed = {1};
  out.args.push_back({Kind::scratch, 0});
  out.args.push_back({Kind::scratch, 1});
  return out;
}

std::unique_ptr<const Schedule> decode_schedule(const Kernel& kernel, const Device& device) {
  if (!schedules_contractions(device)) return nullptr;
  auto parts = attention_of(kernel);
  if (!parts) return nullptr;
  auto decode = decode_of(kernel, *parts);
  if (!decode) return nullptr;
  auto made = std::make_unique<DecodeSchedule>(kernel, std::move(*parts), std::move(*decode), device);
  return made->seeds().empty() ? nullptr : std::move(made);
}

}  // namespace planish::codegen
