#pragma once

#include <cstdint>
#include <vector>

#include "codegen/attention/attention.h"

/// Where the keys of an attention end, as its score says it: what is behind need not be read. Pure; thread-safe.
namespace planish::codegen {

/// A number that no score's place surpasses: an integer node that does not move with the key.
struct LastKey {
  int node = -1;
  std::int64_t plus = 0;  ///< keys from node + plus on count for nothing
};

/// Bounds of tests `key <= n` that a score of -inf follows where they fail.
std::vector<LastKey> last_keys_of(const Kernel& kernel, const Attention& attention);

/// The score of keys before the end, which is the attention's without tests that all of these pass.
int score_before_end(const Kernel& kernel, const Attention& attention);

/// Inputs that say which keys count.
std::vector<int> inputs_of_end(const Kernel& kernel, const Attention& attention);

/// Whether any of these variables moves a bound.
bool ends_move_with(const Kernel& kernel, const Attention& attention, const std::vector<int>& variables);

}  // namespace planish::codegen
