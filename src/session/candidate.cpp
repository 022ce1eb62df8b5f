#include "session/candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/json.h"
#include "coder/source_text.h"
#include "judge/judge.h"
#include "program/solution.h"
#include "session/seeded_domain.h"

namespace planish::session {

Result<StoredCandidate> read_candidate(const store::Store& store, const store::EvaluationRecord& record) {
  StoredCandidate out;
  out.record = record;
  PLANISH_TRY(out.evaluation, parse_evaluation(record.document));
  if (auto genome = codegen::genome_from_text(record.genome)) out.genome = std::move(*genome);
  if (auto text = store.get(record.program)) {
    if (auto solution = program::solution_of(*text)) {
      out.solution = std::move(*solution);
    } else if (auto program = program::parse(*text)) {
      out.program = std::move(*program);
    }
  }
  return out;
}

std::optional<std::string> source_of(const StoredCandidate& candidate) {
  if (!candidate.solution.empty()) return candidate.solution;
  return candidate.program ? coder::source_text(*candidate.program) : std::nullopt;
}

Result<store::EvaluationRecord> find_candidate(const std::vector<store::EvaluationRecord>& records,
                                               const std::string& prefix) {
  const store::EvaluationRecord* found = nullptr;
  for (const auto& record : records) {
    if (prefix.empty() || !record.program.starts_with(prefix)) continue;
    if (found != nullptr && found->program != record.program) {
      return fail("ambiguous_candidate", fmt::format("more than one candidate begins with {}", prefix),
                  "give more of its hash; planish show RUN --json lists all");
    }
    found = &record;
  }
  if (found == nullptr) {
    return fail("no_such_candidate", fmt::format("the run has no candidate {}", prefix),
                "planish show RUN lists the best, planish show RUN --json all");
  }
  return *found;
}

std::vector<codegen::Gene> genes_of(const std::vector<store::RegionRecord>& regions,
                                    const std::vector<store::EvaluationRecord>& records, const std::string& region) {
  const auto kept = std::ranges::find(regions, region, &store::RegionRecord::id);
  if (kept != regions.end() && !kept->genes.empty()) {
    if (auto genes = genes_from_text(kept->genes)) return std::move(*genes);
  }
  std::map<std::string, std::set<std::int64_t>> values;
  for (const auto& record : records) {
    if (record.region != region) continue;
    const auto genome = codegen::genome_from_text(record.genome);
    if (!genome) continue;
    for (const auto& [name, value] : *genome) values[name].insert(value);
  }
  std::vector<codegen::Gene> out;
  for (const auto& [name, tried] : values) out.push_back({name, {tried.begin(), tried.end()}});
  return out;
}

codegen::Device device_of_run(const store::RunRecord& run, const std::string& result) {
  codegen::Device device;
  device.target = &backend::named(run.target);
  if (device.target->on_host) {
    device.l2_bytes = 32 << 20;
    device.sms = 1;
  }
  const auto json = parse_json(result, "bad_result", "result");
  if (!json || !json->is_object()) return device;
  const auto facts = json->find("device");
  if (facts == json->end() || !facts->is_object()) return device;
  const auto number = [&](const char* name) {
    const auto at = facts->find(name);
    return at != facts->end() && at->is_number() ? at->get<double>() : 0.0;
  };
  if (const auto arch = facts->find("arch"); arch != facts->end() && arch->is_string())
    device.arch = arch->get<std::string>();
  const double units = number(device.target->on_host ? "cores" : "sms");
  if (units > 0) device.sms = static_cast<int>(units);
  if (number("bandwidth_gbs") > 0) device.bandwidth_gbs = number("bandwidth_gbs");
  return device;
}

judge::Verdict judge_candidate(const StoredCandidate& candidate, const std::vector<codegen::Gene>& genes,
                               const codegen::Device& device) {
  judge::Question question{candidate.evaluation, candidate.genome, genes, device, {}, {}, {}};
  if (candidate.program) {
    question.launches = judge::launches_of(*candidate.program);
    if (question.device.arch.empty()) question.device.arch = candidate.program->arch;
    for (const auto& output : candidate.program->outputs) {
      if (output.buffer < 0 || static_cast<std::size_t>(output.buffer) >= candidate.program->buffers.size()) continue;
      const auto& buffer = candidate.program->buffers[static_cast<std::size_t>(output.buffer)];
      question.output_shapes.push_back(buffer.shape);
      question.output_dtypes.push_back(buffer.dtype);
    }
  }
  return judge::judge(question);
}

}  // namespace planish::session
