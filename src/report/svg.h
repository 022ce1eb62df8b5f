#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Small charts as inline SVG. Colours come from the page's style: shapes carry classes only.
namespace planish::report::svg {

struct Axis {
  std::string label;
  double lo = 0, hi = 1;
  bool log = false;
  /// Widens the axis to hold the value; values that a logarithm cannot show are ignored.
  void hold(double value);
  /// A little room at both ends; call after the last hold().
  void pad();
  std::vector<double> ticks() const;
  bool empty = true;  ///< nothing was held yet
};

/// A plot of x against y. Texts are escaped here.
class Plot {
 public:
  Plot(std::string title, Axis x, Axis y, int width = 640, int height = 280);

  void line(const std::vector<std::pair<double, double>>& points, std::string_view css);
  /// Horizontal, over the whole width. Labels of levels that lie close keep clear of each other.
  void level(double y, std::string_view label, std::string_view css);
  /// `candidate`: number of the table's row that a click shows; −1: none.
  void dot(double x, double y, std::string_view css, std::string_view tip, int candidate = -1);
  std::string text() const;

 private:
  double px(double x) const;
  double py(double y) const;
  std::string title_;
  Axis x_, y_;
  int width_, height_;
  std::string body_;
  std::vector<double> labels_;  ///< where those of levels lie
};

struct Bar {
  std::string label;
  double value = 0, lo = 0, hi = 0;  ///< interval; lo = hi = 0: none
  std::string note;                  ///< after the bar
  std::string css = "bar";
};
/// Horizontal bars from zero: HTML and not SVG, so that labels and bars fit any width of the page.
std::string bars(const std::string& title, const std::vector<Bar>& bars);

/// "12.3", "0.00123", "1.2e+06": few digits, for labels.
std::string number(double value);

}  // namespace planish::report::svg
