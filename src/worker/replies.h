#pragma once

// Include from .cpp files only (base/json.h). Readers of what children answer; error kind `protocol`.
#include "base/json.h"
#include "worker/messages.h"

namespace planish::worker {

Result<HelloReply> read_hello(const Json& json);
Result<CheckReply> read_check(const Json& json);
Result<Timing> read_timing(const Json& json);
Result<RegimesReply> read_regimes(const Json& json);
/// Reads the description and takes over the descriptor.
Result<SharedBuffer> read_buffer(const Json& json, UniqueFd fd, const std::string& where);
Json write_buffer(const SharedBuffer& buffer);

}  // namespace planish::worker
