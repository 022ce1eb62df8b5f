#pragma once

#include "base/result.h"
#include "codegen/attention/decode.h"

/// Attention of few queries that writes the keys and values of its own step by itself: a scatter into the cache that it
/// reads is part of its launch. All other keys lie in the cache since before, so that they are asked for while the
/// launches before still run. Pure; thread-safe.
namespace planish::codegen {

/// `keys`, `values`: outputs of `scatter`, its only ones, whose memory the attention reads as keys and as values. Error
/// kind `unsupported`, saying why, where a block of the attention could not write what it reads.
Result<WrittenRows> written_rows(const Kernel& attention, const Decode& decode, const Kernel& scatter, int keys,
                                 int values);

}  // namespace planish::codegen
