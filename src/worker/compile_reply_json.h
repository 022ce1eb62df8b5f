#pragma once

// Include from .cpp files only (base/json.h).
#include "base/json.h"
#include "worker/messages.h"

namespace planish::worker {

/// What a compiler said of a kernel, as compile workers send it and the cache keeps it: all but where the binary lies
/// and how long it took.
Json report_of(const CompileReply& reply);
/// The same read back. The last that is asked of the reader: gives the first thing that was wrong with the document.
Status read_report(ObjectReader& reader, CompileReply& reply);

}  // namespace planish::worker
