#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "cli/doctor_checks.h"
#include "cli/exit_code.h"
#include "cli/result_document.h"
#include "cli/verbs.h"
#include "cli/version.h"

namespace planish::cli {
namespace {

const char* word(Check::Need need) {
  switch (need) {
    case Check::Need::required:
      return "required";
    case Check::Need::cpu_target:
      return "cpu";
    case Check::Need::cuda_target:
      return "cuda";
    case Check::Need::optional:
      return "optional";
  }
  return "";
}

bool all_ok(const std::vector<Check>& checks, Check::Need need) {
  return std::ranges::all_of(checks, [need](const Check& check) { return check.ok || check.need != need; });
}

}  // namespace

int doctor_verb(const std::string& store, const Output& output) {
  const auto checks = run_checks(store_file(store));
  const bool base = all_ok(checks, Check::Need::required);
  const bool cpu = base && all_ok(checks, Check::Need::cpu_target);
  const bool cuda = base && all_ok(checks, Check::Need::cuda_target);
  Json document = {{"schema_version", ResultDocument::schema_version},
                   {"planish", version},
                   {"targets", {{"cpu", cpu}, {"cuda", cuda}}},
                   {"checks", Json::array()}};
  std::string text = fmt::format("planish {}\n", version);
  for (const Check& check : checks) {
    document["checks"].push_back({{"name", check.name},
                                  {"ok", check.ok},
                                  {"need", word(check.need)},
                                  {"found", check.found},
                                  {"advice", check.advice}});
    text += fmt::format("  {} {:<16} {}\n", check.ok ? "ok " : "-- ", check.name, check.found);
    if (!check.ok && !check.advice.empty()) text += fmt::format("      {:<16} -> {}\n", "", check.advice);
  }
  text += fmt::format("target cpu: {}; target cuda: {}\n", cpu ? "ready" : "not ready", cuda ? "ready" : "not ready");
  output.result(dump_json(document), text);
  return cpu || cuda ? exit_code::success : exit_code::environment;
}

}  // namespace planish::cli
