#include "coder/synth.h"

#include <utility>

#include "codegen/compose/compose.h"
#include "codegen/genomes.h"
#include "program/program.h"

namespace planish::coder {
namespace {

class Synth : public Domain {
 public:
  Synth(std::shared_ptr<const CutTask> task, const codegen::Region& region)
      : task_(std::move(task)), region_(region), genomes_(region.kernel, task_->device) {}

  std::vector<codegen::Gene> genes() const override { return genomes_.genes(); }
  bool legal(const codegen::Genome& genome) const override { return genomes_.legal(genome); }
  std::vector<codegen::Genome> seeds() const override { return genomes_.seeds(); }
  codegen::Genome random(std::mt19937_64& rng) const override { return genomes_.random(rng); }
  std::vector<codegen::Genome> neighbours(const codegen::Genome& genome) const override {
    return genomes_.neighbours(genome);
  }
  codegen::Genome mutate(const codegen::Genome& genome, std::mt19937_64& rng) const override {
    return genomes_.mutate(genome, rng);
  }
  std::string text(const codegen::Genome& genome) const override { return codegen::text(genome); }

  Result<Candidate> build(const codegen::Genome& genome) const override {
    PLANISH_TRY(auto emitted, genomes_.emit(genome));
    PLANISH_TRY(auto program, codegen::region_program(task_->graph, region_, emitted, task_->device));
    Candidate out;
    out.genome = genome;
    out.program = program::to_json(program);
    out.hash = program::hash(program);
    out.variant = program::normalised_hash(program);
    return out;
  }

 private:
  std::shared_ptr<const CutTask> task_;
  const codegen::Region& region_;  ///< of the task
  codegen::Genomes genomes_;
};

}  // namespace

std::shared_ptr<const Domain> synth_domain(std::shared_ptr<const CutTask> task, const codegen::Region& region) {
  return std::make_shared<Synth>(std::move(task), region);
}

}  // namespace planish::coder
