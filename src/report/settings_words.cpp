#include "report/settings_words.h"

#include <fmt/format.h>

#include <map>

#include "base/json.h"
#include "suite/headline.h"

namespace planish::report {
namespace {

std::string value_text(const std::string& name, const Json& value) {
  if (name == "budget_seconds" && value.is_number())
    return value.get<double>() > 0 ? fmt::format("{:g} s", value.get<double>()) : "no limit of time";
  if (name == "evaluations" && value.is_number_integer())
    return value.get<std::int64_t>() > 0 ? fmt::format("{}", value.get<std::int64_t>()) : "no limit";
  if (name == "draws" && value.is_number_integer() && value.get<std::int64_t>() == 0) return "a few thousand";
  if (name == "turns" && value.is_number_integer() && value.get<std::int64_t>() == 0) return "as the strategy says";
  if (name == "cold" && value.is_boolean())
    return value.get<bool>() ? "with nothing known" : "with what earlier runs on this device measured";
  if (name == "accuracy" && value == "eager") return "no less accurate than eager";
  if (name == "accuracy" && value == "permitted")
    return "no less accurate than eager, or than TF32 where torch's flags permit it";
  if (name == "accuracy" && value == "tf32") return "no less accurate than eager with TF32 allowed";
  if (value.is_array()) {
    std::string out;
    for (const Json& item : value) {
      out += out.empty() ? "" : ", ";
      out += item.is_string() ? suite::mode_label(item.get<std::string>()) : dump_json(item);
    }
    return out.empty() ? "none" : out;
  }
  return value.is_string() ? value.get<std::string>() : dump_json(value);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> settings_words(const std::string& settings) {
  if (settings.empty()) return {};
  static const std::map<std::string, std::string> titles = {{"target", "target asked for"},
                                                            {"accuracy", "counts as right"},
                                                            {"budget_seconds", "time to search"},
                                                            {"evaluations", "most candidates"},
                                                            {"seed", "seed"},
                                                            {"strategy", "search strategy"},
                                                            {"baselines", "baselines"},
                                                            {"draws", "genomes drawn and ranked first"},
                                                            {"cold", "began"},
                                                            {"memory_check", "memory accesses checked"},
                                                            {"coders", "coders in seats"},
                                                            {"models", "seats of language models"},
                                                            {"turns", "answers of each seat in a region"},
                                                            {"judge", "judge"}};
  const auto json = parse_json(settings, "store_corrupt", "settings");
  if (!json || !json->is_object()) return {{"settings", settings}};
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [name, value] : json->items()) {
    const auto title = titles.find(name);
    out.emplace_back(title == titles.end() ? name : title->second, value_text(name, value));
  }
  return out;
}

}  // namespace planish::report
