#include "evaluate/solution.h"

#include <algorithm>
#include <utility>

#include "backend/backend.h"
#include "evaluate/device.h"

namespace planish {
namespace {

/// The last tier that it entered: what came of it says where it ended.
Tier tier_of(const VerifyReply& reply) {
  switch (reply.outcome) {
    case Outcome::ok:
    case Outcome::time_mismatch:
    case Outcome::wrong_when_timed:
    case Outcome::faster_than_possible:
      return Tier::bench;
    case Outcome::load_failed:
      return Tier::compile;
    default:
      return reply.cases.empty() ? Tier::compile : Tier::test;
  }
}

}  // namespace

double call_ms(const ModuleTimes& times, const DeviceFacts& device) {
  constexpr double between_calls_ms = 0.02;
  return backend::named(device.target).on_host ? std::max(times.median_ms, times.outside_ms - between_calls_ms)
                                               : times.median_ms;
}

Evaluation evaluation_of(VerifyReply reply, const DeviceFacts& device, double bytes, double flops) {
  Evaluation out;
  out.outcome = reply.outcome;
  out.tier = tier_of(reply);
  out.message = std::move(reply.message);
  if (!reply.cases.empty()) out.test = TestReport{0, std::move(reply.cases), std::move(reply.skipped)};
  if (!reply.verified || !reply.times) return out;
  const double ms = call_ms(*reply.times, device);
  // On the CPU the interval moves with the time.
  const double shift = ms - reply.times->median_ms;
  BenchReport bench;
  bench.median_ms = ms;
  bench.lo_ms = reply.times->lo_ms + shift;
  bench.hi_ms = reply.times->hi_ms + shift;
  bench.runs = static_cast<std::int64_t>(reply.times->samples_ms.size());
  bench.host_us = reply.times->host_us;
  bench.wall_ms = reply.times->outside_ms;
  bench.samples_ms = std::move(reply.times->samples_ms);
  out.bench = std::move(bench);
  if (ms > 0) out.roofline = roofline_of(device, bytes, flops, ms);
  return out;
}

}  // namespace planish
