#include "coder/synth.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "codegen/compose/compose.h"
#include "codegen/compose/staged.h"
#include "codegen/templates/genomes.h"
#include "codegen/templates/template.h"
#include "coder/describe.h"
#include "coder/source_text.h"
#include "coder/whole.h"
#include "program/program.h"

namespace planish::coder {
namespace {

class Synth : public Domain {
 public:
  Synth(std::shared_ptr<const CutTask> task, const codegen::Region& region)
      : task_(std::move(task)), region_(region), kernel_(codegen::searched_kernel(region, task_->device)) {
    if (!region.library) genomes_.emplace(kernel_, task_->device);
  }

  // PyTorch's own operator has one form, whose genome has no genes.
  std::vector<codegen::Gene> genes() const override {
    return genomes_ ? genomes_->genes() : std::vector<codegen::Gene>{};
  }
  bool legal(const codegen::Genome& genome) const override {
    return genomes_ ? genomes_->legal(genome) : genome.empty();
  }
  std::vector<codegen::Genome> seeds() const override {
    return genomes_ ? genomes_->seeds() : std::vector<codegen::Genome>{{}};
  }
  codegen::Genome random(std::mt19937_64& rng) const override {
    return genomes_ ? genomes_->random(rng) : codegen::Genome{};
  }
  std::vector<codegen::Genome> neighbours(const codegen::Genome& genome) const override {
    return genomes_ ? genomes_->neighbours(genome) : std::vector<codegen::Genome>{};
  }
  codegen::Genome mutate(const codegen::Genome& genome, std::mt19937_64& rng) const override {
    return genomes_ ? genomes_->mutate(genome, rng) : genome;
  }

  Result<Candidate> build(const codegen::Genome& genome) const override {
    PLANISH_TRY(const auto emitted, launches(genome));
    return candidate(genome, emitted);
  }

  bool takes_solutions() const override {
    const codegen::Partition& cut = task_->partition;
    return cut.order.size() == 1 && cut.regions.size() == 1 && region_.nodes == cut.regions.front().nodes;
  }

  Result<Candidate> build_source(std::string_view source) const override {
    if (is_solution(source)) {
      if (takes_solutions()) return solution_candidate(source);
      return fail("bad_source", "Python with a ModelNew stands for the whole task, and this is a part of it",
                  "write kernels and launches for it (docs/formats/source.md)");
    }
    PLANISH_TRY(const auto emitted, parse_source_text(source, *task_->device.target));
    auto built = candidate(Source{std::string(source)}, emitted);
    if (!built) return fail("bad_source", built.error().message, "docs/formats/source.md says what a source is");
    return built;
  }

  Result<std::string> source(const codegen::Genome& genome) const override {
    PLANISH_TRY(const auto emitted, launches(genome));
    const auto by_torch = [](const codegen::Emitted& one) { return one.library.has_value(); };
    if (by_torch(emitted) || std::ranges::any_of(emitted.after, by_torch))
      return fail("unsupported", "a step of these is an operator of PyTorch's, which no source has");
    return source_text(emitted);
  }

  std::string description() const override { return describe(task_->graph, region_); }
  std::string topic() const override {
    return coder::topic(task_->graph, region_, std::string(codegen::template_of(kernel_).name()));
  }

 private:
  Result<codegen::Emitted> launches(const codegen::Genome& genome) const {
    if (!genomes_) return codegen::emit(region_, task_->device, genome);
    PLANISH_TRY(auto emitted, genomes_->emit(genome));
    return codegen::staged(region_, std::move(emitted), task_->device);
  }

  Result<Candidate> candidate(Proposal proposal, const codegen::Emitted& emitted) const {
    PLANISH_TRY(auto program, codegen::region_program(task_->graph, region_, emitted, task_->device));
    return candidate_of(std::move(proposal), std::move(program));
  }

  std::shared_ptr<const CutTask> task_;
  const codegen::Region& region_;  ///< of the task
  const codegen::Kernel& kernel_;  ///< of the region, the one that is searched
  std::optional<codegen::Genomes> genomes_;
};

}  // namespace

std::shared_ptr<const Domain> synth_domain(std::shared_ptr<const CutTask> task, const codegen::Region& region) {
  return std::make_shared<Synth>(std::move(task), region);
}

}  // namespace planish::coder
