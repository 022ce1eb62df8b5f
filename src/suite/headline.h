#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

/// The one number that a run is known by. The terminal, the report, `runs`, `show`, the suite and the result document
/// all take it from here, so that no two of them name different gains for one run.
namespace planish::suite {

/// The baseline that a gain is quoted against wherever it was timed and is right.
inline constexpr std::string_view headline_baseline = "max_autotune_no_cudagraphs";

struct Headline {
  double speedup = 1;    ///< 1 where the best baseline is what ships: nothing was gained
  std::string baseline;  ///< the mode it is against
};

/// Against `headline_baseline`, or, where that was not timed or is refused, against the best baseline. Nothing where
/// there is no time to compare, and where nothing ships. `form` and the names are those of docs/formats/result.md.
std::optional<Headline> pick_headline(std::string_view form, const std::map<std::string, double>& speedup,
                                      const std::string& best_baseline, const std::vector<std::string>& refused);
/// Of a result document, also of one written before the field `headline` existed. Nothing for a text that is none.
std::optional<Headline> headline_of(std::string_view result_document);

/// An error as many times eager's: "1.25", "1e+300" where eager's is nearly nothing.
std::string ratio_text(double ratio);
/// A mode as PyTorch's users know it: "torch.compile (max-autotune-no-cudagraphs)".
std::string mode_label(std::string_view mode);
/// "2.97x faster than torch.compile (max-autotune-no-cudagraphs)", or that nothing was gained.
std::string headline_text(const std::optional<Headline>& headline);

}  // namespace planish::suite
