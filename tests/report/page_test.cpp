#include "report/page.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "report/html.h"
#include "report/line_diff.h"
#include "report/svg.h"

using namespace planish;
using namespace planish::report;

namespace {

Report::Candidate candidate(const std::string& program, const std::string& parent, double ms,
                            const std::string& genome = "threads=1") {
  Report::Candidate out;
  out.stored.record.program = program;
  out.stored.record.parent = parent;
  out.stored.record.region = "r0";
  out.stored.record.genome = genome;
  out.stored.record.median_ms = ms;
  out.stored.record.outcome = "ok";
  out.stored.genome = *codegen::genome_from_text(genome);
  out.stored.evaluation.outcome = Outcome::ok;
  out.stored.evaluation.tier = Tier::bench;
  out.stored.evaluation.bench = BenchReport{};
  out.stored.evaluation.bench->median_ms = ms;
  return out;
}

Report sample() {
  Report report;
  report.run.id = "run-1";
  report.run.task = "</title><script>";
  report.regions.resize(1);
  report.regions[0].id = "r0";
  report.candidates = {candidate("a", "", 4), candidate("b", "a", 5, "threads=2"),
                       candidate("c", "b", 3, "threads=2 unroll=2"), candidate("d", "a", 6)};
  return report;
}

std::string joined(const std::vector<DiffLine>& lines) {
  std::string out;
  for (const auto& line : lines) out += line.mark + std::string(line.text) + "|";
  return out;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("text is escaped, whatever bytes it has") {
  CHECK(html::escape("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;");
  CHECK(html::escape("x \u00b7 \u2192") == "x \u00b7 \u2192");
  const std::string broken = "\xEF\xBF\xBD";
  CHECK(html::escape("\xff") == broken);
  CHECK(html::escape("\xc3(") == broken + "(");
  CHECK(html::escape(std::string("\0\x1b[", 3)) == broken + broken + "[");
  CHECK(html::escape("\xed\xa0\x80") == broken + broken + broken);  // a surrogate
  CHECK(html::escape("\xe2\x82") == broken + broken);               // cut off
  CHECK(html::script_json(R"({"a":"</script><!--&"})") == R"({"a":"\u003c/script\u003e\u003c!--\u0026"})");
}

TEST_CASE("differences by line, with what surrounds them") {
  CHECK(joined(line_diff("a\nb\nc\n", "a\nx\nc\n", 1)) == " a|-b|+x| c|");
  CHECK(joined(line_diff("a\nb\nc\n", "a\nc\n", 0)) == "@|-b|@|");
  CHECK(joined(line_diff("", "a\n", 1)) == "+a|");
  CHECK(line_diff("a\nb\n", "a\nb\n").empty());
  CHECK(line_diff("", "").empty());
  CHECK(joined(line_diff("1\n2\n3\n", "4\n", 3, 3)) == "@too long to compare|");
}

TEST_CASE("axes hold what they are given, and ticks lie within") {
  svg::Axis axis{.label = "ms", .log = true};
  axis.hold(0);
  axis.hold(std::numeric_limits<double>::infinity());
  CHECK(axis.empty);
  axis.hold(0.02);
  axis.hold(30);
  axis.pad();
  for (const double tick : axis.ticks()) CHECK((tick >= axis.lo && tick <= axis.hi));
  CHECK(axis.ticks().size() >= 3);
  svg::Axis flat{.label = "s"};
  flat.hold(0);
  flat.pad();
  CHECK(!flat.ticks().empty());
  CHECK(flat.ticks().size() < 20);
}

TEST_CASE("labels of levels that lie close do not cover each other") {
  for (const double close : {1.0, 5.0, 9.9}) {
    svg::Axis x{.label = "s"}, y{.label = "ms"};
    x.hold(0);
    x.hold(1);
    y.hold(0);
    y.hold(10);
    svg::Plot plot("levels", x, y);
    for (const double level : {close, close * 1.001, close * 0.999}) plot.level(level, "here", "level");
    const std::string text = plot.text();
    std::vector<double> lines;
    for (std::size_t at = text.find("class=\"note\""); at != std::string::npos;
         at = text.find("class=\"note\"", at + 1))
      lines.push_back(std::stod(text.substr(text.find(" y=\"", at) + 4)));
    REQUIRE(lines.size() == 3);
    std::ranges::sort(lines);
    CHECK(lines[0] > 10);
    CHECK(lines[1] - lines[0] >= 12.9);
    CHECK(lines[2] - lines[1] >= 12.9);
    CHECK(lines[2] < 280);
  }
}

TEST_CASE("the fastest candidate's ancestors, and each that was the fastest so far") {
  const Report report = sample();
  CHECK(lineage(report, "r0") == std::vector<std::size_t>{0, 1, 2});
  CHECK(improvements(report, "r0") == std::vector<std::size_t>{0, 2});
  CHECK(lineage(report, "r1").empty());
  Report circle = sample();
  circle.candidates[0].stored.record.parent = "c";
  CHECK(lineage(circle, "r0").size() == 3);
}

TEST_CASE("the archive's 36 cells, each with the candidate that a click shows") {
  Report report = sample();
  report.run.target = "cuda";
  for (auto& c : report.candidates) c.stored.record.cell = 7;
  report.candidates[3].stored.record.cell = 20;
  const std::string map = page::archive_map(report, report.regions[0]);
  CHECK(count(map, "class=\"none\"") >= 34);
  CHECK(map.find("2 of 36") != std::string::npos);
  CHECK(map.find("data-pick=\"2\"") != std::string::npos);  // the fastest of its cell
  CHECK(map.find("data-pick=\"3\"") != std::string::npos);
  CHECK(map.find("data-pick=\"0\"") == std::string::npos);
}

TEST_CASE("a page is read anew while its run goes on, and no longer") {
  Report report = sample();
  for (const auto& [state, times] : {std::pair{"running", 1}, {"finished", 0}, {"killed", 0}}) {
    report.state = state;
    CHECK(count(report_page(report), "http-equiv=\"refresh\"") == static_cast<std::size_t>(times));
  }
}

TEST_CASE("a page closes what it opens and escapes what it is told") {
  Report report = sample();
  report.regions[0].cells = {{"fused, <small>, one wave", 3.5}};
  report.candidates[2].stored.record.proposer = "step agent=3 island=1 focus=<fusion>";
  report.times.push_back({"eager", 2, 1.9, 2.1, 0, ""});
  report.times.push_back({"compile", 0, 0, 0, 0, "<b>no</b>"});
  const std::string page = report_page(report);
  CHECK(page.find("<title>&lt;/title&gt;&lt;script&gt;") != std::string::npos);
  CHECK(count(page, "<script") == 2);
  CHECK(page.find("<b>no") == std::string::npos);
  CHECK(page.find("&lt;small&gt;, one wave") != std::string::npos);
  CHECK(page.find("threads 1 → 2") != std::string::npos);
  for (const char* tag : {"section", "table", "svg", "tr", "ol", "details", "div"}) {
    CHECK_MESSAGE(count(page, std::string("<") + tag + ">") + count(page, std::string("<") + tag + " ") ==
                      count(page, std::string("</") + tag + ">"),
                  tag);
  }
  CHECK(page.find("agent 3, &lt;fusion&gt;, island 1") != std::string::npos);
  CHECK(report_page(Report{}).find("</html>") != std::string::npos);
}
