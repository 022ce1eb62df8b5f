#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/json.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "report/page.h"
#include "session/result_document.h"

namespace planish::cli {
using namespace session;
using namespace report;

namespace {

struct Written {
  std::filesystem::path page;
  std::string run;
  bool goes_on = false;  ///< somebody works on the run
};

Result<Written> write_report(const ReportVerb& options) {
  PLANISH_TRY(auto store, store::Store::open_existing(store_file(options.store)));
  PLANISH_TRY(auto run, store.run(options.run));
  PLANISH_TRY(auto report, load_report(store, run));
  std::filesystem::path out = options.out.empty() ? fmt::format("planish-report-{}.html", run.id) : options.out;
  out = std::filesystem::absolute(out).lexically_normal();
  if (std::filesystem::is_directory(out)) out /= fmt::format("planish-report-{}.html", run.id);
  if (auto made = make_directories(out.parent_path()); !made) return std::unexpected(std::move(made.error()));
  if (auto written = write_file(out, report_page(report)); !written) return std::unexpected(std::move(written.error()));
  return Written{out, run.id, report.goes_on()};
}

/// Until the run has ended, or somebody interrupts. `latest` stays the run that it was.
Result<Written> write_until_it_has_ended(ReportVerb options, Written written) {
  constexpr auto look_every = std::chrono::milliseconds(100);
  constexpr int looks = 20;
  const CancelToken cancel = watch_interrupts();
  options.run = written.run;
  while (written.goes_on && !cancel.cancelled()) {
    for (int look = 0; look < looks && !cancel.cancelled(); ++look) std::this_thread::sleep_for(look_every);
    PLANISH_TRY(written, write_report(options));
  }
  return written;
}

}  // namespace

int report_verb(const ReportVerb& options, const Output& output) {
  auto written = write_report(options);
  if (written && options.watch && written->goes_on) {
    output.say(fmt::format("{} (open it; it shows the run until that has ended; Ctrl-C ends)", written->page.string()));
    written = write_until_it_has_ended(options, std::move(*written));
  }
  if (!written) return output.error(written.error());
  output.result(dump_json({{"schema_version", ResultDocument::schema_version}, {"report", written->page.string()}}),
                fmt::format("{}\n", written->page.string()));
  return written->goes_on && options.watch ? exit_code::interrupted : exit_code::success;
}

}  // namespace planish::cli
