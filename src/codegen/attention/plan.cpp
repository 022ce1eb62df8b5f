#include "codegen/attention/plan.h"

#include <algorithm>

#include "base/rounding.h"

namespace planish::codegen::attention {
namespace {

constexpr std::int64_t most_columns = 128;  // whose sums a thread's registers hold twice

}  // namespace

Layout layout_of(const Attention& attention, const Tiling& plan) {
  Layout out;
  const int rows = 64 * plan.consumers;
  out.rows = round_up(attention.scores.rows, rows);
  out.keys = round_up(attention.scores.columns, plan.keys);
  out.features = static_cast<int>(round_up(attention.scores.depth, 16));
  const std::int64_t columns = attention.values.columns;
  out.column_blocks = static_cast<int>((columns + most_columns - 1) / most_columns);
  out.columns = static_cast<int>(round_up((columns + out.column_blocks - 1) / out.column_blocks, 8));
  out.scores.scheme = contraction::Scheme::joint;
  out.values.scheme = contraction::Scheme::chosen;
  out.scores.bm = out.values.bm = rows;
  out.scores.consumers = out.values.consumers = plan.consumers;
  out.scores.blocks = out.values.blocks = plan.blocks;
  out.scores.bn = plan.keys;
  out.scores.bk = out.features;
  out.values.bn = out.columns;
  out.values.bk = plan.keys;
  out.query_bytes = rows * out.features * 2;
  out.key_bytes = plan.keys * out.features * 2;
  out.value_bytes = plan.keys * out.columns * 2;
  out.stages_at = 2 * out.query_bytes;
  out.barriers_at = out.stages_at + plan.stages * out.stage_bytes();
  out.exchange_at = out.barriers_at + static_cast<int>(round_up(8 + std::int64_t{32} * plan.stages, 16));
  constexpr int alignment = 128;
  out.shared_bytes = alignment + out.exchange_at + plan.consumers * 4 * 8 * out.exchange_pitch() * 4;
  return out;
}

Status check(const Attention& attention, const Tiling& plan, std::int64_t shared_limit) {
  const auto bad = [](const std::string& what) { return fail("illegal_plan", what); };
  const Layout layout = layout_of(attention, plan);
  if (plan.consumers < 1 || plan.consumers > 3) return bad("consumers is 1, 2 or 3");
  if (plan.keys < 16 || plan.keys > 128 || plan.keys % 16 != 0) return bad("a tile has 16 to 128 keys, whole sixteens");
  if (plan.stages < 1 || plan.stages > 8) return bad("stages is 1 to 8");
  if (plan.blocks < 1 || plan.blocks > 3) return bad("blocks is 1 to 3");
  // Sums of a tile and of all, and scores that become weights.
  const int held = layout.columns / 2 + std::max(layout.columns, plan.keys) / 2 + plan.keys / 2;
  constexpr int besides = 48;
  const int room = contraction::consumer_registers(layout.scores);
  if (held + besides > room)
    return bad("sums and scores need " + std::to_string(held) + " registers a thread of " +
               std::to_string(room - besides));
  const int begun = 65536 / (plan.blocks * contraction::threads(layout.scores)) / 8 * 8;
  if (std::max(layout.columns / 2 + 8, plan.keys / 2) + 26 > begun)
    return bad("blocks begin with too few registers a thread");
  constexpr std::int64_t driver = 1024;  // of each block
  if (plan.blocks * (layout.shared_bytes + driver) > shared_limit + driver)
    return bad("stages need " + std::to_string(layout.shared_bytes) + " bytes of shared memory");
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  const std::int64_t blocks = attention.scores.batches * (layout.rows / layout.scores.bm) * layout.column_blocks;
  const std::int64_t widest = std::max({layout.rows, layout.keys, std::int64_t{layout.columns} * layout.column_blocks});
  if (blocks >= limit || attention.scores.batches * widest >= limit) return bad("an extent exceeds 2^31");
  return {};
}

}  // namespace planish::codegen::attention
