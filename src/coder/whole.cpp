#include "coder/whole.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "codegen/compose/compose.h"
#include "coder/answer_text.h"
#include "coder/describe.h"
#include "coder/source_text.h"
#include "program/program.h"
#include "program/solution.h"

namespace planish::coder {
namespace {

codegen::Region whole_of(const ir::Graph& graph) {
  codegen::Region out;
  out.nodes.resize(graph.nodes.size());
  std::iota(out.nodes.begin(), out.nodes.end(), 0);
  for (const ir::GraphInput& input : graph.inputs) out.inputs.push_back(input.value);
  const auto producers = graph.producers();
  for (const ir::GraphOutput& output : graph.outputs) {
    const bool made = output.value >= 0 && producers[static_cast<std::size_t>(output.value)] >= 0;
    // The same value may be returned twice.
    if (made && std::ranges::find(out.outputs, output.value) == out.outputs.end()) out.outputs.push_back(output.value);
  }
  return out;
}

class Whole : public Domain {
 public:
  explicit Whole(std::shared_ptr<const CutTask> task)
      : task_(std::move(task)), partition_(whole_partition(task_->graph)) {}
  std::vector<codegen::Gene> genes() const override { return {}; }
  bool legal(const codegen::Genome&) const override { return false; }
  std::vector<codegen::Genome> seeds() const override { return {}; }
  codegen::Genome random(std::mt19937_64&) const override { return {}; }
  std::vector<codegen::Genome> neighbours(const codegen::Genome&) const override { return {}; }
  codegen::Genome mutate(const codegen::Genome& genome, std::mt19937_64&) const override { return genome; }
  Result<Candidate> build(const codegen::Genome&) const override {
    return fail("unsupported", "the whole task has no template");
  }
  bool takes_solutions() const override { return true; }
  Result<Candidate> build_source(std::string_view source) const override {
    if (is_solution(source)) return solution_candidate(source);
    PLANISH_TRY(auto emitted, parse_source_text(source, *task_->device.target));
    const auto program = codegen::compose(task_->graph, partition_, {std::move(emitted)}, task_->device);
    if (!program) {
      std::string message = program.error().message;
      for (const std::string& cause : program.error().causes) message += ": " + cause;
      return fail("bad_source", std::move(message), "docs/formats/source.md says what a source is");
    }
    return candidate_of(Source{std::string(source)}, *program);
  }
  std::string description() const override { return describe(task_->graph, partition_.regions.front()); }
  std::string topic() const override { return coder::topic(task_->graph, partition_.regions.front(), {}); }

 private:
  std::shared_ptr<const CutTask> task_;
  codegen::Partition partition_;
};

}  // namespace

bool is_solution(std::string_view source) {
  return defines_module(source) && !launches(source);
}

Candidate solution_candidate(std::string_view source) {
  Candidate out{Source{std::string(source)}, program::solution_document(source), {}, {}};
  out.hash = sha256_hex(out.program.text());
  return out;
}

codegen::Partition whole_partition(const ir::Graph& graph) {
  codegen::Partition out;
  out.regions.push_back(whole_of(graph));
  out.order.push_back({true, 0});
  return out;
}

std::shared_ptr<const Domain> whole_domain(std::shared_ptr<const CutTask> task) {
  return std::make_shared<Whole>(std::move(task));
}

}  // namespace planish::coder
