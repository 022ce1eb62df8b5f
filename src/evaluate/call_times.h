#pragma once

#include <string>
#include <vector>

#include "evaluate/api.h"

/// What single calls, timed from outside of the process that does them, say of a module.
namespace planish {

/// Milliseconds by the judge's clock, from the bell to the answer, on contents that nobody had seen.
struct CallSamples {
  std::vector<double> solution;
  std::vector<double> reference;  ///< the task's own model in a process of ours, on the same contents, in turn
  std::vector<double> empty;      ///< a call of nothing in that process
  double hot_ms = 0;  ///< of the reference: many calls in a row by that process's clock, as baselines are timed
};

/// The median of a module's calls less what an empty one takes, as it would be in many calls in a row: waking up and
/// cold caches cost the reference as much, so it is smaller by the factor by which the reference's is, and never by
/// more than the reference is spared. The interval has what is not known of each part: of an empty call the guest may
/// be spared as much as lies in its own process.
ModuleTimes times_of(const CallSamples& samples);

/// Why a module that answers so soon cannot have called anything; empty where it can.
std::string too_soon(const CallSamples& samples);

/// Whether more samples would say little else.
bool settled(const std::vector<double>& samples, double interval);

}  // namespace planish
