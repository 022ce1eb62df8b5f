#pragma once

#include <string>
#include <vector>

namespace planish {

/// Something to know about a verdict that does not change it (docs/formats/result.md).
struct Note {
  std::string kind;                   ///< "coarse_eager", "fails_elsewhere", …
  std::string about;                  ///< coarse_*, fails_*, not_tried: the mutant, "tf32 products"
  std::string text;                   ///< a sentence
  double eager_error = 0, error = 0;  ///< coarse_eager: relative Frobenius, eager's and the mutant's
};

}  // namespace planish
