#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "codegen/contraction/plan.h"

/// Executes a tile plan on the CPU, byte by byte, as the machine does: what the emitter prints is made of the same
/// numbers. Nothing here asks the plan where an element is but through packed operands, copies and descriptors.
namespace planish::codegen::contraction {

/// Elements are known by an id, 1 + position, so that a wrong byte is a wrong element; 0 is padding.
using Image = std::vector<std::uint32_t>;  ///< an id for every two bytes

inline Image packed(const TilePlan& plan, std::int64_t rows, std::int64_t depth, std::int64_t m, std::int64_t k,
                    std::uint32_t part) {
  Image image(static_cast<std::size_t>(rows * depth), 0);
  for (std::int64_t y = 0; y < m; ++y) {
    for (std::int64_t x = 0; x < k; ++x) {
      const auto place = static_cast<std::size_t>(place_in_operand(plan, rows, y, x));
      image.at(place / 2) = static_cast<std::uint32_t>(1 + y * k + x) * 2 + part;
    }
  }
  return image;
}

/// What the tensor core reads for (row, k) through a descriptor without swizzling: 8 rows of 16 bytes are contiguous;
/// `leading` parts neighbours along k, `stride` groups of 8 rows.
inline int address(std::uint64_t fields, int start, int row, int k) {
  const int leading = static_cast<int>(fields >> 16 & 0x3fff) * 16,
            stride = static_cast<int>(fields >> 32 & 0x3fff) * 16;
  return start + row / 8 * stride + k / 8 * leading + row % 8 * 16 + k % 8 * 2;
}

/// The same where rows of 128 bytes are swizzled: of their 16-byte chunks those that are at 8 · line + chunk lie at 8 ·
/// line + (chunk ^ line % 8), lines counted from multiples of 1024 bytes. `across`: memory runs along rows, 64 of them
/// a line, `stride` parts groups of 8 k and `leading` groups of 64 rows.
inline int swizzled_address(std::uint64_t fields, int start, bool across, int row, int k) {
  const int leading = static_cast<int>(fields >> 16 & 0x3fff) * 16,
            stride = static_cast<int>(fields >> 32 & 0x3fff) * 16;
  const int plain = across ? start + row / 64 * leading + row % 64 * 2 + k / 8 * stride + k % 8 * 128
                           : start + row / 8 * stride + row % 8 * 128 + k * 2;
  return plain ^ (plain / 128 % 8 * 16);
}

/// Where element (row, k) of an operand that is not packed lies, from where its part of a stage begins.
inline int place_in_stage(const TilePlan& plan, Operand operand, int row, int k) {
  const auto chunk = [](int line, int at) { return line * 128 + (at / 8 % 8 ^ line % 8) * 16 + at % 8 * 2; };
  if (load_mode(plan, operand) == LoadMode::along_k)
    return k / 64 * tile_rows(plan, operand) * 128 + chunk(row, k % 64);
  return row / 64 * plan.bk * 128 + chunk(k, row % 64);
}

/// A producer and its warpgroups as they meet at barriers of one bit of parity, over some tiles of `depth` stages,
/// taking turns at random: what each does is what the printed text does. With `turns` each tile is one consumer's. With
/// `under_way` the producer itself says that a stage is there, so many stages after it asked for it. Returns what went
/// wrong, or nothing.
inline std::string race(int stages, int consumers, int depth, std::uint64_t seed, int tiles = 1, bool turns = false,
                        std::optional<int> under_way = {}) {
  struct Barrier {
    int needed = 0, pending = 0;
    unsigned phase = 0;
    bool passed(unsigned parity) const { return (phase & 1) != parity; }
    void arrive() {
      if (--pending == 0) {
        pending = needed;
        ++phase;
      }
    }
  };
  const int arrivals = under_way ? 1 : 2;
  std::vector<Barrier> full(static_cast<std::size_t>(stages), {arrivals, arrivals, 0}), empty(full.size());
  for (auto& one : empty) one = {turns ? 1 : consumers, turns ? 1 : consumers, 0};
  std::vector<Barrier> order(static_cast<std::size_t>(consumers), {1, 1, 0});
  std::vector<int> content(full.size(), -1), readers(full.size(), 0);
  struct Role {
    int tile = 0, k = 0, stage = 0;
    unsigned parity = 0, turn = 0;
    bool waits = true;
    void advance(int count) {
      ++k;
      if (++stage == count) {
        stage = 0;
        parity ^= 1;
      }
    }
    void pass(int depth, int count) {  // as Printer::pass() prints it
      stage += depth % count;
      if (depth / count % 2 != 0) parity ^= 1;
      if (stage >= count) {
        stage -= count;
        parity ^= 1;
      }
    }
  };
  std::vector<Role> roles(static_cast<std::size_t>(consumers) + 1);
  if (turns) {
    roles[1].turn = 1;
    for (int w = 1; w < consumers; ++w) {
      roles[static_cast<std::size_t>(w) + 1].tile = w;
      for (int other = 0; other < w; ++other) roles[static_cast<std::size_t>(w) + 1].pass(depth, stages);
    }
  }
  std::vector<std::pair<int, int>> flying;  // stage, content: copies under way
  std::vector<std::pair<int, int>> owed;    // the same: not told of
  std::mt19937_64 rng(seed);
  int idle = 0;
  const auto done = [&] {
    return owed.empty() && std::ranges::all_of(roles, [&](const Role& role) { return role.tile >= tiles; });
  };
  while (!done()) {
    if (++idle > 100000) return "nobody gets on";
    const std::size_t who = rng() % (roles.size() + 1);
    if (who == roles.size()) {  // the copy engine
      if (flying.empty()) continue;
      const std::size_t at = rng() % flying.size();
      const auto [stage, k] = flying[at];
      flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(at));
      const auto s = static_cast<std::size_t>(stage);
      if (readers[s] != 0) return "written while it is read";
      content[s] = k;
      if (!under_way) full[s].arrive();
      idle = 0;
      continue;
    }
    Role& role = roles[who];
    const bool ends = who == 0 && role.tile >= tiles;
    if (under_way && who == 0 && static_cast<int>(owed.size()) > (ends ? 0 : *under_way)) {
      if (std::ranges::find(flying, owed.front()) != flying.end()) continue;  // waits for its own copies
      full[static_cast<std::size_t>(owed.front().first)].arrive();
      owed.erase(owed.begin());
      idle = 0;
      continue;
    }
    if (role.tile >= tiles) continue;
    if (turns && who > 0 && role.waits) {
      if (!order[who - 1].passed(role.turn)) continue;
      role.turn ^= 1;
      role.waits = false;
    }
    const auto s = static_cast<std::size_t>(role.stage);
    const auto before = static_cast<std::size_t>(role.stage == 0 ? stages - 1 : role.stage - 1);
    if (who == 0) {
      if (!empty[s].passed(role.parity ^ 1)) continue;
      if (!under_way) full[s].arrive();  // and so many bytes expected
      flying.emplace_back(role.stage, role.tile * depth + role.k);
      if (under_way) owed.push_back(flying.back());
      role.advance(stages);
      if (role.k == depth) role = {role.tile + 1, 0, role.stage, role.parity, 0, true};
    } else if (role.k < depth) {
      if (!full[s].passed(role.parity)) continue;
      if (content[s] != role.tile * depth + role.k) return "another stage's content";
      ++readers[s];  // products are asked for
      // The stage before is left once products behind it are under way.
      if (role.k > 0) {
        --readers[before];
        empty[before].arrive();
      }
      role.advance(stages);
    } else {
      --readers[before];
      empty[before].arrive();
      if (turns) order[who % order.size()].arrive();
      role = {role.tile + (turns ? consumers : 1), 0, role.stage, role.parity, role.turn, true};
      for (int other = 1; turns && other < consumers; ++other) role.pass(depth, stages);
    }
    idle = 0;
  }
  return {};
}

}  // namespace planish::codegen::contraction
