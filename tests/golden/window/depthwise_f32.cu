// genome: down=2 fast=1 hints=0 persistent=0 predication=0 stencil_reuse=1 threads=256 unroll=2 vector=16
// launch: grid 1x1x1 block 256x1x1 cluster 1x1x1 shared 0
// arguments: input0 input1 input2 output0
// ---- tests/golden/shared/expression_prelude_cuda.cu ----
// ---- tests/golden/shared/cuda_memory_prelude.cu ----
typedef int ix;
extern "C" __global__ void __launch_bounds__(256, 1) planish_kernel(const float* __restrict__ in0, const float* __restrict__ in1, const float* __restrict__ in2, float* __restrict__ out0) {
  {
    const ix tile = blockIdx.x;
    PlVec<float, 1> r1[2];
    PlVec<float, 1> r4[2];
    PlVec<float, 1> r8[2];
    PlVec<float, 1> r12[2];
    PlVec<float, 1> r16[2];
    PlVec<float, 1> r20[2];
    PlVec<float, 1> r24[2];
    PlVec<float, 1> r28[2];
    PlVec<float, 1> r32[2];
    PlVec<float, 1> r35[2];
    PlVec<float, 12> s0[2];
    PlVec<float, 12> s1[2];
    PlVec<float, 12> s2[2];
    PlVec<float, 12> s3[2];
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
      const ix q = tile * 512 + u * 256 + (int)threadIdx.x;
      if (q < 384) {
        const ix d3 = (q % 8) * 4;
        const ix d2 = (q / 8) % 8;
        const ix d1 = (q / 64) % 3;
        const ix d0 = (q / 192);
        pl_load<0, 1>(r1[u], in1 + (9 * d1));
        pl_load<0, 1>(r4[u], in1 + (9 * d1 + 1));
        pl_load<0, 1>(r8[u], in1 + (9 * d1 + 2));
        pl_load<0, 1>(r12[u], in1 + (9 * d1 + 3));
        pl_load<0, 1>(r16[u], in1 + (9 * d1 + 4));
        pl_load<0, 1>(r20[u], in1 + (9 * d1 + 5));
        pl_load<0, 1>(r24[u], in1 + (9 * d1 + 6));
        pl_load<0, 1>(r28[u], in1 + (9 * d1 + 7));
        pl_load<0, 1>(r32[u], in1 + (9 * d1 + 8));
        pl_load<0, 1>(r35[u], in2 + (d1));
        const float* const near0 = pl_near(in0 + (1536 * d0 + 512 * d1 + 64 * d2 + d3));
        {
          const float* const from = near0 + (-36);
          const bool there = (2 * d2 - 1) >= 0;
          const ix place = d3 - 4;
          #pragma unroll
          for (int i = 0; i < 3; ++i) {
            #pragma unroll
            for (int j = 0; j < 4; ++j) s0[u].x[i * 4 + j] = 0x0p+0f;
            if (there && place + i * 4 >= 0 && place + i * 4 < 32) pl_load_unit<4>(&s0[u].x[i * 4], from + i * 4);
          }
        }
        {
          const float* const from = near0 + (-4);
          const ix place = d3 - 4;
          #pragma unroll
          for (int i = 0; i < 3; ++i) {
            #pragma unroll
            for (int j = 0; j < 4; ++j) s1[u].x[i * 4 + j] = 0x0p+0f;
            if (place + i * 4 >= 0 && place + i * 4 < 32) pl_load_unit<4>(&s1[u].x[i * 4], from + i * 4);
          }
        }
        {
          const float* const from = near0 + (28);
          const ix place = d3 - 4;
          #pragma unroll
          for (int i = 0; i < 3; ++i) {
            #pragma unroll
            for (int j = 0; j < 4; ++j) s2[u].x[i * 4 + j] = 0x0p+0f;
            if (place + i * 4 >= 0 && place + i * 4 < 32) pl_load_unit<4>(&s2[u].x[i * 4], from + i * 4);
          }
        }
        {
          const float* const from = near0 + (60);
          const bool there = (2 * d2 + 2) < 16;
          const ix place = d3 - 4;
          #pragma unroll
          for (int i = 0; i < 3; ++i) {
            #pragma unroll
            for (int j = 0; j < 4; ++j) s3[u].x[i * 4 + j] = 0x0p+0f;
            if (there && place + i * 4 >= 0 && place + i * 4 < 32) pl_load_unit<4>(&s3[u].x[i * 4], from + i * 4);
          }
        }
      }
    }
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
      const ix q = tile * 512 + u * 256 + (int)threadIdx.x;
      if (q < 384) {
        const ix d3 = (q % 8) * 4;
        const ix d2 = (q / 8) % 8;
        const ix d1 = (q / 64) % 3;
        const ix d0 = (q / 192);
        {
          PlVec<float, 4> o0;
          const float v1 = r1[u].x[0];
          const float v4 = r4[u].x[0];
          const float v8 = r8[u].x[0];
          const float v12 = r12[u].x[0];
          const float v16 = r16[u].x[0];
          const float v20 = r20[u].x[0];
          const float v24 = r24[u].x[0];
          const float v28 = r28[u].x[0];
          const float v32 = r32[u].x[0];
          const float v35 = r35[u].x[0];
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float v0 = s0[u].x[3 + j * 1];
            const float v2 = (v0 * v1);
            const float v3 = s0[u].x[4 + j * 1];
            const float v5 = (v3 * v4);
            const float v6 = (v2 + v5);
            const float v7 = s0[u].x[5 + j * 1];
            const float v9 = (v7 * v8);
            const float v10 = (v6 + v9);
            const float v11 = s1[u].x[3 + j * 1];
            const float v13 = (v11 * v12);
            const float v14 = (v10 + v13);
            const float v15 = s1[u].x[4 + j * 1];
            const float v17 = (v15 * v16);
            const float v18 = (v14 + v17);
            const float v19 = s1[u].x[5 + j * 1];
            const float v21 = (v19 * v20);
            const float v22 = (v18 + v21);
            const float v23 = s2[u].x[3 + j * 1];
            const float v25 = (v23 * v24);
            const float v26 = (v22 + v25);
            const float v27 = s2[u].x[4 + j * 1];
            const float v29 = (v27 * v28);
            const float v30 = (v26 + v29);
            const float v31 = s2[u].x[5 + j * 1];
            const float v33 = (v31 * v32);
            const float v34 = (v30 + v33);
            const float v36 = (v34 + v35);
            const float v37 = pl_fast_sigmoid(v36);
            const float v38 = (v36 * v37);
            o0.x[j] = v38;
          }
          pl_store<0, 4>(out0 + (1536 * d0 + 512 * d1 + 64 * d2 + d3), o0);
        }
        {
          PlVec<float, 4> o1;
          const float v1 = r1[u].x[0];
          const float v4 = r4[u].x[0];
          const float v8 = r8[u].x[0];
          const float v12 = r12[u].x[0];
          const float v16 = r16[u].x[0];
          const float v20 = r20[u].x[0];
          const float v24 = r24[u].x[0];
          const float v28 = r28[u].x[0];
          const float v32 = r32[u].x[0];
          const float v35 = r35[u].x[0];
          #pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float v11 = s1[u].x[3 + j * 1];
            const float v15 = s1[u].x[4 + j * 1];
            const float v19 = s1[u].x[5 + j * 1];
            const float v23 = s2[u].x[3 + j * 1];
            const float v27 = s2[u].x[4 + j * 1];
            const float v31 = s2[u].x[5 + j * 1];
            const float v39 = (v11 * v1);
            const float v40 = (v15 * v4);
            const float v41 = (v39 + v40);
            const float v42 = (v19 * v8);
            const float v43 = (v41 + v42);
            const float v44 = (v23 * v12);
            const float v45 = (v43 + v44);
            const float v46 = (v27 * v16);
            const float v47 = (v45 + v46);
            const float v48 = (v31 * v20);
            const float v49 = (v47 + v48);
            const float v50 = s3[u].x[3 + j * 1];
            const float v51 = (v50 * v24);
            const float v52 = (v49 + v51);
            const float v53 = s3[u].x[4 + j * 1];
            const float v54 = (v53 * v28);
            const float v55 = (v52 + v54);
            const float v56 = s3[u].x[5 + j * 1];
            const float v57 = (v56 * v32);
            const float v58 = (v55 + v57);
            const float v59 = (v58 + v35);
            const float v60 = pl_fast_sigmoid(v59);
            const float v61 = (v59 * v60);
            o1.x[j] = v61;
          }
          pl_store<0, 4>(out0 + (1536 * d0 + 512 * d1 + 64 * d2 + d3) + 32, o1);
        }
      }
    }
  }
}
