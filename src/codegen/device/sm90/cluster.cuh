#pragma once
// What blocks of a cluster hand each other through shared memory. Addresses are those of the shared window; barriers
// are mbarriers. What copies and asynchronous stores bring is there when their barrier says so; ordinary stores of
// other blocks need an acquire of the cluster, which empties the first-level cache. A fence of all proxies waits for
// the whole memory: those of one space do not. PTX ISA 8.0.

#include "sm90/ptx.cuh"

PL_DEVICE int cluster_rank() {
  u32 r;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return (int)r;
}

/// All threads of a cluster's blocks meet, and see what each wrote before.
PL_DEVICE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Where the block `rank` of the cluster has what lies at this address here.
PL_DEVICE u32 cluster_address(u32 shared, int rank) {
  u32 r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(shared), "r"(rank));
  return r;
}

// ---- to the shared memory of a block, at cluster addresses ----

/// Sixteen bytes; that block's barrier counts them.
PL_DEVICE void cluster_send_16(u32 to, float4 v, u32 barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(to),
               "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
               : "memory");
}
/// `bytes`, a multiple of 16, from this block's shared memory; the other's barrier counts them. What threads wrote
/// there is shown by fence_shared_copies() first.
PL_DEVICE void cluster_copy(u32 to, u32 from, int bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "r"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
PL_DEVICE void cluster_store_16(u32 to, float4 v) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}
/// Arrives at a barrier, and shows what the thread stored before to whom waits by barrier_wait_acquire().
PL_DEVICE void cluster_arrive_release(u32 barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
PL_DEVICE void barrier_wait_acquire(u32 barrier, u32 parity) {
  asm volatile(
      "{\n\t.reg .pred p;\nW_%=:\n\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n\t@!p bra "
      "W_%=;\n\t}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// The halves of a meeting of all threads of a cluster's blocks.
PL_DEVICE void cluster_arrive() {
  asm volatile("barrier.cluster.arrive;" ::: "memory");
}
PL_DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.wait;" ::: "memory");
}
/// A number in the shared memory of a block, where this one has it at `p`.
PL_DEVICE float cluster_load(const float* p, int block) {
  float v;
  asm volatile("ld.shared::cluster.f32 %0, [%1];"
               : "=f"(v)
               : "r"(cluster_address(shared_address(p), block))
               : "memory");
  return v;
}

// ---- counters: what a thread wrote before it counts, or sets a flag, is seen by who finds that ----

PL_DEVICE void shared_count(u32 counter) {
  asm volatile("red.release.cta.shared::cta.add.u32 [%0], 1;" ::"r"(counter) : "memory");
}
PL_DEVICE u32 shared_counted(u32 counter) {
  u32 v;
  asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];" : "=r"(v) : "r"(counter) : "memory");
  return v;
}
PL_DEVICE u32 flag_load(const u32* flag) {
  u32 v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
  return v;
}
PL_DEVICE void flag_store(u32* flag, u32 v) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(v) : "memory");
}
/// Between two looks at counters that others change.
PL_DEVICE void pause() {}
