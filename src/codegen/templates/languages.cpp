#include "codegen/templates/languages.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "codegen/emit/triton_emit.h"

namespace planish::codegen {
namespace {

using printing::Language;

class BothLanguages : public Schedule {
 public:
  BothLanguages(std::unique_ptr<const Schedule> cuda, std::unique_ptr<const Schedule> triton, std::vector<Gene> genes)
      : cuda_(std::move(cuda)), triton_(std::move(triton)), genes_(std::move(genes)) {}

  std::vector<Gene> genes() const override { return genes_; }
  std::string lacks() const override { return cuda_->lacks().empty() ? std::string() : triton_->lacks(); }
  TensorLoop tensor_loop() const override { return cuda_->tensor_loop(); }
  std::string illegal(const Genome& genome) const override { return of(genome).illegal(genome); }
  std::vector<Genome> seeds() const override {
    auto out = cuda_->seeds();
    for (Genome& genome : out) genome["language"] = static_cast<std::int64_t>(Language::cuda);
    std::ranges::copy(triton_->seeds(), std::back_inserter(out));
    return out;
  }
  Outline outline(const Genome& genome) const override { return of(genome).outline(genome); }
  Result<Emitted> emit(const Genome& genome) const override { return of(genome).emit(genome); }

 private:
  const Schedule& of(const Genome& genome) const {
    return gene(genome, "language", 0) == static_cast<std::int64_t>(Language::triton) ? *triton_ : *cuda_;
  }
  std::unique_ptr<const Schedule> cuda_, triton_;
  std::vector<Gene> genes_;
};

}  // namespace

std::unique_ptr<const Schedule> in_both_languages(const Template& kind, const Kernel& kernel, const Device& device,
                                                  std::unique_ptr<const Schedule> cuda) {
  auto genes = cuda->genes();
  genes.push_back({"language", {0, 1}});
  auto triton = kind.triton(kernel, device, genes);
  if (triton == nullptr) return cuda;
  return std::make_unique<BothLanguages>(std::move(cuda), std::move(triton), std::move(genes));
}

}  // namespace planish::codegen
