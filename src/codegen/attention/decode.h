#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "codegen/attention/attention.h"
#include "codegen/attention/key_rows.h"
#include "codegen/genome.h"
#include "codegen/templates/template.h"

/// Attention of a few rows of queries over many keys in 16 bits: the step in which a language model makes one token.
/// The device file `sm90/decode_attention.cuh` reads keys and values where they lie, each once; the query heads of a
/// group are rows that share them. Pure; thread-safe.
namespace planish::codegen {

/// Rows that one fragment of a tensor core has.
inline constexpr std::int64_t most_decode_rows = 16;

struct Decode {
  DType element = DType::bf16;  ///< what is multiplied
  KeyRows keys, values;
  std::int64_t units = 1, rows = 1, length = 1, features = 1, columns = 1;
  bool computed = false;  ///< queries are no rows of neighbouring elements in memory
  bool ragged = false;    ///< where keys end is another place for another unit
};

/// Error kind `unsupported`, saying why, where it is another attention: of more rows, in other dtypes, of keys or
/// values that are computed of more than a cache and its scales, or whose rows do not lie at multiples of 16 bytes.
Result<Decode> decode_of(const Kernel& kernel, const Attention& attention);

/// Whether rows are few enough that reading keys is all that such attention costs.
inline bool decodes(const Attention& attention) {
  return attention.scores.rows <= most_decode_rows;
}

/// A scatter's variables, as attention that does its work counts what is written (attention/decode_writes.h).
struct WrittenRows {
  int keys = -1, values = -1;  ///< outputs of the scatter
  std::vector<int> unit, row;  ///< those that count units, and what is written of each; the last is innermost
  int along = -1;              ///< that of features
  std::int64_t rows = 1;
};

/// The scatter, where there is one. `early`: keys and values are asked for before the launches before have ended; that
/// they are there is the caller's word.
struct DecodeWrites {
  const Kernel* scatter = nullptr;
  WrittenRows rows;
  bool early = false;
};

/// How it is cut.
struct DecodeTiling {
  int warps = 8;
  int stages = 3;       ///< tiles that a warp has room for
  int splits = 1;       ///< blocks that share a unit's keys
  int blocks = 1;       ///< of a multiprocessor at once
  bool beside = false;  ///< a block of another launch has room beside one of this
  int written = 0;      ///< keys and values that it writes, of each unit
  bool chained = true;  ///< it may begin before the launch before it has ended
};
/// Keys that a warp takes at a time: bytes of codes have twice the work, and wait half as often.
std::int64_t decode_tile(const Decode& decode);
/// Bytes of a key and its value.
std::int64_t decode_key_bytes(const Decode& decode);
std::int64_t decode_shared_bytes(const Decode& decode, const DecodeTiling& plan);
/// Scratch of a block's sums.
std::int64_t decode_partial_bytes(const Decode& decode);

/// The kernel's text (header-free, for `sm_90a`, one entry `planish_kernel`), and which inputs of `kernel` it takes, in
/// order, before all outputs, the blocks' sums and a zeroed counter for each unit.
struct DecodeText {
  std::string source;
  std::string printed;  ///< its last part, behind the device files: what is this kernel's own
  std::vector<int> inputs;
  std::vector<int> written;  ///< of the scatter's inputs, behind the outputs
};
DecodeText print_decode(const Kernel& kernel, const Attention& attention, const Decode& decode,
                        const DecodeTiling& plan, const DecodeWrites& writes);
/// Inputs that keys and values are, with what says which of them count and where they lie.
std::vector<int> inputs_of_keys(const Kernel& kernel, const Attention& attention, const Decode& decode);

/// The launch. Arguments name the kernel's inputs and, from kernel.inputs.size() on, the scatter's. Error kinds:
/// `illegal_genome`, `unsupported`.
Result<Emitted> emit_decode(const Kernel& kernel, const Attention& attention, const Decode& decode,
                            const Device& device, const Genome& genome, const DecodeWrites& writes);

/// Its schedule; null where it is no such attention, or the device has no such tensor cores.
std::unique_ptr<const Schedule> decode_schedule(const Kernel& kernel, const Device& device);

}  // namespace planish::codegen
