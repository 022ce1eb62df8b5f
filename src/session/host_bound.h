#pragma once

#include <string>
#include <vector>

#include "evaluate/api.h"

namespace planish::session {

/// Whether it is the host, and not the device, that a caller of eager waits for: submitting a call takes nearly as long
/// as the call, or a call that finds the device idle takes much longer than one in a row of them. Networks of many
/// small launches, recurrent ones, those in training mode, small tensors. By measurement alone; false where `eager` was
/// not timed.
bool is_bound_by_host(const ClaimTime& eager);

/// The modes to time: with `max_autotune`, which replays its launches as a CUDA graph, where a mode of torch.compile is
/// among them and the task is bound by the host. What is gained over modes that submit each launch anew is mostly a
/// graph's gain there. As they are on a target that runs on the host.
std::vector<std::string> with_cuda_graphs(std::vector<std::string> modes, const DeviceFacts& device,
                                          const ClaimTime& eager);

/// Whether with_cuda_graphs() may add to them, so that eager is to be timed first.
bool may_need_cuda_graphs(const std::vector<std::string>& modes, const DeviceFacts& device);

}  // namespace planish::session
