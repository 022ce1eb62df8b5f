#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "codegen/lower/lowering.h"

/// Private to codegen/lower: what operators with windows have in common.
namespace planish::codegen {

/// Most taps that are written out for one element.
constexpr std::int64_t most_taps = 64;

/// `name` as one number a dim; `otherwise` where it is absent or empty, nothing where it has another count.
std::optional<std::vector<std::int64_t>> spread(const Args& args, std::string_view name, std::size_t dims,
                                                const std::vector<std::int64_t>& otherwise);

std::unexpected<Error> malformed(const Site& s);

/// Sums over the channels of a group: nothing but where contractions may be lowered, or where a group has one channel.
Result<int> transposed_convolution(const Site& s);

}  // namespace planish::codegen
