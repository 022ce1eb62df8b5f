#include "codegen/emit/vector_math.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "codegen/emit/float8.h"

namespace planish::codegen {
namespace {

// Coefficients come from bench/cpu_emit/fit.py. A section starts with `//@ name needs…`; only needed ones are emitted.
// Every function is a template over scalar and vector types: comparisons of vectors give lane masks, which `?:` takes.
constexpr std::string_view kTypes = R"TEXT(
#define FN static inline __attribute__((always_inline))
typedef long long i64;
typedef unsigned long long u64;
typedef float vf __attribute__((vector_size(W * 4)));
typedef int vi __attribute__((vector_size(W * 4)));
typedef unsigned vu __attribute__((vector_size(W * 4)));
typedef double vd __attribute__((vector_size(W * 8)));
typedef i64 vl __attribute__((vector_size(W * 8)));
typedef u64 vul __attribute__((vector_size(W * 8)));
typedef double hd __attribute__((vector_size(H * 8)));
typedef i64 hl __attribute__((vector_size(H * 8)));
typedef float hf __attribute__((vector_size(H * 4)));
typedef unsigned short vh __attribute__((vector_size(W * 2)));
typedef short vs __attribute__((vector_size(W * 2)));
typedef unsigned char vb __attribute__((vector_size(W)));
typedef signed char vc __attribute__((vector_size(W)));
#define PACKED(T, V) typedef V V##_u __attribute__((aligned(1), may_alias));
PACKED(float, vf) PACKED(int, vi) PACKED(double, vd) PACKED(i64, vl) PACKED(unsigned short, vh) PACKED(short, vs) PACKED(unsigned char, vb) PACKED(signed char, vc)
template <class V> struct Of;
template <> struct Of<float> { typedef int I; typedef unsigned U; typedef float S; };
template <> struct Of<double> { typedef i64 I; typedef u64 U; typedef double S; };
template <> struct Of<vf> { typedef vi I; typedef vu U; typedef float S; };
template <> struct Of<hd> { typedef hl I; typedef hl U; typedef double S; };
#if W != H
template <> struct Of<vd> { typedef vl I; typedef vul U; typedef double S; };
#endif
template <class V> FN typename Of<V>::I bits(V v) { return __builtin_bit_cast(typename Of<V>::I, v); }
template <class V, class I> FN V from(I i) { return __builtin_bit_cast(V, i); }
template <class V> FN V abs_(V x) { return from<V>(bits(x) & ~(typename Of<V>::I{} + ((typename Of<V>::I{} + 1) << (sizeof(typename Of<V>::S) * 8 - 1)))); }
template <class V> FN V with_sign(V x, V s) {
  typename Of<V>::I m = (typename Of<V>::I{} + 1) << (sizeof(typename Of<V>::S) * 8 - 1);
  return from<V>((bits(x) & ~m) | (bits(s) & m));
}
FN vf splat(float x) { return x - vf{}; }
FN vi splat(int x) { return x - vi{}; }
FN vd splat(double x) { return x - vd{}; }
FN vl splat(i64 x) { return x - vl{}; }
FN vi lanes() { vi r; for (int l = 0; l < W; ++l) r[l] = l; return r; }
FN vl lanes64() { vl r; for (int l = 0; l < W; ++l) r[l] = l; return r; }
FN vi first(int n) { return (vi)(lanes() < n); }
FN i64 pl_index_div(i64 a, i64 k) { return a / k - (a % k < 0); }
FN i64 pl_index_mod(i64 a, i64 k) { const i64 r = a % k; return r < 0 ? r + k : r; }
FN int mask(bool b) { return -(int)b; }
FN vi mask(vi m) { return m; }
FN vi mask(vl m) { return __builtin_convertvector(m, vi); }
FN float sel(int m, float a, float b) { return m ? a : b; }
FN double sel(int m, double a, double b) { return m ? a : b; }
FN int sel(int m, int a, int b) { return m ? a : b; }
FN i64 sel(int m, i64 a, i64 b) { return m ? a : b; }
FN vf sel(vi m, vf a, vf b) { return m ? a : b; }
FN vi sel(vi m, vi a, vi b) { return m ? a : b; }
FN vd sel(vi m, vd a, vd b) { return __builtin_convertvector(m, vl) ? a : b; }
FN vl sel(vi m, vl a, vl b) { return __builtin_convertvector(m, vl) ? a : b; }
// Lanes moved down by s, around the end: folds over the lanes take log2(W) steps.
FN vf turn(vf v, int s) { return __builtin_shuffle(v, (lanes() + s) & (W - 1)); }
FN vi turn(vi v, int s) { return __builtin_shuffle(v, (lanes() + s) & (W - 1)); }
FN vd turn(vd v, int s) { return __builtin_shuffle(v, (lanes64() + (i64)s) & (i64)(W - 1)); }
FN vl turn(vl v, int s) { return __builtin_shuffle(v, (lanes64() + (i64)s) & (i64)(W - 1)); }
#if W != H
FN hd turn(hd v, int s) { hl m; for (int l = 0; l < H; ++l) m[l] = (l + s) & (H - 1); return __builtin_shuffle(v, m); }
#endif
#define FOLD(N, V, step) _Pragma("GCC unroll 4") for (int s = N / 2; s > 0; s /= 2) { V o = turn(v, s); v = step; } return v[0];
FN double add_lanes(hd v) { FOLD(H, hd, v + o) }
FN double mul_lanes(hd v) { FOLD(H, hd, v * o) }
FN i64 fdiv(i64 a, i64 b) { i64 q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }
FN i64 fmod_(i64 a, i64 b) { return a - fdiv(a, b) * b; }
)TEXT";

constexpr std::string_view kSections = R"TEXT(
//@ libm
#define LIBM1(f, g) static __attribute__((noinline, unused)) vd f(vd x) { for (int l = 0; l < W; ++l) x[l] = g(x[l]); return x; }
#define LIBM2(f, g) static __attribute__((noinline, unused)) vd f(vd x, vd y) { for (int l = 0; l < W; ++l) x[l] = g(x[l], y[l]); return x; }

//@ on_double
#if W == H
template <class F> FN vf on_double(vf x, F f) { return __builtin_convertvector(f(__builtin_convertvector(x, hd)), vf); }
template <class F> FN vf on_double(vf x, vf y, F f) { return __builtin_convertvector(f(__builtin_convertvector(x, hd), __builtin_convertvector(y, hd)), vf); }
#else
FN hd low(vf x) { return __builtin_convertvector(__builtin_shufflevector(x, x, LOW), hd); }
FN hd high(vf x) { return __builtin_convertvector(__builtin_shufflevector(x, x, HIGH), hd); }
FN vf join(hd a, hd b) { return __builtin_shufflevector(__builtin_convertvector(a, hf), __builtin_convertvector(b, hf), LOW, HIGH); }
template <class F> FN vf on_double(vf x, F f) { return join(f(low(x)), f(high(x))); }
template <class F> FN vf on_double(vf x, vf y, F f) { return join(f(low(x), low(y)), f(high(x), high(y))); }
#endif
template <class F> FN float on_double(float x, F f) { return (float)f((double)x); }
template <class F> FN float on_double(float x, float y, F f) { return (float)f((double)x, (double)y); }

//@ wide on_double
struct wide { hd a; hd b; };
#if W == H
FN void add(wide& s, vf x) { s.a += __builtin_convertvector(x, hd); }
FN void mul(wide& s, vf x) { s.a *= __builtin_convertvector(x, hd); }
FN vf narrow(const wide& s) { return __builtin_convertvector(s.a, vf); }
FN double sum(const wide& s) { return add_lanes(s.a); }
FN double product(const wide& s) { return mul_lanes(s.a); }
#else
FN void add(wide& s, vf x) { s.a += low(x); s.b += high(x); }
FN void mul(wide& s, vf x) { s.a *= low(x); s.b *= high(x); }
FN vf narrow(const wide& s) { return join(s.a, s.b); }
FN double sum(const wide& s) { return add_lanes(s.a + s.b); }
FN double product(const wide& s) { return mul_lanes(s.a * s.b); }
#endif
FN void add(wide& s, const wide& x) { s.a += x.a; s.b += x.b; }
FN void mul(wide& s, const wide& x) { s.a *= x.a; s.b *= x.b; }

//@ wide_d
FN void add(vd& s, vd x) { s += x; }
FN void mul(vd& s, vd x) { s *= x; }
FN vd narrow(vd s) { return s; }
FN double sum(vd s) { double r = 0; for (int l = 0; l < W; ++l) r += s[l]; return r; }
FN double product(vd s) { double r = 1; for (int l = 0; l < W; ++l) r *= s[l]; return r; }

//@ wide_l
FN void add(vl& s, vl x) { s = (vl)((vul)s + (vul)x); }
FN void mul(vl& s, vl x) { s = (vl)((vul)s * (vul)x); }
FN vl narrow(vl s) { return s; }
FN i64 sum(vl s) { u64 r = 0; for (int l = 0; l < W; ++l) r += (u64)s[l]; return (i64)r; }
FN i64 product(vl s) { u64 r = 1; for (int l = 0; l < W; ++l) r *= (u64)s[l]; return (i64)r; }

//@ fold
// Of equal ones the first, as a clamp keeps what it clamps: of zeros the sign.
template <class V> FN V greater(V a, V b) { return (a >= b) | (a != a) ? a : b; }
template <class V> FN V less(V a, V b) { return (a <= b) | (a != a) ? a : b; }
template <class V> FN auto fold_max(V v) { FOLD(W, V, greater(o, v)) }
template <class V> FN auto fold_min(V v) { FOLD(W, V, less(o, v)) }
FN int fold_or(vi v) { FOLD(W, vi, v | o) }
FN int fold_and(vi v) { FOLD(W, vi, v & o) }

//@ best
// An extreme value and its position: NaN beats every number, the smaller position wins among equals.
template <class V, class I> struct best { V v; I i; };
#define BEST(name, beyond) \
  template <class V, class I> FN void name(best<V, I>& s, const best<V, I>& x) { \
    const vi none = mask(s.v != s.v), odd = mask(x.v != x.v); \
    const vi m = (~none & (mask(x.v beyond s.v) | odd)) | ((mask(x.v == s.v) | (none & odd)) & mask(x.i < s.i)); \
    s.v = sel(m, x.v, s.v); \
    s.i = sel(m, x.i, s.i); \
  } \
  template <class V, class I> FN auto name##_at(best<V, I> s) { \
    for (int h = W / 2; h > 0; h /= 2) { const best<V, I> o = {turn(s.v, h), turn(s.i, h)}; name(s, o); } \
    return s.i[0]; \
  }
