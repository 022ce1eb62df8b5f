#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/emit/cuda_pattern.h"
#include "codegen/kernel.h"

/// What has been seen of one reduction so far, as variables that can be merged: by lanes, threads, blocks and launches
/// alike. Pure; thread-safe.
namespace planish::codegen::printing {

struct FoldField {
  std::string suffix, type, neutral;
  int bytes = 4;
};

struct Fold {
  enum class Kind {
    plain,         ///< one value
    position,      ///< a value `v` and where it was seen, `i`
    exponentials,  ///< maximum `m`, and the sum `s` of exp(x - m)
    deviations,    ///< count `n`, sum `t`, and the sum `q` of squared deviations from t / n
  };
  Kind kind = Kind::plain;
  int reduction = 0;
  int follower = -1;    ///< exponentials, deviations: the reduction that is computed along
  int x = -1;           ///< node that is folded
  bool rising = false;  ///< position: a thread meets positions in rising order, the first of all being 0
  int base = -1;        ///< exponentials: node that the follower's argument subtracts
  std::vector<FoldField> fields;
};

/// Folds of a phase, in order; those of the next phase that `pairs` let follow are part of them.
std::vector<Fold> folds_of(const Kernel& kernel, const std::vector<OnlinePair>& pairs, int phase);
/// How a field is spelled, by its suffix.
using FieldName = std::function<std::string(const std::string& suffix)>;
/// Statements that merge the state `b` into `a`. `exponential` names the function to use.
std::string merge(const Kernel& kernel, const Fold& fold, std::string_view exponential, const FieldName& a,
                  const FieldName& b);
/// Statement that folds one element (or another's state, where `element` is false) into a plain or position state;
/// `value` and `at` as expressions.
std::string take(const Kernel& kernel, const Fold& fold, const FieldName& a, const std::string& value,
                 const std::string& at, bool element = true);
/// Helper functions that the texts call.
std::string_view fold_prelude();

/// Where a running maximum starts: finite, so that differences from it are never inf - inf.
inline constexpr std::string_view fold_bottom = "(-0x1.fffffep+127f)";

}  // namespace planish::codegen::printing
