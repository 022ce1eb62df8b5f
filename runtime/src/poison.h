#pragma once

#include <cstdint>
#include <vector>

#include "program.h"

/// Overwrites outputs between timed runs, so that none finds its answer there.
namespace planish::rt {

struct Span {
  std::uint64_t address = 0, bytes = 0;
};

/// The memory of the program's outputs among the bound pointers.
std::vector<Span> output_spans(const prt_program& program, void* const* pointers);

/// On the CPU: all of it where it is little; of much of it pieces at places that `random` (a state of the caller's, not
/// 0) draws, since writing gigabytes would take longer than the runs.
void poison_cpu(const std::vector<Span>& spans, std::uint64_t* random);
/// Queued on the stream.
Status poison_cuda(const std::vector<Span>& spans, const cu::Driver& driver, cu::Stream stream);

}  // namespace planish::rt