BEST(higher, >) BEST(lower, <)

//@ running fold
// A running value at each lane: of the lanes before it (behind it, where D) and its own. Lanes moved up (down) by s;
// what comes in is z's.
template <bool D> FN vi from_lane(int s) { const vi l = lanes(); return D ? (l + s < W ? l + s + W : l) : (l >= s ? l - s + W : l); }
template <bool D> FN vf moved(vf v, vf z, int s) { return __builtin_shuffle(z, v, from_lane<D>(s)); }
template <bool D> FN vi moved(vi v, vi z, int s) { return __builtin_shuffle(z, v, from_lane<D>(s)); }
template <bool D> FN vd moved(vd v, vd z, int s) { return __builtin_shuffle(z, v, __builtin_convertvector(from_lane<D>(s), vl)); }
template <bool D> FN vl moved(vl v, vl z, int s) { return __builtin_shuffle(z, v, __builtin_convertvector(from_lane<D>(s), vl)); }
// In every lane what the last lane of the sweep has.
template <bool D> FN vf edge(vf v) { return splat(v[D ? 0 : W - 1]); }
template <bool D> FN vi edge(vi v) { return splat(v[D ? 0 : W - 1]); }
template <bool D> FN vd edge(vd v) { return splat(v[D ? 0 : W - 1]); }
template <bool D> FN vl edge(vl v) { return splat(v[D ? 0 : W - 1]); }
struct run_sum {
  FN vf join(vf a, vf b) { return a + b; }
  FN vd join(vd a, vd b) { return a + b; }
  FN vl join(vl a, vl b) { return (vl)((vul)a + (vul)b); }
};
struct run_product {
  FN vd join(vd a, vd b) { return a * b; }
  FN vl join(vl a, vl b) { return (vl)((vul)a * (vul)b); }
};
// Of equal ones the last, as cummax has it.
struct run_max { template <class V> FN V join(V a, V b) { return greater(b, a); } };
struct run_min { template <class V> FN V join(V a, V b) { return less(b, a); } };
template <bool D, class R, class T> FN T running(T v, T z) {
  _Pragma("GCC unroll 4") for (int s = 1; s < W; s *= 2) v = R::join(moved<D>(v, z, s), v);
  return v;
}
//@ running_at running
// An extreme value and where it was last; the last NaN counts as the extreme.
template <class V, class I> struct seen { V v; I i; };
template <bool D, class V, class I> FN seen<V, I> moved(seen<V, I> x, seen<V, I> z, int s) { return {moved<D>(x.v, z.v, s), moved<D>(x.i, z.i, s)}; }
template <bool D, class V, class I> FN seen<V, I> edge(seen<V, I> x) { return {edge<D>(x.v), edge<D>(x.i)}; }
struct run_max_at { template <class T> FN T join(T a, T b) { const vi m = mask(b.v != b.v) | (mask(a.v == a.v) & mask(b.v >= a.v)); return {sel(m, b.v, a.v), sel(m, b.i, a.i)}; } };
struct run_min_at { template <class T> FN T join(T a, T b) { const vi m = mask(b.v != b.v) | (mask(a.v == a.v) & mask(b.v <= a.v)); return {sel(m, b.v, a.v), sel(m, b.i, a.i)}; } };
//@ part
template <class V, class U, class T> FN V part(const T* p, int n) { U r{}; for (int l = 0; l < n; ++l) r[l] = p[l]; return (V)r; }
template <class V, class T> FN void put_part(T* p, V v, int n) { for (int l = 0; l < n; ++l) p[l] = v[l]; }

