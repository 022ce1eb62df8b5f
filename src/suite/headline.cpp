#include "suite/headline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace planish::suite {
namespace {

std::string text_of(const Json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::optional<Headline> pick_headline(std::string_view form, const std::map<std::string, double>& speedup,
                                      const std::string& best_baseline, const std::vector<std::string>& refused) {
  if (best_baseline.empty()) return std::nullopt;
  if (form == "baseline") return Headline{1, best_baseline};
  if (form != "program" && form != "solution") return std::nullopt;
  std::string against(headline_baseline);
  if (!speedup.contains(against) || std::ranges::find(refused, against) != refused.end()) against = best_baseline;
  const auto found = speedup.find(against);
  if (found == speedup.end() || !std::isfinite(found->second) || found->second <= 0) return std::nullopt;
  return Headline{found->second, against};
}

std::optional<Headline> headline_of(std::string_view result_document) {
  const auto json = parse_json(result_document.empty() ? "null" : result_document, "bad_result", "result");
  if (!json || !json->is_object()) return std::nullopt;
  if (const auto kept = json->find("headline"); kept != json->end()) {
    if (!kept->is_object() || !kept->contains("speedup") || !(*kept)["speedup"].is_number()) return std::nullopt;
    return Headline{(*kept)["speedup"].get<double>(), text_of(*kept, "baseline")};
  }
  std::map<std::string, double> speedup;
  if (const auto all = json->find("speedup"); all != json->end() && all->is_object()) {
    for (const auto& [name, value] : all->items()) {
      if (value.is_number()) speedup[name] = value.get<double>();
    }
  }
  std::vector<std::string> refused;
  if (const auto all = json->find("refused_baselines"); all != json->end() && all->is_array()) {
    for (const Json& name : *all) {
      if (name.is_string()) refused.push_back(name.get<std::string>());
    }
  }
  return pick_headline(text_of(*json, "form"), speedup, text_of(*json, "best_baseline"), refused);
}

std::string ratio_text(double ratio) {
  constexpr double most_digits = 1000;  // of more nobody wants to know the last
  return ratio < most_digits ? fmt::format("{:.2f}", ratio) : fmt::format("{:.3g}", ratio);
}

std::string mode_label(std::string_view mode) {
  if (mode == "eager") return "PyTorch eager";
  if (mode == "compile") return "torch.compile";
  if (mode == "max_autotune_no_cudagraphs") return "torch.compile (max-autotune-no-cudagraphs)";
  if (mode == "max_autotune") return "torch.compile (max-autotune, CUDA graphs)";
  if (mode == "shipped") return "what Planish ships";
  if (mode == "candidate") return "the best that Planish found (not shipped)";
  return std::string(mode);
}

std::string headline_text(const std::optional<Headline>& headline) {
  if (!headline) return "no time to compare";
  if (headline->speedup == 1) return fmt::format("no gain over {}", mode_label(headline->baseline));
  return fmt::format("{:.2f}x {} {}", headline->speedup >= 1 ? headline->speedup : 1 / headline->speedup,
                     headline->speedup >= 1 ? "faster than" : "slower than", mode_label(headline->baseline));
}

}  // namespace planish::suite
