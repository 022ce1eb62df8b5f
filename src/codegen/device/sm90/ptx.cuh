#pragma once
// Instructions of sm_90 that CUDA C++ has no name for, one function each: the only file with PTX in it, so that tests
// run what includes it on a CPU with another file of this name. PTX ISA 8.0.

#include "types.cuh"

/// The address within shared memory that instructions of the asynchronous proxy take.
PL_DEVICE u32 shared_address(const void* p) {
  return (u32)__cvta_generic_to_shared(p);
}

// ---- mbarriers ----

PL_DEVICE void barrier_init(u32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// Shows initialised barriers to the asynchronous proxy and to the cluster. One thread calls it before a block barrier.
PL_DEVICE void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
}

/// Arrives, and lets the phase end only after so many bytes of bulk copies.
PL_DEVICE void barrier_expect(u32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

PL_DEVICE void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Whether the phase of this parity has ended; the hardware waits for a while before it says no.
PL_DEVICE bool barrier_try_wait(u32 barrier, u32 parity) {
  u32 done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}

PL_DEVICE void barrier_wait(u32 barrier, u32 parity) {
  while (!barrier_try_wait(barrier, parity)) {
  }
}

// ---- bulk copies ----

/// Global to shared memory, `bytes` a multiple of 16, both places too; the barrier counts them.
PL_DEVICE void bulk_load(u32 to, const void* from, int bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/// The same with a hint for the L2 cache (see policy_evict_first).
PL_DEVICE void bulk_load(u32 to, const void* from, int bytes, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

/// For data read once: weights that stream through.
PL_DEVICE u64 policy_evict_first() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// ---- programmatic dependent launch ----

/// Waits until the launches that this one depends on have ended and their memory is visible. Every thread block of a
/// kernel launched with the programmatic attribute calls it before it exits, even one that reads nothing of theirs.
PL_DEVICE void dependency_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

/// Permits the next launch to begin as soon as every block has said so or ended. It says nothing of memory.
PL_DEVICE void dependency_launch() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- registers of warpgroups ----

template <int n>
PL_DEVICE void registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}
template <int n>
PL_DEVICE void registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}