//@ load_f32 part
FN vf load_f32(const float* p) { return *(const vf_u*)p; }
FN vf load_f32(const float* p, int n) {
#if defined(__AVX512F__) && W == 16
  return __builtin_ia32_loadups512_mask(p, vf{}, (unsigned short)((1u << n) - 1));
#elif defined(__AVX__) && W == 8
  return __builtin_ia32_maskloadps256((const vf*)p, first(n));
#else
  return part<vf, vf>(p, n);
#endif
}
FN float one_f32(const float* p) { return *p; }
//@ store_f32 part
FN void store_f32(float* p, vf v) { *(vf_u*)p = v; }
FN void store_f32(float* p, vf v, int n) {
#if defined(__AVX512F__) && W == 16
  __builtin_ia32_storeups512_mask(p, v, (unsigned short)((1u << n) - 1));
#elif defined(__AVX__) && W == 8
  __builtin_ia32_maskstoreps256((vf*)p, first(n), v);
#else
  put_part(p, v, n);
#endif
}
FN void put_f32(float* p, float v) { *p = v; }
FN void stream_f32(float* p, vf v) {
#if defined(__AVX512F__) && W == 16
  __builtin_ia32_movntps512(p, v);
#elif defined(__AVX__) && W == 8
  __builtin_ia32_movntps256(p, v);
#else
  *(vf_u*)p = v;
#endif
}
//@ load_f64 part
FN vd load_f64(const double* p) { return *(const vd_u*)p; }
FN vd load_f64(const double* p, int n) { return part<vd, vd>(p, n); }
FN double one_f64(const double* p) { return *p; }
//@ store_f64 part
FN void store_f64(double* p, vd v) { *(vd_u*)p = v; }
FN void store_f64(double* p, vd v, int n) { put_part(p, v, n); }
FN void put_f64(double* p, double v) { *p = v; }
//@ load_i64 part
FN vl load_i64(const i64* p) { return *(const vl_u*)p; }
FN vl load_i64(const i64* p, int n) { return part<vl, vl>(p, n); }
FN i64 one_i64(const i64* p) { return *p; }
//@ store_i64 part
FN void store_i64(i64* p, vl v) { *(vl_u*)p = v; }
FN void store_i64(i64* p, vi v) { store_i64(p, __builtin_convertvector(v, vl)); }
FN void store_i64(i64* p, vl v, int n) { put_part(p, v, n); }
FN void store_i64(i64* p, vi v, int n) { put_part(p, v, n); }
FN void put_i64(i64* p, i64 v) { *p = v; }
//@ load_i32 part
FN vi load_i32(const int* p) { return *(const vi_u*)p; }
FN vi load_i32(const int* p, int n) { return part<vi, vi>(p, n); }
FN int one_i32(const int* p) { return *p; }
//@ store_i32 part
FN void store_i32(int* p, vi v) { *(vi_u*)p = v; }
FN void store_i32(int* p, vi v, int n) { put_part(p, v, n); }
FN void put_i32(int* p, int v) { *p = v; }
//@ load_i16 part
FN vi load_i16(const short* p) { return __builtin_convertvector((vs)*(const vs_u*)p, vi); }
FN vi load_i16(const short* p, int n) { return __builtin_convertvector(part<vs, vs>(p, n), vi); }
FN int one_i16(const short* p) { return *p; }
//@ store_i16 part
FN void store_i16(short* p, vi v) { *(vs_u*)p = __builtin_convertvector(v, vs); }
FN void store_i16(short* p, vi v, int n) { put_part(p, __builtin_convertvector(v, vs), n); }
FN void put_i16(short* p, int v) { *p = (short)v; }
//@ load_i8 part
FN vi load_i8(const signed char* p) { return __builtin_convertvector((vc)*(const vc_u*)p, vi); }
FN vi load_i8(const signed char* p, int n) { return __builtin_convertvector(part<vc, vc>(p, n), vi); }
FN int one_i8(const signed char* p) { return *p; }
//@ store_i8 part
FN void store_i8(signed char* p, vi v) { *(vc_u*)p = __builtin_convertvector(v, vc); }
FN void store_i8(signed char* p, vi v, int n) { put_part(p, __builtin_convertvector(v, vc), n); }
FN void put_i8(signed char* p, int v) { *p = (signed char)v; }
//@ load_u8 part
FN vi load_u8(const unsigned char* p) { return __builtin_convertvector((vb)*(const vb_u*)p, vi); }
FN vi load_u8(const unsigned char* p, int n) { return __builtin_convertvector(part<vb, vb>(p, n), vi); }
FN int one_u8(const unsigned char* p) { return *p; }
//@ store_u8 part
FN void store_u8(unsigned char* p, vi v) { *(vb_u*)p = __builtin_convertvector(v, vb); }
FN void store_u8(unsigned char* p, vi v, int n) { put_part(p, __builtin_convertvector(v, vb), n); }
FN void put_u8(unsigned char* p, int v) { *p = (unsigned char)v; }
//@ load_bool load_u8
FN vi load_bool(const unsigned char* p) { return (vi)(load_u8(p) != 0); }
FN vi load_bool(const unsigned char* p, int n) { return (vi)(load_u8(p, n) != 0); }
FN int one_bool(const unsigned char* p) { return mask(*p != 0); }
//@ store_bool store_u8
FN void store_bool(unsigned char* p, vi v) { store_u8(p, v & 1); }
FN void store_bool(unsigned char* p, vi v, int n) { store_u8(p, v & 1, n); }
FN void put_bool(unsigned char* p, int v) { *p = v != 0; }
//@ settled
FN int settled(int v) { asm("" : "+r"(v)); return v; }
FN i64 settled(i64 v) { asm("" : "+r"(v)); return v; }

//@ rounded
// A product that is not fused with what follows.
#if __has_builtin(__builtin_assoc_barrier)
template <class V> FN V rounded(V x) { return __builtin_assoc_barrier(x); }
#else
template <class V> FN V rounded(V x) { asm("" : "+m"(x)); return x; }
#endif

//@ bf16
FN vf widen_bf16(vh h) { return from<vf>(__builtin_convertvector(h, vu) << 16); }
FN float widen_bf16(unsigned short h) { return from<float>((unsigned)h << 16); }
FN vh narrow_bf16(vf x) {
  vu b = (vu)bits(x);
  vu r = (b + 0x7fff + ((b >> 16) & 1)) >> 16;
  return __builtin_convertvector((vu)(x != x ? (vi)(vu{} + 0x7fc0) : (vi)r), vh);
}
FN unsigned short narrow_bf16(float x) {
  unsigned b = (unsigned)bits(x);
  return x != x ? 0x7fc0 : (unsigned short)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}
