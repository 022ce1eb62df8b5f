// 1 / (1 + exp(-x)), as exact as a division: of a divisor from 1 to infinity, which needs no branches. A quarter of it
// has an inverse among the normal numbers.
PL_FN float pl_full_sigmoid(float x) {
  const float d = 1.0f + expf(-x), q = 0.25f * d, r = pl_fast_rcp(q);
  return d > 0x1.fffffep+127f ? 0.0f : 0.25f * fmaf(r, fmaf(-q, r, 1.0f), r);
}
// tanh(x * in) * out; in and out are positive constants, which the compiler multiplies into the coefficients. One
// rational function of x * x, fitted to be a little above 1 where tanh rounds to 1, and cut there.
PL_FN float pl_short_tanh(float x, double in, double out) {
  const double s = in * in, first = out * in;
  const float a = pl_min(fabsf(x), (float)(9.0 / in)), u = a * a;
  float p = fmaf(u, (float)(0x1.dc8f46p-27 * first * s * s * s * s), (float)(0x1.5fcba2p-16 * first * s * s * s));
  p = fmaf(u, p, (float)(0x1.cd0046p-9 * first * s * s));
  p = fmaf(u, p, (float)(0x1.126a1cp-3 * first * s));
  p = fmaf(a * u, p, a * (float)first);
  float q = fmaf(u, (float)(0x1.ac98e2p-21 * s * s * s * s), (float)(0x1.5c3d54p-12 * s * s * s));
  q = fmaf(u, q, (float)(0x1.a94f76p-6 * s * s));
  q = fmaf(u, q, (float)(0x1.de8a5ep-2 * s));
  q = fmaf(u, q, 1.0f);
  return copysignf(pl_min(p * pl_fast_rcp(q), (float)out), x);
}
// The same for |x * in| <= 0.9.
PL_FN float pl_near_tanh(float x, double in, double out) {
  const double s = in * in, first = out * in;
  const float u = x * x;
  float p = fmaf(u, (float)(0x1.55d3845f761d5p-10 * first * s * s * s * s * s * s), (float)(-0x1.c194d2db6cb5ap-8 * first * s * s * s * s * s));
  p = fmaf(u, p, (float)(0x1.567e4fa0a67dfp-6 * first * s * s * s * s));
  p = fmaf(u, p, (float)(-0x1.b81624975fa62p-5 * first * s * s * s));
  p = fmaf(u, p, (float)(0x1.11017a7be524fp-3 * first * s * s));
  p = fmaf(u, p, (float)(-0x1.5555040969f7bp-2 * first * s));
  return fmaf(x * u, p, x * (float)first);
}
// exp(x) for |x| < 128: what x * log2(e) loses in its rounding is made good after. Results that are no normal numbers are 0.
PL_FN float pl_close_exp(float x) {
  const float t = x * 0x1.715476p+0f, lost = fmaf(x, 0x1.4ae0cp-26f, fmaf(x, 0x1.715476p+0f, -t)), e = pl_fast_exp2(t);
  return fmaf(e, lost * 0x1.62e43p-1f, e);
}
// log(1 + exp(x)) = max(x, 0) + log(1 + t), t = exp(-|x|) from 0 to 1.
PL_FN float pl_short_softplus(float x) {
  const float t = pl_close_exp(pl_max(-fabsf(x), -104.0f));
  float p = fmaf(t, -0x1.b2f2e553a558fp-9f, 0x1.4b06ba860e256p-6f);
  p = fmaf(t, p, -0x1.d861c0cca1808p-5f);
  p = fmaf(t, p, 0x1.b5790f5739a7dp-4f);
  p = fmaf(t, p, -0x1.3a7a4cd213250p-3f);
  p = fmaf(t, p, 0x1.935c8d8a09bd9p-3f);
  p = fmaf(t, p, -0x1.ff26dd9e2368fp-3f);
  p = fmaf(t, p, 0x1.554def5af64c6p-2f);
  p = fmaf(t, p, -0x1.ffffd2df8e6c1p-2f);
  p = fmaf(t, p, 1.0f);
  return fmaf(t, p, pl_max(x, 0.0f));
}
// 1 + erf(x / sqrt(2)) to 2^-17, for results of 16 bits: exp(-x * x / 2) times a polynomial in 1 / (1 + 0.3 |x|), fitted to
// erfc(|x| / sqrt(2)) * exp(x * x / 2), on the side where that is small.
PL_FN float pl_narrow_normal(float x) {
  const float t = pl_fast_rcp(fmaf(fabsf(x), 0x1.333334p-2f, 1.0f));
  float p = fmaf(t, -0x1.5a7e42p-3f, 0x1.ecb12ap-2f);
  p = fmaf(t, p, -0x1.8e7d78p-4f);
  p = fmaf(t, p, 0x1.516fdap-2f);
  p = fmaf(t, p, 0x1.b50feep-3f);
  p = fmaf(t, p, 0x1.f0bdbap-3f);
  p = fmaf(t, p, -0x1.4ea82p-13f);
  const float far = p * pl_fast_exp2(x * x * -0x1.715476p-1f);
  return x < 0.0f ? far : 2.0f - far;
}
// tanh(log(1 + e)) = (e * e + 2 e) / (e * e + 2 e + 2), e = exp(x); 1 from x = 20 on.
PL_FN float pl_short_tanh_softplus(float x) {
  const float e = pl_close_exp(pl_max(pl_min(x, 20.0f), -104.0f)), n = e * (e + 2.0f);
  return n * pl_fast_rcp(n + 2.0f);
}
