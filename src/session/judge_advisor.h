#pragma once

#include "codegen/genome.h"
#include "search/advisor.h"

namespace planish::session {

/// The judge's moves, for the search.
class JudgeAdvisor : public search::Advisor {
 public:
  explicit JudgeAdvisor(codegen::Device device) : device_(std::move(device)) {}
  search::Advice advise(const search::RegionSpec& region, const Evaluation& evaluation, const codegen::Genome& genome,
                        const std::vector<codegen::Gene>& genes, bool words) const override;

 private:
  codegen::Device device_;
};

}  // namespace planish::session