FN vf round_bf16(vf x) { return widen_bf16(narrow_bf16(x)); }
FN float round_bf16(float x) { return widen_bf16(narrow_bf16(x)); }
//@ load_bf16 bf16 part
FN vf load_bf16(const unsigned short* p) { return widen_bf16(*(const vh_u*)p); }
FN vf load_bf16(const unsigned short* p, int n) { return widen_bf16(part<vh, vh>(p, n)); }
FN float one_bf16(const unsigned short* p) { return widen_bf16(*p); }
//@ store_bf16 bf16 part
FN void store_bf16(unsigned short* p, vf v) { *(vh_u*)p = narrow_bf16(v); }
FN void store_bf16(unsigned short* p, vf v, int n) { put_part(p, narrow_bf16(v), n); }
FN void put_bf16(unsigned short* p, float v) { *p = narrow_bf16(v); }

//@ f16
typedef short x8h __attribute__((vector_size(16)));
typedef float x4f __attribute__((vector_size(16)));
#if defined(__F16C__)
// Not through _Float16: with AVX512-FP16, g++ 12 takes vectors of float -> _Float16 -> float for nothing.
FN float widen_f16(unsigned short h) { return __builtin_ia32_vcvtph2ps((x8h){(short)h})[0]; }
FN unsigned short narrow_f16(float x) { return (unsigned short)__builtin_ia32_vcvtps2ph((x4f){x}, 0)[0]; }
#else
FN float widen_f16(unsigned short h) { return (float)from<_Float16>(h); }
FN unsigned short narrow_f16(float x) { return __builtin_bit_cast(unsigned short, (_Float16)x); }
#endif
#if defined(__AVX512F__) && W == 16
FN vf widen_f16(vh h) { return __builtin_ia32_vcvtph2ps512_mask((vs)h, vf{}, (unsigned short)0xffff, 4); }
FN vh narrow_f16(vf x) { return (vh)__builtin_ia32_vcvtps2ph512_mask(x, 0, vs{}, (unsigned short)0xffff); }
#elif defined(__F16C__) && W == 8
FN vf widen_f16(vh h) { return __builtin_ia32_vcvtph2ps256((x8h)h); }
FN vh narrow_f16(vf x) { return (vh)__builtin_ia32_vcvtps2ph256(x, 0); }
#elif defined(__F16C__) && W == 4
FN vf widen_f16(vh h) {
  return __builtin_ia32_vcvtph2ps((x8h){(short)h[0], (short)h[1], (short)h[2], (short)h[3]});
}
FN vh narrow_f16(vf x) {
  const x8h h = __builtin_ia32_vcvtps2ph(x, 0);
  return (vh){(unsigned short)h[0], (unsigned short)h[1], (unsigned short)h[2], (unsigned short)h[3]};
}
#else
FN vf widen_f16(vh h) { vf r; for (int l = 0; l < W; ++l) r[l] = widen_f16(h[l]); return r; }
FN vh narrow_f16(vf x) { vh r; for (int l = 0; l < W; ++l) r[l] = narrow_f16(x[l]); return r; }
#endif
FN vf round_f16(vf x) { return widen_f16(narrow_f16(x)); }
FN float round_f16(float x) { return widen_f16(narrow_f16(x)); }
//@ load_f16 f16 part
FN vf load_f16(const unsigned short* p) { return widen_f16(*(const vh_u*)p); }
FN vf load_f16(const unsigned short* p, int n) { return widen_f16(part<vh, vh>(p, n)); }
FN float one_f16(const unsigned short* p) { return widen_f16(*p); }
//@ store_f16 f16 part
FN void store_f16(unsigned short* p, vf v) { *(vh_u*)p = narrow_f16(v); }
FN void store_f16(unsigned short* p, vf v, int n) { put_part(p, narrow_f16(v), n); }
FN void put_f16(unsigned short* p, float v) { *p = narrow_f16(v); }

//@ rint_
template <class V> FN V rint_(V x) {
  constexpr typename Of<V>::S big = sizeof(typename Of<V>::S) == 4 ? 8388608.0 : 4503599627370496.0;
  V m = with_sign(V{} + big, x);
  V r = with_sign((x + m) - m, x);
  return abs_(x) < big ? r : x;
}
//@ floor_ rint_
template <class V> FN V floor_(V x) { V r = rint_(x); return with_sign(r > x ? r - 1 : r, x); }
//@ ceil_ rint_
template <class V> FN V ceil_(V x) { V r = rint_(x); return with_sign(r < x ? r + 1 : r, x); }
//@ trunc_ rint_
template <class V> FN V trunc_(V x) { V a = abs_(x), r = rint_(a); return with_sign(r > a ? r - 1 : r, x); }

//@ sqrt_
FN float sqrt_(float x) { return __builtin_sqrtf(x); }
FN double sqrt_(double x) { return __builtin_sqrt(x); }
#if defined(__AVX512F__) && W == 16
FN vf sqrt_(vf x) { return __builtin_ia32_sqrtps512_mask(x, vf{}, (unsigned short)0xffff, 4); }
#elif defined(__AVX__) && W == 8
FN vf sqrt_(vf x) { return __builtin_ia32_sqrtps256(x); }
#else
FN vf sqrt_(vf x) { for (int l = 0; l < W; ++l) x[l] = __builtin_sqrtf(x[l]); return x; }
#endif
#if defined(__AVX512F__) && H == 8
FN hd sqrt_(hd x) { return __builtin_ia32_sqrtpd512_mask(x, hd{}, (unsigned char)0xff, 4); }
#elif defined(__AVX__) && H == 4
FN hd sqrt_(hd x) { return __builtin_ia32_sqrtpd256(x); }
#else
FN hd sqrt_(hd x) { for (int l = 0; l < H; ++l) x[l] = __builtin_sqrt(x[l]); return x; }
#endif
#if W != H
FN vd sqrt_(vd x) { for (int l = 0; l < W; ++l) x[l] = __builtin_sqrt(x[l]); return x; }
#endif

