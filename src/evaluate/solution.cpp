#include "evaluate/solution.h"

#include <utility>

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

double call_ms(const ModuleTimes& times, const DeviceFacts& /*device*/) {
  return times.median_ms;
}

CallTime call_time(const ModuleTimes& times, const DeviceFacts& device) {
  return {call_ms(times, device), times.lo_ms, times.hi_ms, 0};
}

Evaluation evaluation_of(VerifyReply reply, const DeviceFacts& device, double bytes, double flops) {
  Evaluation out;
  out.outcome = reply.outcome;
  out.tier = tier_of(reply);
  out.message = std::move(reply.message);
  if (!reply.cases.empty()) out.test = TestReport{0, std::move(reply.cases), std::move(reply.skipped)};
  if (!reply.verified || !reply.times) return out;
  const CallTime time = call_time(*reply.times, device);
  BenchReport bench;
  bench.median_ms = time.median_ms;
  bench.lo_ms = time.lo_ms;
  bench.hi_ms = time.hi_ms;
  bench.runs = static_cast<std::int64_t>(reply.times->samples_ms.size());
  bench.host_us = reply.times->host_us;
  bench.wall_ms = reply.times->outside_ms;
  bench.samples_ms = std::move(reply.times->samples_ms);
  out.bench = std::move(bench);
  if (time.median_ms > 0) out.roofline = roofline_of(device, bytes, flops, time.median_ms);
  return out;
}

}  // namespace planish
