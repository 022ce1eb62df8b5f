#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "report/html.h"
#include "report/page.h"
#include "report/svg.h"
#include "search/origin.h"

namespace planish::report::page {
namespace {

/// Lines with a colour of their own; more could not be told apart.
constexpr std::size_t most_coloured = 6;

/// Who proposed something: an agent, or an operator where the strategy has none.
struct Proposer {
  std::string name;
  std::vector<std::pair<double, double>> best;  ///< its own best so far, by number of the evaluation
};

std::vector<Proposer> proposers(const Report& report, const Report::Region& region, std::int64_t& evaluations) {
  std::vector<Proposer> out;
  evaluations = 0;
  for (const auto& candidate : report.candidates) {
    const StoredCandidate& c = candidate.stored;
    if (c.record.region != region.id || c.record.genome.empty() || c.record.level == "full") continue;
    ++evaluations;
    const search::Origin origin = search::origin_from_text(c.record.proposer);
    if (origin.by.empty() || !c.evaluation.ok() || c.record.median_ms <= 0) continue;
    const std::string name = origin.agent < 0
                                 ? origin.by
                                 : fmt::format("agent {}, {}, island {}", origin.agent, origin.focus, origin.island);
    auto known = std::ranges::find(out, name, &Proposer::name);
    if (known == out.end()) known = out.insert(out.end(), {name, {}});
    const double best =
        known->best.empty() ? c.record.median_ms : std::min(known->best.back().second, c.record.median_ms);
    const auto at = static_cast<double>(evaluations);
    if (!known->best.empty()) known->best.emplace_back(at, known->best.back().second);
    known->best.emplace_back(at, best);
  }
  std::ranges::stable_sort(out, {}, [](const Proposer& p) { return p.best.back().second; });
  return out;
}

std::string yields(const std::vector<Yield>& all, const std::string& caption, const std::string& head) {
  if (all.empty()) return {};
  std::string out = fmt::format(
      "<div class=\"scroll\"><table><caption>{}</caption><thead><tr><th>{}</th><th>evaluated</th><th>share</th>"
      "<th>of each quarter of the run, %</th><th>passed</th>"
      "<th>were the fastest so far</th><th>gained %</th></tr></thead><tbody>\n",
      html::escape(caption), html::escape(head));
  for (const Yield& y : all)
    out += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{:.0f} %</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.1f}</td></tr>\n",
        html::escape(y.name), y.proposed, 100 * y.share, quarters_text(y), y.passed, y.improved,
        100 * (std::exp(y.gain) - 1));
  return out + "</tbody></table></div>\n";
}

}  // namespace

std::string agent_chart(const Report& report, const Report::Region& region) {
  std::int64_t evaluations = 0;
  const std::vector<Proposer> all = proposers(report, region, evaluations);
  if (all.empty()) return "<p>This run did not record who proposed what.</p>\n";
  svg::Axis x{.label = "evaluations of the region"}, y{.label = "ms", .log = true};
  x.hold(0);
  x.hold(static_cast<double>(evaluations));
  for (const Proposer& one : all) {
    for (const auto& [at, ms] : one.best) y.hold(ms);
  }
  x.pad();
  y.pad();
  svg::Plot plot("Best time so far of each proposer of region " + region.id, x, y);
  std::string legend = "<ul class=\"legend\">\n";
  // The slower ones first, so that they lie beneath.
  for (std::size_t i = all.size(); i-- > 0;) {
    auto points = all[i].best;
    points.emplace_back(static_cast<double>(evaluations), points.back().second);
    plot.line(points, i < most_coloured ? fmt::format("line by{}", i) : "line by");
  }
  for (std::size_t i = 0; i < std::min(all.size(), most_coloured); ++i)
    legend += fmt::format("<li class=\"by{}\">{}: {} ms</li>\n", i, html::escape(all[i].name),
                          svg::number(all[i].best.back().second));
  if (all.size() > most_coloured) legend += fmt::format("<li>and {} more</li>\n", all.size() - most_coloured);
  return plot.text() + legend + "</ul>\n";
}

std::string learned_section(const Report& report) {
  std::string out = yields(report.learned.operators, "What each way of proposing got and was worth", "operator") +
                    yields(report.learned.agents, "What each agent got and was worth", "agent") +
                    yields(report.learned.cells, "Where what passed lies", "cell");
  for (const Learned::Region& region : report.learned.regions) {
    if (region.best_ms <= 0) continue;
    out += fmt::format("<p>Region {}: {} screened, {} cells filled, the fastest was number {}.",
                       html::escape(region.id), region.evaluations, region.cells, region.to_best);
    if (region.rank_correlation)
      out +=
          fmt::format(" What the cost model said beforehand correlates {:.2f} (Spearman) with the {} times measured.",
                      *region.rank_correlation, region.predicted);
    out += "</p>\n";
  }
  return out.empty() ? "<p>Nothing was searched.</p>\n" : out;
}

}  // namespace planish::report::page
