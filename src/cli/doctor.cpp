#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "backend/backend.h"
#include "base/json.h"
#include "cli/doctor_checks.h"
#include "cli/exit_code.h"
#include "cli/verbs.h"
#include "session/result_document.h"
#include "session/version.h"

namespace planish::cli {
using namespace session;

namespace {

std::string word(const Check& check) {
  switch (check.need) {
    case Check::Need::required:
      return "required";
    case Check::Need::target:
      return check.target;
    case Check::Need::optional:
      return "optional";
  }
  return "";
}

/// Whether all is there that this target needs.
bool ready(const std::vector<Check>& checks, const backend::Backend& target) {
  return std::ranges::all_of(checks, [&](const Check& check) {
    return check.ok || check.need == Check::Need::optional ||
           (check.need == Check::Need::target && check.target != target.name);
  });
}

}  // namespace

int doctor_verb(const std::string& store, const Output& output) {
  const auto checks = run_checks(store_file(store));
  Json document = {{"schema_version", ResultDocument::schema_version},
                   {"planish", version},
                   {"targets", Json::object()},
                   {"checks", Json::array()}};
  std::string text = fmt::format("planish {}\n", version);
  for (const Check& check : checks) {
    document["checks"].push_back({{"name", check.name},
                                  {"ok", check.ok},
                                  {"need", word(check)},
                                  {"found", check.found},
                                  {"advice", check.advice}});
    text += fmt::format("  {} {:<16} {}\n", check.ok ? "ok " : "-- ", check.name, check.found);
    if (!check.ok && !check.advice.empty()) text += fmt::format("      {:<16} -> {}\n", "", check.advice);
  }
  bool any = false;
  std::string targets;
  for (const backend::Backend* target : std::views::reverse(backend::all())) {
    const bool good = ready(checks, *target);
    any = any || good;
    document["targets"][target->name] = good;
    targets += fmt::format("{}target {}: {}", targets.empty() ? "" : "; ", target->name, good ? "ready" : "not ready");
  }
  text += targets + "\n";
  output.result(dump_json(document), text);
  if (any) output.next({"optimize", "TASK.py"});
  return any ? exit_code::success : exit_code::environment;
}

}  // namespace planish::cli
