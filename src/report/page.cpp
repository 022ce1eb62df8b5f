#include "report/page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "report/html.h"
#include "report/settings_words.h"
#include "report/svg.h"
#include "session/result_text.h"
#include "session/version.h"

namespace planish::report {
using namespace session;

namespace {

std::string section(const std::string& id, const std::string& title, const std::string& body) {
  return fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", id, html::escape(title), body);
}

std::string facts(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string out = "<table class=\"facts\"><tbody>\n";
  for (const auto& [name, value] : rows)
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", html::escape(name), html::escape(value));
  return out + "</tbody></table>\n";
}

std::string summary(const Report& report) {
  const store::RunRecord& run = report.run;
  std::vector<std::pair<std::string, std::string>> rows{
      {"run", run.id},
      {"task", fmt::format("{} ({})", run.task, run.task_path)},
      {"device", fmt::format("{} ({})", run.device, run.target)},
      {"state", report.state + (run.outcome.empty() ? "" : ", " + run.outcome)}};
  if (!report.form.empty())
    rows.emplace_back("ships", report.form == "program"          ? "the kernels that were found"
                               : report.form == "solution"       ? "a solution that a coder wrote, as Python"
                               : report.shipped_baseline.empty() ? "the fastest baseline"
                                                                 : suite::mode_label(report.shipped_baseline));
  if (run.started > 0) {
    rows.emplace_back("started",
                      fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(run.started))));
  }
  if (run.finished > run.started) rows.emplace_back("took", fmt::format("{:.1f} s", run.finished - run.started));
  for (auto& row : settings_words(run.settings)) rows.push_back(std::move(row));
  return facts(rows);
}

/// What came of it, before anything else.
std::string conclusion(const Report& report) {
  std::string out;
  if (report.times.empty()) {
    out = fmt::format("<p class=\"conclusion\">The run is {} and has timed nothing beside the baselines.</p>\n",
                      html::escape(report.state));
  } else {
    const std::string says = text({report.run.outcome, report.form, report.headline, report.best_baseline,
                                   report.speedup_best, report.shipped_baseline});
    out = fmt::format("<p class=\"conclusion\"><strong>{}</strong> on {}.</p>\n", html::escape(says),
                      html::escape(report.run.device));
  }
  if (!report.reason.empty()) out += fmt::format("<p>Why no more: {}.</p>\n", html::escape(report.reason));
  return out + page::baseline_chart(report);
}

std::string why(const Report& report) {
  if (report.why.empty()) return {};
  std::string out = "<ul>\n";
  for (const std::string& line : report.why) out += fmt::format("<li>{}</li>\n", html::escape(line));
  return out + "</ul>\n";
}

std::string accuracy(const Report& report) {
  if (report.accuracy.empty()) return "<p>The run has no result yet.</p>\n";
  std::string out = facts(report.accuracy);
  if (!report.skipped.empty()) {
    out += "<table><caption>Regimes that the task cannot take</caption><tbody>\n";
    for (const auto& [regime, why] : report.skipped)
      out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", html::escape(regime), html::escape(why));
    out += "</tbody></table>\n";
  }
  // What the whole program was tested on last.
  const Report::Candidate* whole = nullptr;
  for (const auto& c : report.candidates) {
    if (c.stored.record.region == "task" && c.stored.evaluation.test && c.stored.evaluation.ok() &&
        c.stored.record.level == "full")
      whole = &c;
  }
  if (whole == nullptr) return out;
  out +=
      "<div class=\"scroll\"><table><caption>The whole program in its last full "
      "test</caption><thead><tr><th>regime</th>"
      "<th>output</th><th>error</th><th>gate</th><th>eager</th><th>largest</th><th>gate</th><th>reference</th></tr>"
      "</thead><tbody>\n";
  for (const TestCase& test : whole->stored.evaluation.test->cases) {
    for (std::size_t i = 0; i < test.outputs.size(); ++i) {
      const OutputErrors& e = test.outputs[i];
      out += fmt::format(
          "<tr><td>{}</td><td>{}</td><td class=\"n\">{:.2e}</td><td class=\"n\">{:.2e}</td><td class=\"n\">"
          "{:.2e}</td><td class=\"n\">{:.2e}</td><td class=\"n\">{:.2e}</td><td>{}</td></tr>\n",
          html::escape(test.regime), i, e.fro, e.gate_fro, e.eager_fro, e.max, e.gate_max,
          html::escape(test.reference));
    }
  }
  return out + "</tbody></table></div>\n";
}

