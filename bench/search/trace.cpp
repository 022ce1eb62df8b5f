#include "trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "judge/judge.h"

namespace planish::bench {
namespace {

/// FNV-1a, continued.
std::uint64_t hashed(std::uint64_t so_far, std::string_view text) {
  for (const char c : text) so_far = (so_far ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return so_far;
}

std::vector<search::Move> advice(const Evaluation& evaluation, const codegen::Genome& genome,
                                 const std::vector<codegen::Gene>& genes) {
  codegen::Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  judge::Question question{evaluation, genome, genes, device, {}, {}, {}};
  for (const LaunchReport& launch : evaluation.compile->launches)
    question.launches.push_back({launch.blocks, launch.threads, launch.shared_bytes, launch.kernel});
  std::vector<search::Move> out;
  for (const judge::Move& move : judge::judge(question).moves)
    out.push_back({move.gene, move.direction, move.expected_gain});
  return out;
}

}  // namespace

Result<Contender> contender_from_name(std::string_view text) {
  Contender out;
  const auto minus = std::min(text.find('-'), text.size());
  PLANISH_TRY(out.kind, search::strategy_from_name(text.substr(0, minus)));
  std::string_view rest = text.substr(minus);
  while (!rest.empty()) {
    const auto end = std::min(rest.find('-', 1), rest.size());
    const std::string_view less = rest.substr(1, end - 1);
    rest.remove_prefix(end);
    if (less == "advice") {
      out.advice = false;
    } else if (less == "surrogate") {
      out.surrogate = false;
    } else {
      return fail("usage", fmt::format("nothing is called '{}' that could be taken from {}", less, text),
                  "STRATEGY, STRATEGY-advice, STRATEGY-surrogate");
    }
  }
  return out;
}

std::string name(const Contender& contender) {
  return fmt::format("{}{}{}", search::name(contender.kind), contender.advice ? "" : "-advice",
                     contender.surrogate ? "" : "-surrogate");
}

Trace trace(const Surface& surface, const Contender& contender, std::uint64_t seed, int evaluations) {
  search::RegionSpec region;
  region.id = "r0";
  region.key = surface.name();
  region.domain = surface.domain();
  const std::vector<codegen::Gene> genes = region.domain->genes();
  search::SearchOptions options;
  options.strategy = contender.kind;
  options.surrogate = contender.surrogate;
  // What is compared is the proposals; second measurements would be the same for all.
  options.region.screened_a_recheck = 1 << 30;
  Trace out;
  const auto begin = std::chrono::steady_clock::now();
  search::Search searched({region}, seed, options);
  std::mt19937_64 noise(seed * 77 + 5);
  double best = search::no_time;
  int free = 0;
  out.decisions = 0xcbf29ce484222325ULL;
  while (static_cast<int>(out.best.size()) < evaluations) {
    auto proposal = searched.ask();
    if (!proposal) break;
    out.decisions = hashed(out.decisions, codegen::text(proposal->genome()));
    const Surface::Time time = surface.time(proposal->genome(), noise);
    const std::string program = surface.program(proposal->genome());
    if (time.kind == Surface::Time::Kind::not_recorded || searched.claim_program(*proposal, program)) {
      if (++free > 200 * evaluations) break;
      (void)searched.tell_duplicate(proposal->serial);
      continue;
    }
    search::Told told;
    told.ok = time.kind == Surface::Time::Kind::ok;
    told.median_ms = time.ms;
    told.lo_ms = time.ms * 0.996;
    told.hi_ms = time.ms * 1.004;
    told.seconds = 1;
    told.program = program;
    if (const auto evaluation = surface.evaluation(proposal->genome(), time)) {
      told.cell = search::cell_of(*evaluation, "cuda");
      if (contender.advice) told.moves = advice(*evaluation, proposal->genome(), genes);
    }
    (void)searched.tell(proposal->serial, told);
    if (told.ok) best = std::min(best, time.true_ms);
    out.best.push_back(best);
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  // A space that was exhausted stays where it is.
  out.best.resize(static_cast<std::size_t>(evaluations), best);
  return out;
}

}  // namespace planish::bench
