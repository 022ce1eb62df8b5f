// genome: down=1 fast=1 hints=0 persistent=0 predication=0 stencil_reuse=1 threads=128 unroll=1 vector=8
// launch: grid 15x1x1 block 128x1x1 cluster 1x1x1 shared 0
// arguments: input0 input1 input2 output0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(128, 1) planish_kernel(const float* __restrict__ in0, const float* __restrict__ in1, const float* __restrict__ in2, float* __restrict__ out0) {
  {
    const ix tile = blockIdx.x;
    PlVec<float, 1> r9[1];
    PlVec<float, 1> r11[1];
    PlVec<float, 1> r14[1];
    PlVec<float, 1> r17[1];
    PlVec<float, 1> r20[1];
    PlVec<float, 1> r23[1];
    PlVec<float, 1> r26[1];
    PlVec<float, 1> r29[1];
    PlVec<float, 1> r32[1];
    PlVec<float, 1> r36[1];
    PlVec<float, 1> r38[1];
    PlVec<float, 1> r41[1];
    PlVec<float, 1> r44[1];
    PlVec<float, 1> r47[1];
    PlVec<float, 1> r50[1];
    PlVec<float, 1> r53[1];
    PlVec<float, 1> r56[1];
    PlVec<float, 1> r59[1];
    PlVec<float, 6> s0[1];
    PlVec<float, 6> s1[1];
    PlVec<float, 6> s2[1];
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const ix q = tile * 128 + u * 128 + (int)threadIdx.x;
      if (q < 1824) {
        const ix d3 = (q % 32) * 2;
        const ix d2 = (q / 32) % 19;
        const ix d1 = (q / 608) % 1;
        const ix d0 = (q / 608);
        pl_load<0, 1>(r9[u], in1 + (0));
        pl_load<0, 1>(r11[u], in1 + (1));
        pl_load<0, 1>(r14[u], in1 + (2));
        pl_load<0, 1>(r17[u], in1 + (3));
        pl_load<0, 1>(r20[u], in1 + (4));
        pl_load<0, 1>(r23[u], in1 + (5));
        pl_load<0, 1>(r26[u], in1 + (6));
        pl_load<0, 1>(r29[u], in1 + (7));
        pl_load<0, 1>(r32[u], in1 + (8));
        pl_load<0, 1>(r36[u], in2 + (0));
        pl_load<0, 1>(r38[u], in2 + (1));
        pl_load<0, 1>(r41[u], in2 + (2));
        pl_load<0, 1>(r44[u], in2 + (3));
        pl_load<0, 1>(r47[u], in2 + (4));
        pl_load<0, 1>(r50[u], in2 + (5));
        pl_load<0, 1>(r53[u], in2 + (6));
        pl_load<0, 1>(r56[u], in2 + (7));
        pl_load<0, 1>(r59[u], in2 + (8));
        const float* const near0 = pl_near(in0 + (1216 * d0 + 1216 * d1 + 64 * d2 + d3));
        {
          const float* const from = near0 + (-66);
          const bool there = (d2 - 1) >= 0;
          const ix place = d3 - 2;
          #pragma unroll
          for (int i = 0; i < 3; ++i) {
            #pragma unroll
            for (int j = 0; j < 2; ++j) s0[u].x[i * 2 + j] = 0x0p+0f;
            if (there && place + i * 2 >= 0 && place + i * 2 < 64) pl_load_unit<2>(&s0[u].x[i * 2], from + i * 2);
          }
        }
        {
          const float* const from = near0 + (-2);
          const ix place = d3 - 2;
          #pragma unroll
          for (int i = 0; i < 3; ++i) {
            #pragma unroll
            for (int j = 0; j < 2; ++j) s1[u].x[i * 2 + j] = 0x0p+0f;
            if (place + i * 2 >= 0 && place + i * 2 < 64) pl_load_unit<2>(&s1[u].x[i * 2], from + i * 2);
          }
        }
        {
          const float* const from = near0 + (62);
          const bool there = (d2 + 1) < 19;
          const ix place = d3 - 2;
          #pragma unroll
          for (int i = 0; i < 3; ++i) {
            #pragma unroll
            for (int j = 0; j < 2; ++j) s2[u].x[i * 2 + j] = 0x0p+0f;
            if (there && place + i * 2 >= 0 && place + i * 2 < 64) pl_load_unit<2>(&s2[u].x[i * 2], from + i * 2);
          }
        }
      }
    }
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
      const ix q = tile * 128 + u * 128 + (int)threadIdx.x;
      if (q < 1824) {
        const ix d3 = (q % 32) * 2;
        const ix d2 = (q / 32) % 19;
        const ix d1 = (q / 608) % 1;
        const ix d0 = (q / 608);
        PlVec<float, 2> o0;
        const float v9 = r9[u].x[0];
        const float v11 = r11[u].x[0];
        const float v14 = r14[u].x[0];
        const float v17 = r17[u].x[0];
        const float v20 = r20[u].x[0];
        const float v23 = r23[u].x[0];
        const float v26 = r26[u].x[0];
        const float v29 = r29[u].x[0];
        const float v32 = r32[u].x[0];
        const float v36 = r36[u].x[0];
        const float v38 = r38[u].x[0];
        const float v41 = r41[u].x[0];
        const float v44 = r44[u].x[0];
        const float v47 = r47[u].x[0];
        const float v50 = r50[u].x[0];
        const float v53 = r53[u].x[0];
        const float v56 = r56[u].x[0];
        const float v59 = r59[u].x[0];
        const float v64 = 0x1.0c6f7ap-20f;
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float v0 = s0[u].x[1 + j * 1];
          const float v1 = s0[u].x[2 + j * 1];
          const float v2 = s0[u].x[3 + j * 1];
          const float v3 = s1[u].x[1 + j * 1];
          const float v4 = s1[u].x[2 + j * 1];
          const float v5 = s1[u].x[3 + j * 1];
          const float v6 = s2[u].x[1 + j * 1];
          const float v7 = s2[u].x[2 + j * 1];
          const float v8 = s2[u].x[3 + j * 1];
          const float v10 = (v0 * v9);
          const float v12 = (v1 * v11);
          const float v13 = (v10 + v12);
          const float v15 = (v2 * v14);
          const float v16 = (v13 + v15);
          const float v18 = (v3 * v17);
          const float v19 = (v16 + v18);
          const float v21 = (v4 * v20);
          const float v22 = (v19 + v21);
          const float v24 = (v5 * v23);
          const float v25 = (v22 + v24);
          const float v27 = (v6 * v26);
          const float v28 = (v25 + v27);
          const float v30 = (v7 * v29);
          const float v31 = (v28 + v30);
          const float v33 = (v8 * v32);
          const float v34 = (v31 + v33);
          const float v35 = (v34 * v34);
          const float v37 = (v0 * v36);
          const float v39 = (v1 * v38);
          const float v40 = (v37 + v39);
          const float v42 = (v2 * v41);
          const float v43 = (v40 + v42);
          const float v45 = (v3 * v44);
          const float v46 = (v43 + v45);
          const float v48 = (v4 * v47);
          const float v49 = (v46 + v48);
          const float v51 = (v5 * v50);
          const float v52 = (v49 + v51);
          const float v54 = (v6 * v53);
          const float v55 = (v52 + v54);
          const float v57 = (v7 * v56);
          const float v58 = (v55 + v57);
          const float v60 = (v8 * v59);
          const float v61 = (v58 + v60);
          const float v62 = (v61 * v61);
          const float v63 = (v35 + v62);
          const float v65 = (v63 + v64);
          const float v66 = pl_fast_sqrt(v65);
          o0.x[j] = v66;
        }
        pl_store<0, 2>(out0 + (1216 * d0 + 1216 * d1 + 64 * d2 + d3), o0);
      }
    }
  }
}