//@ scale_f
// p * 2^n for an integral n within ±300, subnormal results rounded once.
template <class V> FN V scale_f(V p, V n) {
  typename Of<V>::I i = bits(n + 12582912.0f) - 0x4b400000, h = i >> 1;
  return (p * from<V>((h + 127) << 23)) * from<V>((i - h + 127) << 23);
}
#if defined(__AVX512F__) && W == 16
FN vf scale_f(vf p, vf n) { return __builtin_ia32_scalefps512_mask(p, n, vf{}, (unsigned short)0xffff, 4); }
#endif
//@ exp_ scale_f
template <class V> FN V exp_(V x) {
  x = x > 89.0f ? V{} + 89.0f : x;
  x = x < -104.5f ? V{} + -104.5f : x;
  V n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;
  V r = x - n * 0.693145752f;
  r = r - n * 1.42860677e-6f;
  V q = V{} + 0.0001989108046f;
  q = q * r + 0.001393373072f;
  q = q * r + 0.008333310845f;
  q = q * r + 0.0416664642f;
  q = q * r + 0.1666666668f;
  q = q * r + 0.5f;
  return scale_f((q * r) * r + r + 1.0f, n);
}
FN double exp_(double x) { return __builtin_exp(x); }
#ifdef LIBM1
LIBM1(exp_, __builtin_exp)
#endif
//@ exp2_ scale_f
template <class V> FN V exp2_(V x) {
  x = x > 129.0f ? V{} + 129.0f : x;
  x = x < -151.0f ? V{} + -151.0f : x;
  V n = (x + 12582912.0f) - 12582912.0f;
  V r = x - n;
  V q = V{} + 1.529741311e-5f;
  q = q * r + 0.0001546156078f;
  q = q * r + 0.001333350216f;
  q = q * r + 0.009618056388f;
  q = q * r + 0.05550410884f;
  q = q * r + 0.2402265092f;
  q = q * r + 0.6931471806f;
  return scale_f(q * r + 1.0f, n);
}
FN double exp2_(double x) { return __builtin_exp2(x); }
#ifdef LIBM1
LIBM1(exp2_, __builtin_exp2)
#endif
//@ log_
template <class V> FN V log_(V x) {
  typedef typename Of<V>::I I;
  V up = x < 1.17549435e-38f ? x * 8388608.0f : x;
  V less = x < 1.17549435e-38f ? V{} + -23.0f : V{};
  I b = bits(up) - 0x3f3504f3;
  I e = b >> 23;
  V f = from<V>((b & 0x7fffff) + 0x3f3504f3) - 1.0f;
  V n = from<V>(e + 0x4b400000) - 12582912.0f + less;
  V q = V{} + 0.06971611471f;
  q = q * f + -0.1147973385f;
  q = q * f + 0.1168541992f;
  q = q * f + -0.1242568733f;
  q = q * f + 0.1424905765f;
  q = q * f + -0.1666780232f;
  q = q * f + 0.2000071575f;
  q = q * f + -0.2499999696f;
  q = q * f + 0.3333333118f;
  V z = f * f;
  V y = (q * f) * z + n * 1.42860677e-6f;
  y = y - 0.5f * z;
  y = n * 0.693145752f + (f + y);
  y = x < __builtin_inff() ? y : x;                              // inf and NaN
  y = x > 0.0f ? y : (x == 0.0f ? V{} - __builtin_inff() : x - x + V{} + __builtin_nanf(""));
  return y;
}
FN double log_(double x) { return __builtin_log(x); }
#ifdef LIBM1
LIBM1(log_, __builtin_log)
#endif
//@ running_exp running exp_ log_
// The sum of exp(x - m), m the largest x: m is finite unless some x is +Inf or NaN, which then decides alone.
template <class V> struct exps { V m; V s; };
template <bool D, class V> FN exps<V> moved(exps<V> x, exps<V> z, int s) { return {moved<D>(x.m, z.m, s), moved<D>(x.s, z.s, s)}; }
template <bool D, class V> FN exps<V> edge(exps<V> x) { return {edge<D>(x.m), edge<D>(x.s)}; }
template <class V> FN exps<V> exps_of(V x, V lowest) { return {greater(x, lowest), x < lowest ? V{} : V{} + 1}; }
struct run_exps { template <class V> FN exps<V> join(exps<V> a, exps<V> b) { const V m = greater(a.m, b.m); return {m, a.s * exp_(a.m - m) + b.s * exp_(b.m - m)}; } };
template <class V> FN V log_of(exps<V> x) { return (x.m - x.m == 0) | (x.m != x.m) ? x.m + log_(x.s) : x.m; }
//@ sigmoid_ exp_
template <class V> FN V sigmoid_(V x) {
  V e = exp_(-abs_(x));
  V d = e + 1.0f;
  return (x >= 0 ? V{} + 1.0f : e) / d;
}
FN double sigmoid_(double x) { return 1.0 / (1.0 + __builtin_exp(-x)); }
#ifdef LIBM1
LIBM1(sigmoid_, sigmoid_)
#endif
//@ tanh_ exp_
template <class V> FN V tanh_(V x) {
  V a = abs_(x), z = x * x;
  V q = V{} + -0.005992961254f;
  q = q * z + 0.02092414818f;
  q = q * z + -0.05383514126f;
  q = q * z + 0.1333266348f;
  q = q * z + -0.3333332786f;
  V small = (q * z) * x + x;
  V c = a > 10.0f ? V{} + 10.0f : a;
  V big = 1.0f - 2.0f / (exp_(c + c) + 1.0f);
  return with_sign(a < 0.625f ? small : (x == x ? big : x), x);  // of -0 as well
}
FN double tanh_(double x) { return __builtin_tanh(x); }
#ifdef LIBM1
LIBM1(tanh_, __builtin_tanh)
#endif
//@ erf_ exp_
template <class V> FN V erf_(V x) {
  V a = abs_(x), z = x * x;
  V q = V{} + 8.334718615e-5f;
  q = q * z + -0.0008134709332f;
  q = q * z + 0.005200368587f;
  q = q * z + -0.02685915147f;
  q = q * z + 0.1128369152f;
  q = q * z + -0.3761263352f;
  q = q * z + 0.1283791666f;
  V small = q * x + x;
  V t = a > 4.0f ? V{} + 4.0f : a;
  V p = V{} + 1.643569654e-6f;
  p = p * t + -4.617791279e-5f;
  p = p * t + 0.000597743472f;
  p = p * t + -0.004763575249f;
  p = p * t + 0.0264310176f;
  p = p * t + -0.1100944808f;
  p = p * t + -0.6318145167f;
  p = p * t + -1.130237616f;
  p = p * t + 0.0003204415313f;
  V big = with_sign(1.0f - exp_(p), x);
  return a < 0.925f ? small : (x == x ? big : x);
}
FN double erf_(double x) { return __builtin_erf(x); }
#ifdef LIBM1
LIBM1(erf_, __builtin_erf)
#endif

