#pragma once
// Instructions of sm_90 that CUDA C++ has no name for, one function each: with wgmma.cuh and what sm_80 has all PTX
// there is, so that tests run what includes it on a CPU with another file of this name. PTX ISA 8.0.

#include "sm80/ptx.cuh"
#include "sm90/dependent.cuh"
#include "types.cuh"

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

/// A loop of the assembler's: one that the compiler sees cost registers where weights fill them.
PL_DEVICE void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n\t.reg .pred p;\nW_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t@!p bra W_%=;\n\t}" ::"r"(
          barrier),
      "r"(parity)
      : "memory");
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

// ---- registers of warpgroups ----

template <int n>
PL_DEVICE void registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
}
template <int n>
PL_DEVICE void registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
}

// ---- fences between what threads write and copies read, or the other way round ----

PL_DEVICE void fence_copies() {
  asm volatile("fence.proxy.async;" ::: "memory");
}
PL_DEVICE void fence_shared_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
PL_DEVICE void fence_global_copies() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// Waits as cp_async_wait(), and shows what the copies wrote to the tensor cores.
template <int left>
PL_DEVICE void cp_async_show() {
  asm volatile("cp.async.wait_group %0; fence.proxy.async.shared::cta;" ::"n"(left) : "memory");
}

// ---- tensor maps, made by a block for itself ----

/// Sixteen bytes of zeros, at a shared address.
PL_DEVICE void shared_clear(u32 to) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
}

/// Fields of a map, whose 128 bytes are zeros at the shared address `map`: where the tensor begins; its dims, and its
/// elements by the instruction's number (0 u8, 6 f16, 7 f32, 10 bf16), in rows of 128 bytes swizzled, with zeros
/// outside.
PL_DEVICE void tensor_map_at(u32 map, const void* from) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"l"((u64)map), "l"(from)
               : "memory");
}
template <int dims, int type>
PL_DEVICE void tensor_map_type(u32 map) {
  const u64 at = map;
  asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], %1;" ::"l"(at), "n"(dims - 1) : "memory");
  asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], %1;" ::"l"(at), "n"(type) : "memory");
  asm volatile("tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;" ::"l"(at) : "memory");
  asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;" ::"l"(at) : "memory");
  asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;" ::"l"(at) : "memory");
}
template <int dims, bool bf16>
PL_DEVICE void tensor_map_begin(u32 map, const void* from) {
  tensor_map_at(map, from);
  tensor_map_type<dims, bf16 ? 10 : 6>(map);
}
template <int dims>
PL_DEVICE void tensor_map_begin_bytes(u32 map, const void* from) {
  tensor_map_at(map, from);
  tensor_map_type<dims, 0>(map);
}
/// Elements outside are no numbers, instead of zeros. Behind tensor_map_begin().
PL_DEVICE void tensor_map_outside_nan(u32 map) {
  asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 1;" ::"l"((u64)map) : "memory");
}
/// A dim's extent, what a box has of it, and from one that it has to the next.
template <int dim>
PL_DEVICE void tensor_map_dim(u32 map, int extent, int box, int step = 1) {
  const u64 at = map;
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"l"(at), "n"(dim), "r"(extent)
               : "memory");
  asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"l"(at), "n"(dim), "r"(box)
               : "memory");
  asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], %1, %2;" ::"l"(at), "n"(dim),
               "r"(step)
               : "memory");
}
/// Bytes from one to the next, of all dims but the first.
template <int dim>
PL_DEVICE void tensor_map_stride(u32 map, u64 bytes) {
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], %1, %2;" ::"l"((u64)map), "n"(dim - 1),
               "l"(bytes)
               : "memory");
}
/// The map goes to global memory, from where copies read it. All of a warp calls it; then one thread that copies
/// acquires.
PL_DEVICE void tensor_map_publish(void* to, u32 map) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(
          to),
      "l"((u64)map)
      : "memory");
}
PL_DEVICE void tensor_map_acquire(const void* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

/// The map's box at these coordinates, to a shared address; the barrier counts its bytes, zeros outside among them.
PL_DEVICE void tensor_load(u32 to, const void* map, u32 barrier, int x0, int x1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
          "r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1)
      : "memory");
}
PL_DEVICE void tensor_load(u32 to, const void* map, u32 barrier, int x0, int x1, int x2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2)
      : "memory");
}
PL_DEVICE void tensor_load(u32 to, const void* map, u32 barrier, int x0, int x1, int x2, int x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
      : "memory");
}
PL_DEVICE void tensor_load(u32 to, const void* map, u32 barrier, int x0, int x1, int x2, int x3, int x4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
      "%7}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
      : "memory");
}

// ---- clusters ----

/// All threads of a cluster's blocks meet. It shows initialised barriers (see barrier_init_fence()), not what else was
/// written.
PL_DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait;" ::: "memory");
}
/// Arrives at the barrier that lies there in the cluster's block `rank`. It releases nothing that this thread wrote: a
/// fence of a cluster's scope is one of the whole GPU, and takes as long as a step of a product.
PL_DEVICE void barrier_arrive(u32 barrier, int rank) {
  asm volatile(
      "{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 "
      "_, "
      "[there];}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// As tensor_load(), to the same place of every block of the cluster that the mask names, and to its barrier there.
PL_DEVICE void tensor_share(u32 to, const void* map, u32 barrier, u16 blocks, int x0, int x1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "h"(blocks)
      : "memory");
}
PL_DEVICE void tensor_share(u32 to, const void* map, u32 barrier, u16 blocks, int x0, int x1, int x2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "h"(blocks)
      : "memory");
}
PL_DEVICE void tensor_share(u32 to, const void* map, u32 barrier, u16 blocks, int x0, int x1, int x2, int x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "h"(blocks)
      : "memory");
}
PL_DEVICE void tensor_share(u32 to, const void* map, u32 barrier, u16 blocks, int x0, int x1, int x2, int x3, int x4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "h"(blocks)
      : "memory");
}
