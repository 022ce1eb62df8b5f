#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cli/html.h"
#include "cli/report_page.h"
#include "cli/svg.h"

namespace planish::cli::page {
namespace {

std::string tip_of(std::size_t i, const Report::Candidate& c) {
  return fmt::format("#{} {} ms {}", i, svg::number(c.stored.record.median_ms), c.stored.record.genome);
}

bool timed(const Report::Candidate& c) {
  return c.stored.record.median_ms > 0 && c.stored.evaluation.bench.has_value();
}

std::string point_class(const Report::Candidate& c) {
  if (c.stored.record.genome.empty()) return "dot aten";
  if (!c.stored.evaluation.ok()) return "dot failed";
  return c.stored.record.level == "full" ? "dot full" : "dot";
}

/// A table whose cells are coloured by time: dark is fast.
struct HeatMap {
  std::vector<std::string> rows, columns;
  std::map<std::pair<std::size_t, std::size_t>, double> ms;

  std::size_t row(const std::string& name) { return position(rows, name); }
  std::size_t column(const std::string& name) { return position(columns, name); }

  std::string text(const std::string& caption) const {
    double best = 1e300;
    for (const auto& [at, value] : ms) best = std::min(best, value);
    std::string out =
        fmt::format("<div class=\"scroll\"><table class=\"heat\"><caption>{}</caption>\n<thead><tr><th></th>",
                    html::escape(caption));
    for (const auto& name : columns) out += fmt::format("<th scope=\"col\">{}</th>", html::escape(name));
    out += "</tr></thead>\n<tbody>\n";
    for (std::size_t r = 0; r < rows.size(); ++r) {
      out += fmt::format("<tr><th scope=\"row\">{}</th>", html::escape(rows[r]));
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const auto found = ms.find({r, c});
        if (found == ms.end()) {
          out += "<td class=\"none\"></td>";
        } else {
          // Twice the best time is as pale as it gets.
          const double heat = std::clamp(2 - found->second / best, 0.05, 1.0);
          out += fmt::format("<td style=\"--heat:{:.2f}\">{}</td>", heat, svg::number(found->second));
        }
      }
      out += "</tr>\n";
    }
    return out + "</tbody></table></div>\n";
  }

 private:
  static std::size_t position(std::vector<std::string>& names, const std::string& name) {
    const auto found = std::ranges::find(names, name);
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
    names.push_back(name);
    return names.size() - 1;
  }
};

/// Part of the variance of log times that the gene's value explains.
double explained(const std::vector<std::pair<codegen::Genome, double>>& rows, const std::string& gene) {
  std::map<std::int64_t, std::pair<double, double>> groups;  // sum, count
  double sum = 0;
  for (const auto& [genome, ms] : rows) {
    const auto value = genome.find(gene);
    if (value == genome.end()) return 0;
    auto& [s, n] = groups[value->second];
    s += std::log(ms);
    n += 1;
    sum += std::log(ms);
  }
  const double n = static_cast<double>(rows.size()), mean = sum / n;
  if (groups.size() < 2 || groups.size() * 2 > rows.size()) return 0;
  double between = 0;
  for (const auto& [value, group] : groups) between += group.second * std::pow(group.first / group.second - mean, 2);
  return between;
}

std::string gene_map(const Report& report, const Report::Region& region) {
  std::vector<std::pair<codegen::Genome, double>> rows;
  std::map<std::string, std::set<std::int64_t>> values;
  for (const auto& c : report.candidates) {
    if (c.stored.record.region != region.id || !c.stored.evaluation.ok() || !timed(c) || c.stored.genome.empty())
      continue;
    rows.emplace_back(c.stored.genome, c.stored.record.median_ms);
    for (const auto& [gene, value] : c.stored.genome) values[gene].insert(value);
  }
  std::vector<std::pair<double, std::string>> genes;
  for (const auto& [gene, seen] : values) {
    if (const double part = explained(rows, gene); part > 0) genes.emplace_back(-part, gene);
  }
  std::ranges::sort(genes);
  if (genes.size() < 2) return "<p>Too few candidates were timed for a map.</p>\n";
  const std::string down = genes[0].second, across = genes[1].second;
  HeatMap map;
  for (const auto value : values[down]) map.row(fmt::format("{} {}", down, value));
  for (const auto value : values[across]) map.column(fmt::format("{} {}", across, value));
  for (const auto& [genome, ms] : rows) {
    const std::pair at{map.row(fmt::format("{} {}", down, genome.at(down))),
                       map.column(fmt::format("{} {}", across, genome.at(across)))};
    const auto [cell, added] = map.ms.try_emplace(at, ms);
    if (!added) cell->second = std::min(cell->second, ms);
  }
  return map.text(fmt::format("Best milliseconds by the two genes that explain most: {} and {}", down, across));
}

}  // namespace

