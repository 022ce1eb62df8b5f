#include <fmt/format.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "report/page.h"
#include "session/result_document.h"

namespace planish::cli {
using namespace session;
using namespace report;

namespace {

Result<std::filesystem::path> write_report(const ReportVerb& options) {
  PLANISH_TRY(auto store, store::Store::open_existing(store_file(options.store)));
  PLANISH_TRY(auto run, store.run(options.run));
  PLANISH_TRY(auto report, load_report(store, run));
  std::filesystem::path out = options.out.empty() ? fmt::format("planish-report-{}.html", run.id) : options.out;
  out = std::filesystem::absolute(out).lexically_normal();
  if (std::filesystem::is_directory(out)) out /= fmt::format("planish-report-{}.html", run.id);
  if (auto made = make_directories(out.parent_path()); !made) return std::unexpected(std::move(made.error()));
  if (auto written = write_file(out, report_page(report)); !written) return std::unexpected(std::move(written.error()));
  return out;
}

}  // namespace

int report_verb(const ReportVerb& options, const Output& output) {
  const auto written = write_report(options);
  if (!written) return output.error(written.error());
  output.result(dump_json({{"schema_version", ResultDocument::schema_version}, {"report", written->string()}}),
                fmt::format("{}\n", written->string()));
  return exit_code::success;
}

}  // namespace planish::cli
