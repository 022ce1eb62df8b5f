#include "codegen/recurrence/step_text.h"

namespace planish::codegen::recurrence {
namespace {

// Addresses are those of the shared window (PTX ISA 8.x, "shared::cta" and "shared::cluster"); barriers are mbarriers.
// What copies bring is there when their barrier says so; ordinary stores of other blocks need an acquire of the
// cluster, which empties the first-level cache. A fence of all proxies waits for the whole memory: those of one space
// do not.
constexpr std::string_view machine = R"(#define RN_FN static __device__ __forceinline__
typedef unsigned int u32;
struct __align__(16) F4 { float x, y, z, w; };
RN_FN u32 rn_shared() { extern __shared__ __align__(128) unsigned char rn_smem[]; return (u32)__cvta_generic_to_shared(rn_smem); }
RN_FN F4 rn_get4(u32 a) { F4 v; asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(a)); return v; }
RN_FN float rn_get(u32 a) { float v; asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(a)); return v; }
RN_FN void rn_put(u32 a, float v) { asm volatile("st.shared.f32 [%0], %1;" :: "r"(a), "f"(v) : "memory"); }
RN_FN void rn_put4(u32 a, F4 v) { asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" :: "r"(a), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory"); }
RN_FN void rn_put_word(u32 a, u32 v) { asm volatile("st.shared.u32 [%0], %1;" :: "r"(a), "r"(v) : "memory"); }
RN_FN float rn_other(float v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
RN_FN u32 rn_first(u32 v) { return __shfl_sync(0xffffffffu, v, 0); }
RN_FN int rn_all(int p) { return __all_sync(0xffffffffu, p); }
RN_FN void rn_warp() { __syncwarp(); }
RN_FN void rn_block() { __syncthreads(); }
RN_FN void rn_summing() { asm volatile("bar.sync 1, %0;" :: "n"(SUMMING) : "memory"); }
RN_FN void rn_cluster() { asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
RN_FN u32 rn_rank() { u32 r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
RN_FN void rn_bar_init(u32 a, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(a), "r"(n) : "memory"); }
RN_FN void rn_bars_seen() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
RN_FN void rn_bar_expect(u32 a, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(a), "r"(n) : "memory"); }
RN_FN void rn_bar_wait(u32 a, u32 parity) {
  asm volatile("{\n\t.reg .pred p;\nW_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t@!p bra W_%=;\n\t}" :: "r"(a), "r"(parity) : "memory");
}
RN_FN void rn_bar_wait_for_stores(u32 a, u32 parity) {
  asm volatile("{\n\t.reg .pred p;\nW_%=:\n\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n\t@!p bra W_%=;\n\t}" :: "r"(a), "r"(parity) : "memory");
}
RN_FN u32 rn_of_block(u32 a, u32 rank) { u32 r; asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank)); return r; }
RN_FN void rn_send4(u32 a, F4 v, u32 bar) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];"
    :: "r"(a), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(bar) : "memory");
}
RN_FN void rn_send(u32 to, u32 from, u32 n, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
    :: "r"(to), "r"(from), "r"(n), "r"(bar) : "memory");
}
RN_FN void rn_fetch(u32 to, const float* from, u32 n, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
    :: "r"(to), "l"(from), "r"(n), "r"(bar) : "memory");
}
RN_FN void rn_put4_there(u32 a, F4 v) { asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};" :: "r"(a), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory"); }
RN_FN void rn_arrive_there(u32 bar) { asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(bar) : "memory"); }
RN_FN void rn_fence_copies() { asm volatile("fence.proxy.async;" ::: "memory"); }
RN_FN void rn_fence_sends() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
RN_FN void rn_fence_fetches() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
RN_FN void rn_count(u32 a) { asm volatile("red.release.cta.shared::cta.add.u32 [%0], 1;" :: "r"(a) : "memory"); }
RN_FN u32 rn_counted(u32 a) { u32 v; asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];" : "=r"(v) : "r"(a) : "memory"); return v; }
RN_FN u32 rn_flag(const u32* p) { u32 v; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
RN_FN void rn_set_flag(u32* p, u32 v) { asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
RN_FN void rn_pause() {}
RN_FN void rn_more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }
RN_FN void rn_fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }
RN_FN float rn_reciprocal(float x) { float r; asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
)";

}  // namespace

std::string_view step_machine() {
  return machine;
}

}  // namespace planish::codegen::recurrence