//@ exp_d
template <class D> FN D exp_d(D x) {
  x = x > 709.0 ? D{} + 709.0 : x;
  x = x < -708.0 ? D{} + -708.0 : x;
  D t = x * 1.4426950408889634074 + 6755399441055744.0;
  D n = t - 6755399441055744.0;
  D r = x - n * 0.69314718036912381649;
  r = r - n * 1.9082149292705877e-10;
  D q = D{} + 2.5100472505694996e-8;
  q = q * r + 2.762020159103154879e-7;
  q = q * r + 2.755726827690569619e-6;
  q = q * r + 0.0000248015210578682052;
  q = q * r + 0.0001984126986317155603;
  q = q * r + 0.001388888891736708056;
  q = q * r + 0.008333333333330038197;
  q = q * r + 0.04166666666662382053;
  q = q * r + 0.1666666666666666746;
  q = q * r + 0.5000000000000001031;
  return (q * r * r + r + 1.0) * from<D>((bits(t) + 1023) << 52);
}
//@ log_d
// x > 0 and normal (every positive fp32 is).
template <class D> FN D log_d(D x) {
  auto b = bits(x) - 0x3fe6a09e667f3bcdLL;
  auto e = b >> 52;
  D f = from<D>((b & 0xfffffffffffffLL) + 0x3fe6a09e667f3bcdLL) - 1.0;
  D n = from<D>(e + 0x4338000000000000LL) - 6755399441055744.0;
  D s = f / (f + 2.0), z = s * s;
  D q = D{} + 0.07308749346935055227;
  q = q * z + 0.07665818349772846793;
  q = q * z + 0.090914458402198671;
  q = q * z + 0.1111110554985564791;
  q = q * z + 0.1428571431309524473;
  q = q * z + 0.1999999999994951515;
  q = q * z + 0.3333333333333334851;
  return n * 0.69314718055994530942 + 2.0 * (s + s * z * q);
}
//@ log_any_d log_d
template <class D> FN D log_any_d(D x) {
  D y = log_d(x);
  y = x < __builtin_inf() ? y : x;
  return x > 0.0 ? y : (x == 0.0 ? D{} - __builtin_inf() : D{} + __builtin_nan(""));
}
//@ log2_ on_double log_any_d
template <class V> FN V log2_(V x) { return on_double(x, [](auto d) { return log_any_d(d) * 1.4426950408889634074; }); }
FN double log2_(double x) { return __builtin_log2(x); }
#ifdef LIBM1
LIBM1(log2_, __builtin_log2)
#endif
//@ log10_ on_double log_any_d
template <class V> FN V log10_(V x) { return on_double(x, [](auto d) { return log_any_d(d) * 0.43429448190325182765; }); }
FN double log10_(double x) { return __builtin_log10(x); }
#ifdef LIBM1
LIBM1(log10_, __builtin_log10)
#endif
//@ log1p_ on_double log_any_d
template <class V> FN V log1p_(V x) { return on_double(x, [](auto d) { auto y = log_any_d(1.0 + d); return abs_(d) < 1e-4 ? d - d * d * (0.5 - d * (1.0 / 3)) : y; }); }
FN double log1p_(double x) { return __builtin_log1p(x); }
#ifdef LIBM1
LIBM1(log1p_, __builtin_log1p)
#endif
//@ expm1_ on_double exp_d
template <class V> FN V expm1_(V x) { return on_double(x, [](auto d) { auto y = exp_d(d) - 1.0; return abs_(d) < 1e-4 ? d * (1.0 + d * (0.5 + d * (1.0 / 6))) : y; }); }
FN double expm1_(double x) { return __builtin_expm1(x); }
#ifdef LIBM1
LIBM1(expm1_, __builtin_expm1)
#endif
//@ sinh_ on_double exp_d
template <class V> FN V sinh_(V x) { return on_double(x, [](auto d) { auto e = exp_d(d); auto y = 0.5 * (e - 1.0 / e); return abs_(d) < 1e-3 ? d + d * d * d * (1.0 / 6) : y; }); }
FN double sinh_(double x) { return __builtin_sinh(x); }
#ifdef LIBM1
LIBM1(sinh_, __builtin_sinh)
#endif
//@ cosh_ on_double exp_d
template <class V> FN V cosh_(V x) { return on_double(x, [](auto d) { auto e = exp_d(d); return 0.5 * (e + 1.0 / e); }); }
FN double cosh_(double x) { return __builtin_cosh(x); }
#ifdef LIBM1
LIBM1(cosh_, __builtin_cosh)
#endif

//@ sincos_d
// Quadrant in the low bits of q. |x| < 2^30: the product n * (leading part of pi/2, 33 bits) is exact.
template <class D> struct Turn { D s, c; decltype(bits(D{})) q; };
template <class D> FN Turn<D> sincos_d(D x) {
  D t = x * 0.63661977236758134308 + 6755399441055744.0;
  D n = t - 6755399441055744.0;
  D r = x - n * 1.5707963267341256142;
  r = r - n * 6.0771005063039659e-11;
  r = r - n * 2.0222662487959507e-21;
  D z = r * r;
  D s = D{} + -2.480539094576606625e-8;
  s = s * z + 2.755598828002141523e-6;
  s = s * z + -0.0001984126690822479607;
  s = s * z + 0.008333333331070209589;
  s = s * z + -0.1666666666666387202;
  s = s * z * r + r;
  D c = D{} + 2.066529463577556207e-9;
  c = c * z + -2.755585259239173491e-7;
  c = c * z + 0.00002480158260933655654;
  c = c * z + -0.001388888888210091784;
  c = c * z + 0.04166666666663074747;
  c = c * z + -0.499999999999999692;
  c = c * z + 1.0;
  return {s, c, bits(t)};
}
//@ any_large
FN bool any_large(float x) { return !(abs_(x) < 1e9f) && x - x == 0; }
FN bool any_large(vf x) { bool r = false; vi m = (abs_(x) >= 1e9f); for (int l = 0; l < W; ++l) r |= m[l]; return r; }
FN float far_turn(float x, int k) { return (float)(k == 0 ? __builtin_sin((double)x) : k == 1 ? __builtin_cos((double)x) : __builtin_tan((double)x)); }
static __attribute__((noinline, unused)) vf far_turn(vf x, int k) { for (int l = 0; l < W; ++l) x[l] = far_turn((float)x[l], k); return x; }
//@ sin_ on_double sincos_d any_large
template <class V> FN V sin_(V x) {
  if (__builtin_expect(any_large(x), 0)) return far_turn(x, 0);
  V y = on_double(x, [](auto d) { auto t = sincos_d(d); auto y = (t.q & 1) != 0 ? t.c : t.s; return (t.q & 2) != 0 ? -y : y; });
  return x == 0 ? x : y;
}
FN double sin_(double x) { return __builtin_sin(x); }
#ifdef LIBM1
LIBM1(sin_, __builtin_sin)
#endif
//@ cos_ on_double sincos_d any_large
template <class V> FN V cos_(V x) {
  if (__builtin_expect(any_large(x), 0)) return far_turn(x, 1);
  return on_double(x, [](auto d) { auto t = sincos_d(d); auto y = (t.q & 1) != 0 ? t.s : t.c; return ((t.q + 1) & 2) != 0 ? -y : y; });
}
FN double cos_(double x) { return __builtin_cos(x); }
#ifdef LIBM1
LIBM1(cos_, __builtin_cos)
#endif
//@ tan_ on_double sincos_d any_large
template <class V> FN V tan_(V x) {
  if (__builtin_expect(any_large(x), 0)) return far_turn(x, 2);
  V y = on_double(x, [](auto d) { auto t = sincos_d(d); return ((t.q & 1) != 0 ? -t.c : t.s) / ((t.q & 1) != 0 ? t.s : t.c); });
  return x == 0 ? x : y;
}
FN double tan_(double x) { return __builtin_tan(x); }
#ifdef LIBM1
LIBM1(tan_, __builtin_tan)
#endif

