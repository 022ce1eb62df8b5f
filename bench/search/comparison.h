#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "trace.h"

namespace planish::bench {

inline constexpr std::array<int, 4> marks{50, 100, 200, 400};

struct Spread {
  double median = 0, low = 0, high = 0;  ///< quartiles
};

/// What a contender had found at one mark, over the seeds: best true time over the least that there is.
struct Standing {
  Spread ratio;
  double mean_log = 0, error = 0;  ///< of the ratio's logarithm, and the mean's standard error
  bool leads = false;              ///< none is better by more than the noise
};

/// All contenders on one surface.
struct Comparison {
  std::string surface;
  bool measured = false;
  double least_ms = 0;
  struct Row {
    std::string contender;
    std::map<int, Standing> at;  ///< by mark
    double to_random = 0;        ///< evaluations to random search's median result at its end, median; 0: never
    double to_near = 0;          ///< to within 2 % of the least; 0: never
    double ms_a_proposal = 0;
    std::uint64_t decisions = 0;  ///< of all seeds' traces together
  };
  std::vector<Row> rows;
};

/// Runs them all. `evaluations` of each, for seeds 1 … `seeds`.
Comparison compare(const Surface& surface, const std::vector<Contender>& contenders, int seeds, int evaluations);

/// Over all surfaces, of one contender: geometric mean of its ratio at each mark, on how many it leads, and the
/// geometric mean of its evaluations to random's result over random's own.
struct Overall {
  std::string contender;
  std::map<int, double> mean_ratio;
  std::map<int, int> leads;
  double to_random = 0;
};
std::vector<Overall> overall(const std::vector<Comparison>& comparisons);

/// As tables for people.
std::string to_text(const Comparison& comparison);
std::string to_text(const std::vector<Overall>& overalls, std::size_t surfaces);
/// Everything, as a document.
std::string to_json(const std::vector<Comparison>& comparisons, int seeds, int evaluations);

}  // namespace planish::bench
