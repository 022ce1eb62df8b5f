#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/html.h"
#include "report/page.h"
#include "report/svg.h"

namespace planish::report::page {
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
    bar.label = suite::mode_label(time.name);
    bar.css = time.name == "shipped" || time.name == "candidate" ? "bar ours" : "bar";
    if (time.error.empty()) {
      bar.value = time.median;
      bar.lo = time.lo;
      bar.hi = time.hi;
      bar.note = fmt::format("{} ms [{}, {}]", svg::number(time.median), svg::number(time.lo), svg::number(time.hi));
      if (time.kept > 0) bar.note += fmt::format(", results kept: {} ms", svg::number(time.kept));
    } else {
      bar.note = "not timed: " + time.error;
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

}  // namespace planish::report::page