//@ atan_d
template <class D> FN D atan_d(D x) {
  D a = abs_(x);
  D y = a > 1.0 ? 1.0 / a : a, z = y * y;
  D q = D{} + 0.0002420321329492995962;
  q = q * z + -0.001960826897837771407;
  q = q * z + 0.007457247330422407785;
  q = q * z + -0.01798369324520612195;
  q = q * z + 0.0316580379619298722;
  q = q * z + -0.04494995162541375513;
  q = q * z + 0.05606687035291111075;
  q = q * z + -0.06595124596280294682;
  q = q * z + 0.07679381276430295144;
  q = q * z + -0.09089368031943440718;
  q = q * z + 0.1111099950874212614;
  q = q * z + -0.1428571002006735466;
  q = q * z + 0.1999999993514228207;
  q = q * z + -0.3333333333316826812;
  D r = q * z * y + y;
  return with_sign(a > 1.0 ? 1.57079632679489661923 - r : r, x);
}
//@ atan2_d atan_d
template <class D> FN D atan2_d(D y, D x) {
  D ay = abs_(y), ax = abs_(x);
  D n = ay > ax ? ax : ay, m = ay > ax ? ay : ax;
  D t = n / m;
  t = m == 0.0 ? D{} : t;
  t = n == __builtin_inf() ? D{} + 1.0 : t;
  D r = atan_d(t);
  r = ay > ax ? 1.57079632679489661923 - r : r;
  r = with_sign(D{} + 1.0, x) < 0.0 ? 3.14159265358979323846 - r : r;
  r = with_sign(r, y);
  return (x != x) | (y != y) ? x + y : r;
}
//@ atan_ on_double atan_d
template <class V> FN V atan_(V x) { return on_double(x, [](auto d) { return atan_d(d); }); }
FN double atan_(double x) { return __builtin_atan(x); }
#ifdef LIBM1
LIBM1(atan_, __builtin_atan)
#endif
//@ atan2_ on_double atan2_d
template <class V> FN V atan2_(V y, V x) { return on_double(y, x, [](auto a, auto b) { return atan2_d(a, b); }); }
FN double atan2_(double y, double x) { return __builtin_atan2(y, x); }
#ifdef LIBM1
LIBM2(atan2_, __builtin_atan2)
#endif
//@ asin_ on_double atan2_d sqrt_
template <class V> FN V asin_(V x) { return on_double(x, [](auto d) { return atan2_d(d, sqrt_((1.0 - d) * (1.0 + d))); }); }
FN double asin_(double x) { return __builtin_asin(x); }
#ifdef LIBM1
LIBM1(asin_, __builtin_asin)
#endif
//@ acos_ on_double atan2_d sqrt_
template <class V> FN V acos_(V x) { return on_double(x, [](auto d) { return atan2_d(sqrt_((1.0 - d) * (1.0 + d)), d); }); }
FN double acos_(double x) { return __builtin_acos(x); }
#ifdef LIBM1
LIBM1(acos_, __builtin_acos)
#endif
//@ asinh_ on_double log_any_d sqrt_
template <class V> FN V asinh_(V x) { return on_double(x, [](auto d) { auto a = abs_(d); auto y = with_sign(log_any_d(a + sqrt_(a * a + 1.0)), d); return a < 1e-3 ? d * (1.0 - d * d * (1.0 / 6)) : y; }); }
FN double asinh_(double x) { return __builtin_asinh(x); }
#ifdef LIBM1
LIBM1(asinh_, __builtin_asinh)
#endif
//@ acosh_ on_double log_any_d sqrt_
template <class V> FN V acosh_(V x) { return on_double(x, [](auto d) { auto y = log_any_d(d + sqrt_((d - 1.0) * (d + 1.0))); return d >= 1.0 ? y : d - d + __builtin_nan(""); }); }
FN double acosh_(double x) { return __builtin_acosh(x); }
#ifdef LIBM1
LIBM1(acosh_, __builtin_acosh)
#endif
//@ atanh_ on_double log_any_d
template <class V> FN V atanh_(V x) { return on_double(x, [](auto d) { auto y = 0.5 * log_any_d((1.0 + d) / (1.0 - d)); return abs_(d) < 1e-3 ? d + d * d * d * (1.0 / 3) : y; }); }
FN double atanh_(double x) { return __builtin_atanh(x); }
#ifdef LIBM1
LIBM1(atanh_, __builtin_atanh)
#endif
//@ erfc_ on_double exp_d
template <class D> FN D erfc_d(D x) {
  D a = abs_(x), z = x * x;
  D q = D{} + -1.046911033215120843e-7;
  q = q * z + 1.530637316364108433e-6;
  q = q * z + -0.00001479503140066204464;
  q = q * z + 0.0001204626126977979741;
  q = q * z + -0.0008547933736519633156;
  q = q * z + 0.005223967193543899718;
  q = q * z + -0.02686616905059932391;
  q = q * z + 0.112837916585487128;
  q = q * z + -0.3761263890280861357;
  q = q * z + 1.128379167095493825;
  D small = 1.0 - q * x;
  D c = a > 10.6 ? D{} + 10.6 : a;
  D t = (c - 3.0) / (c + 3.0);
  D p = D{} + 2.24293333444992208e-6;
  p = p * t + -6.962140011556713825e-6;
  p = p * t + -0.00001307992633190682888;
  p = p * t + 0.00006370871261282220698;
  p = p * t + 0.00004533667741729128286;
  p = p * t + -0.0005970013967823734784;
  p = p * t + 0.0007077332490827096027;
  p = p * t + 0.004269130831345476235;
  p = p * t + -0.02439249831539119451;
  p = p * t + 0.07166583743957503014;
  p = p * t + -0.1501159365328377939;
  p = p * t + 0.245603801708291456;
  p = p * t + -0.3262335600427490024;
  p = p * t + 0.1790011511814011559;
  D e = exp_d(-c * c) * p;
  D big = x < 0.0 ? 2.0 - e : e;
  return a < 1.0 ? small : (x == x ? big : x);
}
template <class V> FN V erfc_(V x) { return on_double(x, [](auto d) { return erfc_d(d); }); }
FN double erfc_(double x) { return __builtin_erfc(x); }
#ifdef LIBM1
LIBM1(erfc_, __builtin_erfc)
#endif
//@ pow_ on_double exp_d log_d
template <class D> FN D pow_d(D x, D y) {
  D a = abs_(x);
  D l = log_d(a);
  l = a == 0.0 ? D{} - __builtin_inf() : l;
  l = a == __builtin_inf() ? a : l;
  D p = y * l;
  D r = exp_d(p);
  r = p > 700.0 ? D{} + __builtin_inf() : r;
  r = p < -700.0 ? D{} : r;
  // |y| above 2^24 is an even integer, so the truncation below is exact where it matters.
  D m = with_sign(D{} + 4503599627370496.0, y);
  D whole = abs_(y) < 4503599627370496.0 ? (y + m) - m : y;
  D half = y * 0.5, hm = with_sign(D{} + 4503599627370496.0, half);
  D half_whole = abs_(half) < 4503599627370496.0 ? (half + hm) - hm : half;
  D odd = (whole == y) & (half_whole != half) ? D{} - 1.0 : D{} + 1.0;
  D sign = with_sign(D{} + 1.0, x) < 0.0 ? odd : D{} + 1.0;
  r = r * sign;
  r = (x < 0.0) & (whole != y) & (a != __builtin_inf()) & (abs_(y) != __builtin_inf()) ? D{} + __builtin_nan("") : r;
  r = (a == 1.0) & (abs_(y) == __builtin_inf()) ? D{} + 1.0 : r;
  r = (x != x) | (y != y) ? x + y : r;
  return (y == 0.0) | (x == 1.0) ? D{} + 1.0 : r;
}
template <class V> FN V pow_(V x, V y) { return on_double(x, y, [](auto a, auto b) { return pow_d(a, b); }); }
FN double pow_(double x, double y) { return __builtin_pow(x, y); }
#ifdef LIBM1
LIBM2(pow_, __builtin_pow)
#endif
//@ hypot_ on_double sqrt_
template <class V> FN V hypot_(V x, V y) { return on_double(x, y, [](auto a, auto b) { auto r = sqrt_(a * a + b * b); return (abs_(a) == __builtin_inf()) | (abs_(b) == __builtin_inf()) ? decltype(r){} + __builtin_inf() : r; }); }
FN double hypot_(double x, double y) { return __builtin_hypot(x, y); }
#ifdef LIBM1
LIBM2(hypot_, __builtin_hypot)
#endif
//@ fmod_f
FN float fmod_lane(float a, float b) { return __builtin_fmodf(a, b); }
FN double fmod_lane(double a, double b) { return __builtin_fmod(a, b); }
template <class T> FN T remainder_lane(T a, T b) { T m = fmod_lane(a, b); return m != 0 && (b < 0) != (m < 0) ? m + b : m; }
template <class T> FN T floor_div_lane(T a, T b) {
  if (b == 0) return a / b;
  T m = fmod_lane(a, b), d = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) d -= 1;
  if (d == 0) return with_sign((T)0, a / b);
  T f = (T)__builtin_floor((double)d);
  return d - f > (T)0.5 ? f + 1 : f;
}
#define FLANES(f, g) \
  FN float f(float a, float b) { return g(a, b); } \
  FN double f(double a, double b) { return g(a, b); } \
  static __attribute__((noinline, unused)) vf f(vf a, vf b) { for (int l = 0; l < W; ++l) a[l] = g((float)a[l], (float)b[l]); return a; } \
  static __attribute__((noinline, unused)) vd f(vd a, vd b) { for (int l = 0; l < W; ++l) a[l] = g((double)a[l], (double)b[l]); return a; }