std::string progress_chart(const Report& report, const Report::Region& region) {
  svg::Axis x{.label = "seconds"}, y{.label = "ms", .log = true};
  x.hold(0);
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const auto& c = report.candidates[i];
    if (c.stored.record.region != region.id || !timed(c)) continue;
    shown.push_back(i);
    x.hold(c.stored.record.at_seconds);
    y.hold(c.stored.record.median_ms);
  }
  if (shown.empty()) return "<p>Nothing was timed.</p>\n";
  y.hold(region.fallback_ms);
  y.hold(region.bound_ms);
  x.pad();
  y.pad();
  svg::Plot plot("Best time so far of region " + region.id, x, y);
  if (region.fallback_ms > 0) plot.level(region.fallback_ms, "PyTorch's form", "level fallback");
  if (region.bound_ms > 0) plot.level(region.bound_ms, "roofline", "level bound");
  std::vector<std::pair<double, double>> best;
  for (const std::size_t i : improvements(report, region.id)) {
    const auto& r = report.candidates[i].stored.record;
    if (!best.empty()) best.emplace_back(r.at_seconds, best.back().second);
    best.emplace_back(r.at_seconds, r.median_ms);
  }
  if (!best.empty()) {
    best.emplace_back(report.candidates[shown.back()].stored.record.at_seconds, best.back().second);
    plot.line(best, "line best");
  }
  for (const std::size_t i : shown) {
    const auto& c = report.candidates[i];
    plot.dot(c.stored.record.at_seconds, c.stored.record.median_ms, point_class(c), tip_of(i, c), static_cast<int>(i));
  }
  return plot.text();
}

std::string roofline_chart(const Report& report) {
  struct Point {
    std::size_t i;
    double intensity, rate;
  };
  std::vector<Point> points;
  double bandwidth = 0, peak = 0;  // bytes and operations a millisecond
  svg::Axis x{.label = "operations a byte that must move", .log = true}, y{.label = "GFLOP/s", .log = true};
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    const auto& c = report.candidates[i];
    const auto& r = c.stored.evaluation.roofline;
    if (!timed(c) || !r || !(r->flops > 0) || !(r->bytes > 0) || !(r->bound_ms > 0)) continue;
    points.push_back({i, r->flops / r->bytes, r->flops / c.stored.record.median_ms / 1e6});
    x.hold(points.back().intensity);
    y.hold(points.back().rate);
    y.hold(r->flops / r->bound_ms / 1e6);
    (r->bound == "memory" ? bandwidth : peak) = r->bound == "memory" ? r->bytes / r->bound_ms : r->flops / r->bound_ms;
  }
  if (points.empty()) return "<p>No candidate has both a time and arithmetic to place it by.</p>\n";
  x.hold(x.lo / 2);
  x.hold(x.hi * 2);
  x.pad();
  y.pad();
  svg::Plot plot("Roofline", x, y);
  if (bandwidth > 0) {
    // Rising with the intensity, until the peak where that is known.
    std::vector<std::pair<double, double>> roof;
    for (int i = 0; i <= 60; ++i) {
      const double at = x.lo * std::pow(x.hi / x.lo, i / 60.0);
      double rate = at * bandwidth / 1e6;
      if (peak > 0) rate = std::min(rate, peak / 1e6);
      if (rate >= y.lo && rate <= y.hi) roof.emplace_back(at, rate);
    }
    if (roof.size() > 1) plot.line(roof, "line roof");
  }
  if (peak > 0) plot.level(peak / 1e6, "peak", "level bound");
  for (const Point& p : points) {
    const auto& c = report.candidates[p.i];
    plot.dot(
        p.intensity, p.rate, point_class(c),
        fmt::format("{}: {:.0f} % of the roofline ({})", tip_of(p.i, c),
                    100 * c.stored.evaluation.roofline->bound_ms / c.stored.record.median_ms, c.stored.record.region),
        static_cast<int>(p.i));
  }
  return plot.text();
}

std::string baseline_chart(const Report& report) {
  std::vector<svg::Bar> bars;
  for (const auto& time : report.times) {
    svg::Bar bar;
    bar.label = time.name;
    bar.css = time.name == "shipped" || time.name == "candidate" ? "bar ours" : "bar";
    if (time.error.empty()) {
      bar.value = time.median;
      bar.lo = time.lo;
      bar.hi = time.hi;
      bar.note = fmt::format("{} ms [{}, {}]", svg::number(time.median), svg::number(time.lo), svg::number(time.hi));
    } else {
      bar.note = time.error.substr(0, 60);
    }
    bars.push_back(std::move(bar));
  }
  if (bars.empty()) return "<p>Nothing was timed beside the baselines.</p>\n";
  return svg::bars("Median time of a call, with its 95 % interval", bars);
}

std::string funnel_chart(const Report& report) {
  std::vector<svg::Bar> bars;
  for (const auto& [stage, n] : report.funnel) {
    // By magnitude: a hundred thousand drawn beside thirty timed.
    bars.push_back({stage, std::log10(1.0 + static_cast<double>(n)), 0, 0, fmt::format("{}", n), "bar"});
  }
  return svg::bars("Candidates that reached each stage, by order of magnitude", bars);
}

std::string archive_map(const Report& report, const Report::Region& region) {
  if (region.cells.empty()) return gene_map(report, region);
  HeatMap map;
  for (const auto& [cell, ms] : region.cells) {
    const auto comma = cell.find(", ");
    const std::string strategy = cell.substr(0, comma);
    const std::pair at{map.row(strategy), map.column(comma == std::string::npos ? "" : cell.substr(comma + 2))};
    map.ms[at] = ms;
  }
  return map.text(fmt::format("Best milliseconds in each of the {} cells that were filled", region.cells.size()));
}

}  // namespace planish::cli::page
