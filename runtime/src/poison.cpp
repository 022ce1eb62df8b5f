#include "poison.h"

#include <algorithm>
#include <cstring>

namespace planish::rt {
namespace {

constexpr unsigned char poison_byte = 0xFF;  // NaN in every floating dtype, -1 in the others
constexpr std::uint64_t written_whole = std::uint64_t{32} << 20U;
constexpr std::uint64_t piece_bytes = std::uint64_t{64} << 10U;
constexpr int drawn_pieces = 128;

/// xorshift: the places need not be unpredictable, only different from run to run.
std::uint64_t draw(std::uint64_t* state) {
  *state ^= *state << 13U;
  *state ^= *state >> 7U;
  *state ^= *state << 17U;
  return *state;
}

}  // namespace

std::vector<Span> output_spans(const prt_program& program, void* const* pointers) {
  std::vector<Span> spans;
  for (std::size_t b = 0; b < program.document.buffers.size(); ++b) {
    const Buffer& buffer = program.document.buffers[b];
    if (buffer.role != Role::output || pointers[b] == nullptr || buffer.bytes() <= 0) continue;
    spans.push_back({reinterpret_cast<std::uint64_t>(pointers[b]), static_cast<std::uint64_t>(buffer.bytes())});
  }
  return spans;
}

void poison_cpu(const std::vector<Span>& spans, std::uint64_t* random) {
  for (const Span& span : spans) {
    auto* at = reinterpret_cast<unsigned char*>(span.address);
    if (span.bytes <= written_whole) {
      std::memset(at, poison_byte, span.bytes);
      continue;
    }
    for (int i = 0; i < drawn_pieces; ++i) {
      const std::uint64_t start = draw(random) % span.bytes;
      std::memset(at + start, poison_byte, std::min(piece_bytes, span.bytes - start));
    }
  }
}

Status poison_cuda(const std::vector<Span>& spans, const cu::Driver& driver, cu::Stream stream) {
  for (const Span& span : spans) {
    PRT_CHECK(cu::check(driver.memset_8(span.address, poison_byte, span.bytes, stream), "poisoning an output",
                        "launch_failed"));
  }
  return {};
}

}  // namespace planish::rt
