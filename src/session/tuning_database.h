#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "evaluate/evaluation.h"
#include "model/cost_model.h"
#include "model/seeds.h"
#include "session/plan.h"
#include "store/store.h"

namespace planish::session {

/// What earlier runs on this device teach a run, and what it leaves for the next: keeps outcomes in the store, learns a
/// cost model from those of earlier runs, and goes on learning from what the run tells it. One thread.
///
/// Replays: what is known at the start is what was stored before the run began (also when it is taken up again), and
/// guesses follow from that and from the order of observe().
class TuningDatabase {
 public:
  /// Borrows the store. `since`: when the run began first, seconds since 1970. `cold`: earlier runs teach nothing, but
  /// what this one measures is kept for later ones all the same.
  TuningDatabase(store::Store& store, std::string run, std::string device, double since, bool cold = false);

  /// Learns what is known of the region's pattern. Regions without a Featurizer are not known here: everything about
  /// them is ignored. Writes nothing.
  Status add_region(const PlannedRegion& region);
  /// This very kernel passed in an earlier run.
  bool met(const std::string& region) const;

  /// Genomes that were fastest on the most alike kernels, best first; they may be illegal here.
  std::vector<codegen::Genome> seeds(const std::string& region, std::size_t count) const;
  /// Stores what became of a genome, for later runs.
  Status keep(const std::string& region, const codegen::Genome& genome, const Evaluation& evaluation, double at);
  /// Teaches the model of this run.
  void observe(const std::string& region, const codegen::Genome& genome, bool ok, double median_ms);
  /// Natural logarithm of milliseconds, with what a likely failure costs added; nothing where the model cannot say.
  std::optional<double> predicted_log_ms(const std::string& region, const codegen::Genome& genome) const;

  const model::CostModel& model() const { return model_; }

 private:
  struct Region {
    std::string key;
    double bound_ms = 0;
    std::shared_ptr<const model::Featurizer> features;
    bool filed = false;
    /// What was said of a genome: strategies ask of the same ones again and again. What follows from the genome stays;
    /// the answer holds until the model learns again.
    struct Said {
      std::array<double, model::Featurizer::derived> derived;
      model::CostModel::Earlier earlier;
      std::uint64_t earlier_at = 0, at = 0;  ///< lessons
      std::optional<double> log_ms;
    };
    mutable std::unordered_map<std::uint64_t, Said> said;  ///< by genome
    /// For asking the model, which is done by the hundred for each candidate.
    struct Asking {
      explicit Asking(std::shared_ptr<const model::Featurizer> features) : describer(std::move(features)) {}
      model::Describer describer;
      std::optional<model::CostModel::Places> places;
    };
    std::unique_ptr<Asking> asking;
  };
  model::Features features_of(const Region& region, const codegen::Genome& genome) const;
  Status learn(const std::string& pattern);

  store::Store& store_;
  std::string run_, device_;
  double since_;
  bool cold_;
  std::map<std::string, Region> regions_;
  std::map<std::string, bool> patterns_;  ///< those that were learned
  std::vector<model::Sample> earlier_;
  std::vector<model::Known> known_;
  model::CostModel model_;
};

/// Samples and known genomes of stored kernels; what cannot be read is left out. `device` makes groups.
void read_tuning_records(const std::vector<store::TuningRecord>& stored, std::vector<model::Sample>& samples,
                         std::vector<model::Known>& known);

}  // namespace planish::session
