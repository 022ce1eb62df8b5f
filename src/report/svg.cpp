#include "report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/html.h"

namespace planish::report::svg {
namespace {

constexpr int left = 62, right = 14, top = 12, bottom = 40;

double scaled(const Axis& axis, double value) {
  const double lo = axis.log ? std::log10(axis.lo) : axis.lo, hi = axis.log ? std::log10(axis.hi) : axis.hi;
  const double v = axis.log ? std::log10(std::max(value, axis.lo / 10)) : value;
  return hi > lo ? std::clamp((v - lo) / (hi - lo), 0.0, 1.0) : 0.5;
}

}  // namespace

std::string number(double value) {
  if (!std::isfinite(value)) return "-";
  return fmt::format("{:.4g}", value);
}

void Axis::hold(double value) {
  if (!std::isfinite(value) || (log && value <= 0)) return;
  if (empty) {
    lo = hi = value;
    empty = false;
  }
  lo = std::min(lo, value);
  hi = std::max(hi, value);
}

void Axis::pad() {
  if (empty) {
    lo = log ? 0.1 : 0;
    hi = 1;
  }
  if (log) {
    lo /= 1.15;
    hi *= 1.15;
  } else {
    const double room = hi > lo ? 0.04 * (hi - lo) : std::max(std::fabs(hi), 1.0) * 0.1;
    if (lo != 0) lo -= room;
    hi += room;
  }
}

std::vector<double> Axis::ticks() const {
  std::vector<double> out;
  if (log) {
    const auto first = static_cast<int>(std::floor(std::log10(lo))), last = static_cast<int>(std::ceil(std::log10(hi)));
    const bool fine = last - first <= 2;
    for (int e = first; e <= last; ++e) {
      for (const double step : {1.0, 2.0, 5.0}) {
        const double v = step * std::pow(10.0, e);
        if ((step == 1.0 || fine) && v >= lo && v <= hi) out.push_back(v);
      }
    }
    return out;
  }
  const double raw = (hi - lo) / 5;
  if (!(raw > 0)) return {lo};
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double step = raw / power < 1.5   ? power
                      : raw / power < 3.5 ? 2 * power
                      : raw / power < 7.5 ? 5 * power
                                          : 10 * power;
  for (double v = std::ceil(lo / step) * step; v <= hi + 1e-9 * step; v += step) {
    out.push_back(std::fabs(v) < 1e-9 * step ? 0 : v);
  }
  return out;
}

Plot::Plot(std::string title, Axis x, Axis y, int width, int height)
    : title_(std::move(title)), x_(std::move(x)), y_(std::move(y)), width_(width), height_(height) {}

double Plot::px(double x) const {
  return left + scaled(x_, x) * (width_ - left - right);
}
double Plot::py(double y) const {
  return height_ - bottom - scaled(y_, y) * (height_ - top - bottom);
}

void Plot::line(const std::vector<std::pair<double, double>>& points, std::string_view css) {
  std::string path;
  for (const auto& [x, y] : points) path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", px(x), py(y));
  body_ += fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", css, path);
}

void Plot::level(double y, std::string_view label, std::string_view css) {
  const double at = py(y);
  body_ += fmt::format("<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n", css, left,
                       width_ - right, at, at);
  // Above the line, a letter's height further up where another label lies, else below it.
  constexpr double letter = 13;
  const auto taken = [&](double where) {
    return std::ranges::any_of(labels_, [&](double other) { return std::fabs(other - where) < letter; });
  };
  double where = at - 4;
  while (taken(where)) where -= letter;
  if (where < top + 10) {
    where = at + 12;
    while (taken(where)) where += letter;
  }
  labels_.push_back(where);
  body_ += fmt::format("<text class=\"note\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", width_ - right - 4,
                       where, html::escape(label));
}

void Plot::dot(double x, double y, std::string_view css, std::string_view tip, int candidate) {
  const std::string pick = candidate >= 0 ? fmt::format(" data-pick=\"{}\"", candidate) : "";
  body_ += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"{}><title>{}</title></circle>\n", css,
                       px(x), py(y), pick, html::escape(tip));
}

std::string Plot::text() const {
  std::string out = fmt::format("<div class=\"chart\"><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
                                width_, height_, html::escape(title_));
  for (const double t : x_.ticks()) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text class=\"tick\" x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
        px(t), top, height_ - bottom, height_ - bottom + 15, number(t));
  }
  for (const double t : y_.ticks()) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"tick\" x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        left, width_ - right, py(t), left - 6, py(t) + 4, number(t));
  }
  out += fmt::format("<text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     (left + width_ - right) / 2, height_ - 6, html::escape(x_.label));
  out +=
      fmt::format("<text class=\"label\" transform=\"translate(13 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                  (top + height_ - bottom) / 2, html::escape(y_.label));
  return out + body_ + "</svg></div>\n";
}

std::string bars(const std::string& title, const std::vector<Bar>& all) {
  double most = 0;
  for (const Bar& bar : all) most = std::max({most, bar.value, bar.hi});
  const double scale = most > 0 ? 100 / most : 0;
  std::string out = fmt::format("<div class=\"bars\" role=\"group\" aria-label=\"{}\">\n", html::escape(title));
  for (const Bar& bar : all) {
    out +=
        fmt::format("<div class=\"row\"><span class=\"name\">{}</span><span class=\"track\">", html::escape(bar.label));
    if (bar.value > 0)
      out +=
          fmt::format("<span class=\"{}\" style=\"width:{:.1f}%\"></span>", bar.css, std::max(bar.value * scale, 0.3));
    if (bar.hi > 0)
      out += fmt::format("<span class=\"whisker\" style=\"left:{:.1f}%;width:{:.1f}%\"></span>", bar.lo * scale,
                         std::max((bar.hi - bar.lo) * scale, 0.2));
    out += fmt::format("</span><span class=\"note\">{}</span></div>\n", html::escape(bar.note));
  }
  return out + "</div>\n";
}

}  // namespace planish::report::svg
