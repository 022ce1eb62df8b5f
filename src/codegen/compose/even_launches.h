#pragma once

#include "codegen/genome.h"
#include "program/program.h"

/// Launches that have a block a multiprocessor, of half its shared memory (printing::half_shared), begin early behind
/// launches of the same kind alone.
///
/// Behind others that permit it (attention of many keys, a product whose ring fills a multiprocessor, a small scatter)
/// multiprocessors become free at different times and by other amounts: two blocks find room on one of them and none on
/// another. The launches behind keep that, each as slow as its fullest multiprocessor, until one waits for all of
/// those before it; so this one does (docs/decisions/0178-launches-in-turn.md).
namespace planish::codegen {

/// Takes `programmatic` off such launches. The kernels stay as they are: a wait without anything to wait for ends at
/// once.
void keep_launches_even(program::Program& program, const Device& device);

}  // namespace planish::codegen
