"""Derives the polynomial coefficients of src/codegen/emit/vector_math.cpp (near-minimax Chebyshev fits, mpmath).

Run: python bench/cpu_emit/fit.py
"""

from collections.abc import Callable

from mpmath import atan, chebyfit, cos, erf, erfc, exp, expm1, log, log1p, mp, mpf, pi, sin, sqrt, tanh

mp.dps = 40


def show(name: str, f: Callable[[mpf], mpf], lo: float, hi: float, n: int, fmt: str = "f") -> None:
    """Prints n coefficients, lowest order first, and the fit's largest absolute error."""
    poly, err = chebyfit(f, [mpf(lo), mpf(hi)], n, error=True)
    digits = 10 if fmt == "f" else 19
    print(name, ", ".join(mp.nstr(c, digits) for c in reversed(poly)), f"// error {mp.nstr(err, 3)}")


def near_zero(f: Callable[[mpf], mpf], limit: mpf) -> Callable[[mpf], mpf]:
    """f with its removable singularity at 0 filled in."""
    return lambda x: f(x) if abs(x) > mpf("1e-12") else limit


ln2 = log(2)
h = ln2 / 2 * mpf("1.001")
# exp(r) = 1 + r + r^2 q(r)
show("expf", near_zero(lambda r: (expm1(r) - r) / r**2, mpf(1) / 2), -h, h, 6)
show("exp2f", near_zero(lambda r: (exp(r * ln2) - 1) / r, ln2), -0.5005, 0.5005, 7)
show("logf", near_zero(lambda f: (log1p(f) - f + f * f / 2) / f**3, mpf(1) / 3), sqrt(mpf(0.5)) - 1, sqrt(mpf(2)) - 1, 9)
show("tanhf", near_zero(lambda z: (tanh(sqrt(z)) / sqrt(z) - 1) / z, mpf(-1) / 3), 0, 0.64**2, 5)
show("erff", near_zero(lambda z: erf(sqrt(z)) / sqrt(z) - 1, 2 / sqrt(pi) - 1), 0, 0.93**2, 7)
show("erff_tail", lambda t: log(erfc(t)), 0.92, 4.0, 9)
show("exp_d", near_zero(lambda r: (expm1(r) - r) / r**2, mpf(1) / 2), -h, h, 10, "d")
# log((1+s)/(1-s)) / (2 s), in z = s^2
show("log_d", near_zero(lambda z: ((log1p(sqrt(z)) - log1p(-sqrt(z))) / (2 * sqrt(z)) - 1) / z, mpf(1) / 3), 0, 0.02946, 7, "d")
show("atan_d", near_zero(lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, mpf(-1) / 3), 0, 1, 14, "d")
q = (pi / 4) ** 2 * mpf("1.001")
show("sin_d", near_zero(lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, mpf(-1) / 6), 0, q, 5, "d")
show("cos_d", near_zero(lambda z: (cos(sqrt(z)) - 1) / z, mpf(-1) / 2), 0, q, 6, "d")
show("erf_d", near_zero(lambda z: erf(sqrt(z)) / sqrt(z), 2 / sqrt(pi)), 0, 1, 10, "d")
# exp(x^2) erfc(x), in t = (x - 3) / (x + 3)
show("erfcx_d", lambda t: exp((3 * (1 + t) / (1 - t)) ** 2) * erfc(3 * (1 + t) / (1 - t)), -0.501, 0.56, 14, "d")
