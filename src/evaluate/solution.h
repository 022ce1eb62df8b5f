#pragma once

#include "evaluate/api.h"

/// Solutions (Python with a class ModelNew) as candidates: what became of one, in the words of every other.
namespace planish {

/// Milliseconds that a call of a verified module took: on the CPU by the clock outside, as many calls in a row would
/// take each (call_times.h); on a GPU what it says itself, within what the clock outside allows.
double call_ms(const ModuleTimes& times, const DeviceFacts& device);
/// The same with its interval.
struct CallTime {
  double median_ms = 0, lo_ms = 0, hi_ms = 0;
  double shift_ms = 0;  ///< to add to each sample
};
CallTime call_time(const ModuleTimes& times, const DeviceFacts& device);

/// The evaluation that a verification was. `bytes` and `flops`: the least that its region must move and compute.
/// Program, region and level are the caller's to fill in.
Evaluation evaluation_of(VerifyReply reply, const DeviceFacts& device, double bytes, double flops);

}  // namespace planish