FLANES(mod_trunc, fmod_lane) FLANES(remainder_, remainder_lane) FLANES(floor_div_, floor_div_lane)

//@ transpose
#define SWAP(s, LO, HI) for (int i = 0; i < W; ++i) if (!(i & s)) { vf a = t[i], b = t[i + s]; t[i] = __builtin_shufflevector(a, b, LO); t[i + s] = __builtin_shufflevector(a, b, HI); }
FN void transpose(vf* t) {
#pragma GCC unroll 16
  SWAP(1, LO1, HI1)
#if W >= 4
#pragma GCC unroll 16
  SWAP(2, LO2, HI2)
#endif
#if W >= 8
#pragma GCC unroll 16
  SWAP(4, LO4, HI4)
#endif
#if W >= 16
#pragma GCC unroll 16
  SWAP(8, LO8, HI8)
#endif
}

//@ ints
FN i64 idiv_trunc(i64 a, i64 b) { return b == 0 ? 0 : b == -1 ? (i64)(0 - (u64)a) : a / b; }
FN i64 imod_trunc(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : a % b; }
FN i64 idiv_floor(i64 a, i64 b) { return b == 0 ? 0 : b == -1 ? (i64)(0 - (u64)a) : fdiv(a, b); }
FN i64 imod_floor(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : fmod_(a, b); }
FN i64 ipow(i64 a, i64 b) { if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) ? -1 : 1) : 0; u64 r = 1, x = (u64)a; for (; b; b >>= 1, x *= x) if (b & 1) r *= x; return (i64)r; }
#define LANES(f) \
  FN vi f(vi a, vi b) { for (int l = 0; l < W; ++l) a[l] = (int)f((i64)a[l], (i64)b[l]); return a; } \
  FN vl f(vl a, vl b) { for (int l = 0; l < W; ++l) a[l] = f(a[l], b[l]); return a; }
LANES(idiv_trunc) LANES(imod_trunc) LANES(idiv_floor) LANES(imod_floor) LANES(ipow)
)TEXT";

struct Section {
  std::vector<std::string> needs;
  std::string text;
};

std::vector<std::string> words(std::string_view line) {
  std::vector<std::string> out;
  std::size_t at = 0;
  while (at < line.size()) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    if (end > at) out.emplace_back(line.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

struct Library {
  std::vector<std::string> order;
  std::map<std::string, Section, std::less<>> sections;
};

const Library& library() {
  static const Library built = [] {
    Library lib;
    const std::string all = std::string(kSections) + std::string(float8_sections());
    std::string_view rest = all;
    constexpr std::string_view mark = "//@ ";
    std::size_t at = rest.find(mark);
    while (at != std::string_view::npos) {
      rest.remove_prefix(at + mark.size());
      const std::size_t line_end = rest.find('\n');
      const auto head = words(rest.substr(0, line_end));
      const std::size_t next = rest.find(mark);
      Section s;
      s.needs.assign(head.begin() + 1, head.end());
      s.text = std::string(rest.substr(line_end + 1, next == std::string_view::npos ? next : next - line_end - 1));
      lib.order.push_back(head[0]);
      lib.sections[head[0]] = std::move(s);
      at = next;
    }
    return lib;
  }();
  return built;
}

void close(const std::string& name, std::set<std::string>& wanted) {
  const auto& all = library().sections;
  const auto it = all.find(name);
  if (it == all.end() || !wanted.insert(name).second) return;
  for (const auto& need : it->second.needs) close(need, wanted);
}

}  // namespace

std::string vector_prelude(int bits, int lanes, const std::set<std::string, std::less<>>& functions) {
  const int half = bits / 64;
  std::string low, high;
  for (int l = 0; l < half; ++l) {
    low += fmt::format("{}{}", l ? ", " : "", l);
    high += fmt::format("{}{}", l ? ", " : "", l + half);
  }
  std::string swaps;
  for (int s = 1; s < lanes && functions.count("transpose"); s *= 2) {
    // Lane l of the low result: its own where bit s is clear, else the partner's lane l - s; the high result mirrors
    // it.
    swaps += fmt::format("#define LO{} ", s);
    for (int l = 0; l < lanes; ++l) swaps += fmt::format("{}{}", l ? ", " : "", l & s ? lanes + l - s : l);
    swaps += fmt::format("\n#define HI{} ", s);
    for (int l = 0; l < lanes; ++l) swaps += fmt::format("{}{}", l ? ", " : "", l & s ? lanes + l : l + s);
    swaps += "\n";
  }
  std::string out =
      fmt::format("#define W {}\n#define H {}\n#define LOW {}\n#define HIGH {}\n", lanes, half, low, high);
  out += swaps;
  out += kTypes;
  std::set<std::string> wanted;
  for (const auto& name : functions) close(name, wanted);
  for (const auto& name : library().order) {
    if (wanted.count(name)) out += library().sections.at(name).text;
  }
  return out;
}

}  // namespace planish::codegen
