#pragma once

// Include from .cpp files only (base/json.h). The evaluator's messages (docs/formats/wire.md) to JSON and back; error
// kind `bad_request` for requests, `protocol` for replies.
#include "base/json.h"
#include "evaluate/api.h"

namespace planish::codec {

Json write(const OpenRequest& request);
Json write(const RegionRequest& request);
Json write(const EvaluateRequest& request);
Json write(const VerifyRequest& request);
Json write(const ClaimRequest& request);
Json write(const OpenReply& reply);
Json write(const RegionReply& reply);
Json write(const VerifyReply& reply);
Json write(const ClaimReply& reply);
Json write(const DeviceFacts& device);
Json write(const Error& error);

Status read(const Json& json, OpenRequest& request);
Status read(const Json& json, RegionRequest& request);
Status read(const Json& json, EvaluateRequest& request);
Status read(const Json& json, VerifyRequest& request);
Status read(const Json& json, ClaimRequest& request);
Status read(const Json& json, OpenReply& reply);
Status read(const Json& json, RegionReply& reply);
Status read(const Json& json, VerifyReply& reply);
Status read(const Json& json, ClaimReply& reply);
Status read(const Json& json, DeviceFacts& device);
Error read_error(const Json& json);

}  // namespace planish::codec
