#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "coder/domain.h"

namespace planish::search {

inline constexpr double no_time = std::numeric_limits<double>::infinity();

struct RegionOptions {
  int randoms = 8;         ///< random genomes drawn after the seeds, before climbing
  int restart_draws = 8;   ///< genomes drawn when a climb has ended: half mutants of elites, half random
  int finalists = 3;       ///< measured again at level full before one of them wins
  int finalist_tries = 6;  ///< no more than this many are tried where finalists fail
  /// A region is done at this fraction of its roofline. Above one, because the bound counts a streaming copy, and mixes
  /// with more reads than writes have been seen to run 5 % faster than a copy (docs/results/h200.md).
  double stop_fraction = 1.05;
};

/// What became of a proposal, as far as search cares.
struct Told {
  bool ok = false;
  double median_ms = 0;  ///< where ok
  std::string program;   ///< hash; empty if it could not be built
};

enum class Answer : std::uint8_t { improved, not_better, duplicate, rejected };

/// Ask / tell for one region: seeds, then random genomes, then hill climbing with restarts. Knows no clock and no
/// process; every decision follows from the seed and the order of tells. Any number of proposals may be outstanding.
class RegionSearch {
 public:
  RegionSearch(std::shared_ptr<const coder::Domain> domain, std::uint64_t seed, double bound_ms, RegionOptions options);

  /// The next genome to screen, never one that was proposed before. Nothing when all that can be thought of was tried.
  std::optional<codegen::Genome> propose();
  Answer tell(const codegen::Genome& genome, const Told& told);

  /// True once a program with this hash was told, or announced with claim_program(), before.
  bool seen_program(const std::string& hash) const { return programs_.contains(hash); }
  /// Announces a program whose evaluation is under way.
  void claim_program(const std::string& hash) { programs_.insert(hash); }

  /// The next elite to measure at level full; nothing once enough of them are or none is left.
  std::optional<codegen::Genome> propose_final();
  Answer tell_final(const codegen::Genome& genome, const Told& told);

  /// Nothing more to gain (speed of light) or to try.
  bool done() const { return exhausted_ || at_speed_of_light(); }
  bool at_speed_of_light() const;
  /// Best screened median; no_time before the first.
  double best_ms() const;

  struct Scored {
    codegen::Genome genome;
    double ms = no_time;
    std::string program;
  };
  /// The best of those measured at level full.
  const std::optional<Scored>& winner() const { return winner_; }
  const std::optional<Scored>& best() const { return best_; }

 private:
  enum class Phase : std::uint8_t { seeds, randoms, climb, restart };
  void refill();
  void push(codegen::Genome genome);
  void start_climb_from_best_of_draws();

  std::shared_ptr<const coder::Domain> domain_;
  std::mt19937_64 rng_;
  double bound_ms_;
  RegionOptions options_;
  Phase phase_ = Phase::seeds;
  bool exhausted_ = false;
  std::deque<codegen::Genome> queue_;
  std::set<codegen::Genome> proposed_;
  std::set<std::string> programs_;
  std::vector<Scored> screened_;  ///< those that passed, ascending by time
  std::optional<Scored> best_;
  std::optional<Scored> here_;   ///< where the climb stands
  std::optional<Scored> drawn_;  ///< best since the last restart's draws
  bool moved_ = false;           ///< `here_` changed since its neighbours were queued
  std::set<codegen::Genome> finals_;
  int finals_ok_ = 0;
  std::optional<Scored> winner_;
};

}  // namespace planish::search