std::string outcomes(const Report& report) {
  std::string out = "<div class=\"scroll\"><table><caption>Outcomes by the last tier entered</caption><tbody>\n";
  for (const auto& [tier, counts] : report.outcomes) {
    for (const auto& [outcome, n] : counts)
      out += fmt::format("<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td></tr>\n", html::escape(tier),
                         html::escape(outcome), n);
  }
  return out + "</tbody></table></div>\n";
}

std::string fusions(const Report& report) {
  if (report.fusions.empty()) return {};
  std::string out =
      "<div class=\"scroll\"><table><caption>Other ways to cut the task</caption><thead><tr><th>in place of</th>"
      "<th>regions</th><th>ms before</th><th>ms</th><th></th></tr></thead><tbody>\n";
  const auto ms = [](double value) { return value > 0 ? svg::number(value) : std::string("–"); };
  for (const Report::FusionPlan& fusion : report.fusions) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n",
                       html::escape(fusion.replaces), html::escape(fusion.by), ms(fusion.before_ms),
                       ms(fusion.after_ms), fusion.used ? "used" : "not used");
  }
  return out + "</tbody></table></div>\n";
}

std::string regions(const Report& report) {
  std::string out = fusions(report);
  for (const Report::Region& region : report.regions) {
    std::vector<std::pair<std::string, std::string>> rows;
    if (!region.summary.empty()) rows.emplace_back("stands for", region.summary);
    if (region.count > 1) rows.emplace_back("occurs", fmt::format("{} times", region.count));
    if (region.best_ms > 0) {
      rows.emplace_back("best", fmt::format("{} ms{}", svg::number(region.best_ms), region.used ? "" : " (not used)"));
      rows.emplace_back("genome", region.genome);
    }
    if (region.fallback_ms > 0)
      rows.emplace_back("PyTorch's operators", fmt::format("{} ms", svg::number(region.fallback_ms)));
    if (region.bound_ms > 0)
      rows.emplace_back("the device's limit", fmt::format("{} ms", svg::number(region.bound_ms)));
    out += fmt::format(
        "<article><h3>Kernel {}</h3>\n{}<h4>Best time so far</h4>\n{}<h4>Best so far by "
        "proposer</h4>\n{}<h4>Archive</h4>\n{}<h4>Lineage of the "
        "fastest</h4>\n{}</article>\n",
        html::escape(region.id), facts(rows), page::progress_chart(report, region), page::agent_chart(report, region),
        page::archive_map(report, region), page::lineage_section(report, region));
  }
  return out.empty() ? "<p>Nothing of the task could be searched.</p>\n" : out;
}

}  // namespace

std::string report_page(const Report& report) {
  const std::string title = fmt::format("{} · {}", report.run.task, report.run.id);
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src "
      "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  // There is more to show soon (`planish report --watch`).
  if (report.goes_on()) out += "<meta http-equiv=\"refresh\" content=\"5\">\n";
  out += fmt::format("<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<header><h1>{}</h1></header>\n<main>\n",
                     html::escape(title), page::style(), html::escape(title));
  out += section("baselines", "What came of it", conclusion(report));
  if (!report.why.empty()) out += section("why", "Why is it faster?", why(report));
  out += section("summary", "The run and its settings", summary(report));
  out += section("accuracy", "The proof: how exact it is", accuracy(report));
  out += section("funnel", "The search: how far candidates came",
                 page::funnel_chart(report) + outcomes(report) + facts(report.search));
  out += section("regions", "The search: kernel by kernel", regions(report));
  out += section("learned", "What the search learned", page::learned_section(report));
  out += section("roofline", "How near the limits of the device", page::roofline_chart(report));
  out += section("all", "Every candidate",
                 "<p>Headings sort; a row or a point shows its kernel and what the judge says of it.</p>\n" +
                     page::candidate_table(report));
  out += fmt::format(
      "</main>\n<aside id=\"details\" aria-live=\"polite\" hidden></aside>\n<footer>planish {}</footer>\n<script "
      "type=\"application/json\" id=\"data\">{}</script>\n"
      "<script>\n{}</script>\n</body>\n</html>\n",
      version, html::script_json(page::candidate_json(report)), page::script());
  return out;
}

}  // namespace planish::report
