#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

#include "search/archive.h"
#include "search/bandit.h"
#include "search/focus.h"
#include "search/stock.h"
#include "search/surrogate.h"

namespace planish::search {

struct SwarmOptions {
  int islands = 4;
  int settle_for = 24;              ///< tells of its own without an improvement after which an island is founded anew
  int founders = 8;                 ///< draws that an island is founded with
  int open_first = 64;              ///< tells before the second island opens, unless the first comes to rest before
  int open_every = 64;              ///< tells from one island's opening to the next one's
  int migrate_every = 32;           ///< tells between migrations to the next island of the ring
  int pool = 96;                    ///< genomes an operator thinks of for each that is proposed
  std::int64_t stock_first = 4096;  ///< draws before the first proposal beyond the seeds
  int stock_more = 96;              ///< draws for every proposal after that
  std::size_t stock_ranked = 1024;  ///< of the stock, ranked for a restart; a quarter where a predictor is asked too
  int learn_after = 8;              ///< tells before the surrogate is believed
  int most_rows = 512;              ///< measurements the surrogate learns from
};

/// 8 focuses × 4 islands of agents. An agent has its own generator, bandit over operators, and idea of which kinds of
/// genes to touch; what is measured teaches all of them (the surrogate). Who goes next, with which operator and which
/// genes, is decided by bandits whose reward is improvement per second of evaluation.
///
/// The first island begins with the coder's guesses and takes in every best. Each other one opens later (few
/// evaluations are for what the guesses lead to), is founded
/// with a few draws from anywhere, works on those alone, and is founded anew where it has come to rest: a peak that is
/// not the highest is left. The bests of islands go around a ring as partners for crossing. Every island keeps an
/// archive of 36 cells.
class Swarm : public Strategy {
 public:
  explicit Swarm(const StrategyContext& context, SwarmOptions options = {});
  std::optional<codegen::Genome> propose() override;
  void tell(const codegen::Genome& genome, const Told& told) override;
  void tell_duplicate(const codegen::Genome& genome) override;
  void tell_again(const codegen::Genome& genome, const Told& told) override;
  FunnelCounts funnel() const override;

  /// For tests and reports.
  struct AgentReport {
    int focus = 0, island = 0;
    std::int64_t proposed = 0;
    double share = 0;
    bool there = true;  ///< false: its seat is a model's
  };
  std::vector<AgentReport> agents() const;
  const Archive& island(int i) const { return islands_[static_cast<std::size_t>(i)].archive; }

 private:
  struct Record {
    Code code;
    double log_ms = 0;
    bool ok = false;
    bool wrong = false;  ///< neither right nor merely slow
    double lo_ms = 0, hi_ms = 0;
    Cell cell;
    std::vector<Move> moves;
  };
  struct Agent {
    int focus = 0, island = 0;
    std::mt19937_64 rng;
    Bandit operators;
    std::int64_t proposed = 0;
    bool there = true;  ///< false: its seat is somebody else's
  };
  struct Island {
    Archive archive;                   ///< its own and immigrants
    std::vector<std::size_t> ranking;  ///< its own records since it was founded, best first
    int fruitless = 0;                 ///< tells since its best improved
    int founding = 0;                  ///< draws to go before agents work on what they found
    double curiosity = 0;              ///< how much the surrogate's doubt counts in a genome's favour
  };
  struct Pending {
    int agent = -1;  ///< −1: a seed
    Operator by = Operator::seed;
    std::uint32_t genes = 0;  ///< kinds of genes that differ from the parent, a bit each
    std::optional<double> parent_log_ms;
  };
  struct Thought {
    Code code;
    const Record* parent = nullptr;
    bool legal = false;  ///< known to be; else not asked yet
  };
  /// What an agent chooses from, weighted.
  struct Parents {
    std::vector<std::size_t> records;
    std::vector<double> weights;
  };

  class Thinking;
  bool fresh(const Code& code) const;
  Parents parents_of(const Agent& agent) const;
  std::vector<double> gene_weights(const Agent& agent) const;
  std::optional<Thought> choose(const Agent& agent, std::vector<Thought>& pool);
  std::optional<Thought> next(Agent& agent, int round, Operator& by);
  Code row_of(const Code& code) const;
  void learn();
  void reward(const Pending& pending, const Record& record, double seconds);
  void migrate();
  /// Of the seeds that are left, the first that shares least with what was wrong: values of genes that nothing right
  /// has.
  Code next_seed();
  bool open(int island) const;
  /// Whether it is the island's best.
  bool enter(Island& island, std::size_t record);

  const RegionSpec& region_;
  SwarmOptions options_;
  Predictor* predictor_;
  Board* board_;
  Space space_;
  std::mt19937_64 rng_;
  Stock stock_;
  Surrogate surrogate_;
  int features_ = 0;
  std::vector<std::uint8_t> gene_kind_;  ///< of each open gene
  std::vector<Code> asked_;              ///< of choose(): kept, so that asking does not allocate
  std::vector<Forest::Guess> guesses_;
  std::vector<Agent> agents_;
  std::vector<Island> islands_;
  Bandit who_;
  Bandit kinds_;
  std::deque<Code> seeds_;
  std::vector<Code> all_seeds_;
  KeySet proposed_;
  std::unordered_map<std::uint64_t, Pending> pending_;
  std::unordered_map<std::uint64_t, std::size_t> record_of_;
  std::deque<Record> records_;  ///< a deque, so that parents stay where they are
  std::size_t best_ = 0;
  bool any_ = false;
  bool rested_ = false;  ///< the first island has, at least once
  std::size_t learned_at_ = 0;
  double mean_seconds_ = 0;
  std::optional<double> anchor_;  ///< of the predictor's scale
  FunnelCounts funnel_;
};

}  // namespace planish::search
