#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/fd.h"
#include "worker/accuracy.h"
#include "worker/note.h"

/// What travels between the evaluator and its children (docs/formats/wire.md) as plain data.
namespace planish::worker {

/// The last words of a child that took a fatal signal.
struct Fault {
  int signal = 0;
  std::string address;
  std::string where;  ///< "input:0", "guard:output:1", "unknown"
};

/// A tensor in memory that a descriptor stands for. The descriptor is owned here and only lent when sent.
struct SharedBuffer {
  std::string name;  ///< in0…, out0…
  std::string role;  ///< input | output
  std::string dtype;
  std::vector<std::int64_t> shape, strides;
  std::int64_t bytes = 0, offset = 0, map_bytes = 0;
  std::string device;
  bool writable = false;
  UniqueFd fd;
};

/// A data set that the oracle made, or why the task cannot have it.
struct DataSet {
  std::string name;
  std::vector<SharedBuffer> buffers;
  std::string skipped;
  std::int64_t bytes() const {
    std::int64_t total = 0;
    for (const SharedBuffer& buffer : buffers) total += buffer.map_bytes;
    return total;
  }
  /// What the oracle keeps beside them once it has checked: eager's outputs, and those in fp64.
  std::int64_t expected_bytes() const {
    std::int64_t total = 0;
    for (const SharedBuffer& buffer : buffers) {
      const auto dtype = dtype_from_name(buffer.dtype);
      const int in_fp64 = dtype && is_floating(*dtype) ? size_of(DType::f64) / size_of(*dtype) : 1;
      total += buffer.role == "output" ? buffer.bytes * (1 + in_fp64) : 0;
    }
    return total;
  }
};

struct HelloReply {
  std::string kind;  ///< runner only: native | torch
  std::string torch, python;
  std::vector<std::string> dsls{};  ///< oracle only: languages for kernels that its Python could import
  std::string device_kind, device_name, arch, uuid;
  std::int64_t sms = 0, l2_bytes = 0, shared_bytes = 0, memory_bytes = 0, cores = 0;
};

struct TaskReply {
  std::string graph;  ///< JSON text
  std::string name, source_sha256;
  std::int64_t parameters = 0, input_bytes = 0;
  bool variants = false;           ///< the file declares inputs of other shapes
  std::vector<std::string> files;  ///< that it was made of: its own, and what they read; absolute
};

/// Names parameters other than those that a model draws by itself, and none of them a constant: whoever constructs it
/// under one variation has the same. An even one changes buffers of one number, which an odd one leaves.
using Variation = std::optional<std::uint64_t>;

struct CheckReply {
  bool ok = false;
  std::string problem;  ///< mismatch | unwritten | nan | guard | input_changed, or empty
  std::vector<OutputErrors> outputs;
  std::string reference, message;
  std::string digest;  ///< of the outputs' bits, where it was asked for
};

struct MutationReply {
  std::vector<std::string> degenerate, tried;
  std::vector<Note> notes;
};

struct RegimesReply {
  std::vector<std::string> regimes;
  std::map<std::string, std::string> skipped;
};

struct KernelInfo {
  std::int64_t registers = 0, local_bytes = 0, shared_bytes = 0, max_threads = 0;
};

struct LoadReply {
  std::int64_t handle = -1;
  std::vector<KernelInfo> kernels;
};

/// Binds a buffer to position `index` of the program's buffers (for a module: of its arguments).
struct Binding {
  int index = -1;
  const SharedBuffer* buffer = nullptr;
};

struct TimeRequest {
  std::vector<std::string> data;
  std::int64_t min_runs = 10, max_runs = 100;
  double max_seconds = 1;
  double interval = 0.01;
  std::int64_t flush_bytes = 0;
};

struct Timing {
  std::vector<double> samples_ms;
  double median_ms = 0, lo_ms = 0, hi_ms = 0, host_us = 0;
  double latency_ms = 0, latency_lo_ms = 0, latency_hi_ms = 0;  ///< of a call on an idle device; 0: not measured
  double kept_ms = 0, kept_lo_ms = 0, kept_hi_ms = 0;  ///< of calls whose caller keeps the results; 0: not measured
  double busy = 0;  ///< threads of others that wanted each processor meanwhile, on average; 0: none, or not asked
};

struct CompileJob {
  std::string language, source, entry;
  std::vector<std::string> flags;
  std::string arch;
  std::string cache;  ///< folder
  double limit_seconds = 60;
};

struct CompileReply {
  std::string path, sha256, log;
  double seconds = 0;
  bool cached = false;
  std::int64_t registers = 0, spill_bytes = 0, shared_bytes = 0;
  std::int64_t local_bytes = 0;                        ///< CPU: the largest stack frame
  std::map<std::string, std::int64_t> instructions{};  ///< by kind, as they stand in the code (evaluation.md)
};

}  // namespace planish::worker
