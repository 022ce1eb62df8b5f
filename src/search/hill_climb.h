#pragma once

#include <deque>
#include <random>
#include <set>

#include "search/strategy.h"

namespace planish::search {

struct HillClimbOptions {
  int randoms = 8;        ///< random genomes drawn after the seeds, before climbing
  int restart_draws = 8;  ///< genomes drawn when a climb has ended: half mutants of elites, half random
};

/// Seeds, then random genomes, then hill climbing over one-step neighbours with restarts.
class HillClimb : public Strategy {
 public:
  HillClimb(const StrategyContext& context, HillClimbOptions options = {});
  std::optional<codegen::Genome> propose() override;
  void tell(const codegen::Genome& genome, const Told& told) override;
  void tell_duplicate(const codegen::Genome&) override {}
  void tell_again(const codegen::Genome&, const Told&) override {}
  FunnelCounts funnel() const override { return funnel_; }

 private:
  enum class Phase : std::uint8_t { seeds, randoms, climb, restart };
  struct Scored {
    codegen::Genome genome;
    double ms = no_time;
  };
  void refill();
  void push(codegen::Genome genome, std::string_view by, const codegen::Genome* parent = nullptr);
  void start_climb_from_best_of_draws();

  std::shared_ptr<const coder::Domain> domain_;
  std::mt19937_64 rng_;
  HillClimbOptions options_;
  FunnelCounts funnel_;
  Phase phase_ = Phase::seeds;
  struct Queued {
    codegen::Genome genome;
    Origin origin;
  };
  std::deque<Queued> queue_;
  std::set<codegen::Genome> proposed_;
  std::vector<Scored> elites_;   ///< the best few, ascending by time
  std::optional<Scored> here_;   ///< where the climb stands
  std::optional<Scored> drawn_;  ///< best since the last restart's draws
  bool moved_ = false;           ///< `here_` changed since its neighbours were queued
};

}  // namespace planish::search
