"""The catalogue of pointwise operators: each function drafts one step with random arguments."""

from __future__ import annotations

from .maker import Draft, Maker, Refused

# name → (kinds, what keeps the operand in the domain)
SMOOTH = {
    "reciprocal": ("fi", "({0}.abs() + 0.5)"), "sqrt": ("fi", "{0}.abs()"), "rsqrt": ("fi", "({0}.abs() + 0.25)"), "exp": ("fib", "{0}.clamp(-8, 8)"),
    "exp2": ("fi", "{0}.clamp(-8, 8)"), "expm1": ("fi", "{0}.clamp(-8, 8)"), "log": ("fi", "({0}.abs() + 0.5)"), "log2": ("fi", "({0}.abs() + 0.5)"),
    "log10": ("fi", "({0}.abs() + 0.5)"), "log1p": ("fi", "{0}.abs()"), "sin": ("fi", "{0}"), "cos": ("fi", "{0}"), "tan": ("f", "({0} * 0.5).clamp(-1, 1)"),
    "asin": ("f", "{0}.clamp(-0.875, 0.875)"), "acos": ("f", "{0}.clamp(-0.875, 0.875)"), "atan": ("fi", "{0}"), "sinh": ("fi", "{0}.clamp(-6, 6)"),
    "cosh": ("f", "{0}.clamp(-6, 6)"), "tanh": ("fi", "{0}"), "asinh": ("fi", "{0}"), "acosh": ("f", "({0}.abs() + 1.25)"), "square": ("fi", "{0}"),
    "atanh": ("f", "{0}.clamp(-0.875, 0.875)"), "erf": ("fi", "{0}"), "erfc": ("f", "{0}"), "sigmoid": ("fi", "{0}"), "sinc": ("f", "{0}"),
    "deg2rad": ("f", "{0}"), "positive": ("fi", "{0}"),
}  # fmt: skip
KEEPING = {"neg": "fi", "abs": "fi", "relu": "fi"}
STEPPED = {  # not continuous: exact operands only
    "sign": "fib", "sgn": "fi", "ceil": "fi", "floor": "fi", "trunc": "fi", "fix": "f", "round": "fi", "frac": "f", "isnan": "fi", "isinf": "fi",
    "isfinite": "fi", "logical_not": "fib", "signbit": "fi",
}  # fmt: skip


ACTIVATIONS = """gelu silu mish softplus hardswish hardsigmoid elu selu celu leaky_relu relu6 softsign logsigmoid tanhshrink softshrink
    hardtanh glu""".split()


def smooth(m: Maker) -> Draft:
    name = m.choice(list(SMOOTH))
    kinds, domain = SMOOTH[name]
    x = m.pick(kinds)
    if m.chance(0.1):
        domain = "{0}"  # NaN, Inf
    return Draft(f"torch.{name}({domain})", [x], simpler=(f"torch.{name}({{0}})",))


def keeping(m: Maker) -> Draft:
    name = m.choice(list(KEEPING))
    return Draft(f"torch.{name}({{0}})", [m.pick(KEEPING[name])], keeps=True)


def stepped(m: Maker) -> Draft:
    name = m.choice(list(STEPPED))
    return Draft(f"torch.{name}({{0}})", [m.pick(STEPPED[name], exact=True)], keeps=name != "frac")


def activation(m: Maker) -> Draft:
    x = m.pick("f")
    name = m.choice(ACTIVATIONS)
    arguments = {
        "gelu": ["", ", approximate='tanh'"], "softplus": ["", ", beta=2.0", ", beta=0.5, threshold=4.0"], "elu": ["", ", alpha=0.5"],
        "celu": ["", ", alpha=2.0"], "leaky_relu": ["", ", negative_slope=0.25"], "softshrink": ["", ", lambd=0.25"],
        "hardtanh": ["", ", min_val=-0.5, max_val=0.75"],
    }.get(name, [""])  # fmt: skip
    if name == "glu":
        x = m.pick("f", rank=1, accept=lambda t: any(d and d % 2 == 0 for d in t.shape))
        dims = [i for i, d in enumerate(x.tensor.shape) if d and d % 2 == 0]
        return Draft(f"F.glu({{0}}, {m.rng.choice(dims)})", [x])
    return Draft(f"F.{name}({{0}}{m.choice(arguments)})", [x], keeps=name in ("relu6", "hardtanh"), simpler=(f"F.{name}({{0}})",))


def stepped_activation(m: Maker) -> Draft:
    x = m.pick("f", exact=True)
    text = m.choice(
        ["F.hardshrink({0})", "F.hardshrink({0}, lambd=0.75)", "F.threshold({0}, 0.25, -1.0)", "torch.logit({0}, eps=0.125)", "torch.logit({0}.sigmoid())",
         "torch.nan_to_num({0})", "torch.nan_to_num({0}, nan=0.5, posinf=8.0, neginf=-8.0)", "torch.heaviside({0}, {0}.new_ones(()))"]
    )  # fmt: skip
    return Draft(text, [x], keeps="logit" not in text and "num" not in text)


def prelu(m: Maker) -> Draft:
    from .case import Leaf

    x = m.pick("f", rank=2, accept=lambda t: t.shape[1] > 0)
    count = x.tensor.shape[1] if m.chance(0.6) else 1
    weight = m.leaf(Leaf("", "param", str(x.tensor.dtype).removeprefix("torch."), (count,)))
    return Draft("F.prelu({0}, {1})", [x, weight])


def arithmetic(m: Maker) -> Draft:
    x = m.pick("fib")
    name = m.choice(["add", "sub", "mul", "rsub", "add", "mul"])
    scalar = m.chance(0.3)
    other = None if scalar else m.partner(x)
    right = m.number(x) if scalar else "{1}"
    if name == "mul":
        return Draft(f"torch.mul({{0}}, {right})" if m.chance(0.8) or not scalar else f"{right} * {{0}}", [x] if other is None else [x, other])
    alpha = ""
    if m.chance(0.4):
        integral = x.kind != "f" and (other is None or other.kind != "f")
        alpha = f", alpha={m.integer() if integral else m.choice([m.real(), m.integer()])}"
    return Draft(f"torch.{name}({{0}}, {right}{alpha})", [x] if other is None else [x, other], simpler=(f"torch.{name}({{0}}, {right})",))


def division(m: Maker) -> Draft:
    x = m.pick("fib")
    if m.chance(0.3):
        return Draft(f"torch.div({{0}}, {m.choice([m.real(True), m.integer(True)])})", [x])
    y = m.partner(x)
    if y.kind == "f":
        return Draft("torch.div({0}, {1}.abs() + 0.5)" if m.chance(0.9) else "torch.div({0}, {1})", [x, y])
    return Draft("torch.div({0}, {1}.abs() + 1)" if y.kind == "i" else "torch.div({0}, {1})", [x, y])


def stepped_division(m: Maker) -> Draft:
    x = m.pick("fi", exact=True)
    text = m.choice(
        ["torch.div({0}, %s, rounding_mode='floor')", "torch.div({0}, %s, rounding_mode='trunc')", "torch.floor_divide({0}, %s)", "torch.remainder({0}, %s)",
         "torch.fmod({0}, %s)", "{0} // %s", "{0} %% %s"]
    )  # fmt: skip
    if m.chance(0.4):
        return Draft(text % m.choice([m.real(True), m.integer(True), "-3", "-1.5"]), [x])
    y = m.partner(x, "fi", exact=True)
    away = "({1} | 1)" if y.kind == "i" else "torch.where({1}.abs() < 0.25, 1.5, {1})"
    return Draft(text % away, [x, y])


def two_of_a_kind(m: Maker) -> Draft:
    """maximum and its kin: continuous, exact where the operands are."""
    x = m.pick("fib")
    name = m.choice(["maximum", "minimum", "fmax", "fmin", "max", "min"])
    return Draft(f"torch.{name}({{0}}, {{1}})", [x, m.partner(x)], keeps=True)


def two_floats(m: Maker) -> Draft:
    x = m.pick("f")
    text = m.choice(["torch.hypot({0}, {1})", "torch.logaddexp({0}, {1})", "torch.xlogy({0}, {1}.abs() + 0.5)", "torch.atan2({0}, {1}.abs() + 0.5)"])
    return Draft(text, [x, m.partner(x, "f")])


def stepped_floats(m: Maker) -> Draft:
    x = m.pick("f")
    text = m.choice(["torch.copysign({0}, {1})", "torch.atan2({0}, {1})"])
    if "atan2" in text:
        x = m.pick("f", exact=True)
    return Draft(text, [x, m.partner(x, "f", exact=True)])


def comparison(m: Maker) -> Draft:
    x = m.pick("fib", exact=True)
    name = m.choice(["eq", "ne", "lt", "le", "gt", "ge"])
    if m.chance(0.4):
        return Draft(f"torch.{name}({{0}}, {m.number(x)})", [x], keeps=True)
    return Draft(f"torch.{name}({{0}}, {{1}})", [x, m.partner(x, exact=True)], keeps=True)


def logical(m: Maker) -> Draft:
    x = m.pick("fib", exact=True)
    return Draft(f"torch.logical_{m.choice(['and', 'or', 'xor'])}({{0}}, {{1}})", [x, m.partner(x, exact=True)], keeps=True)


def bitwise(m: Maker) -> Draft:
    x = m.pick("ib")
    if m.chance(0.15):
        return Draft("~{0}", [x], keeps=True)
    if x.kind == "i" and m.chance(0.3):
        text = m.choice(["torch.bitwise_left_shift({0}, %s)", "torch.bitwise_right_shift({0}, %s)", "{0} << %s", "{0} >> %s"])
        if m.chance(0.5):
            return Draft(text % m.choice(["1", "2", "3"]), [x], keeps=True)
        return Draft(text % "({1} & 3)", [x, m.partner(x, "i")], keeps=True)
    name = m.choice(["bitwise_and", "bitwise_or", "bitwise_xor"])
    if m.chance(0.3):
        return Draft(f"torch.{name}({{0}}, {'True' if x.kind == 'b' else m.integer()})", [x], keeps=True)
    sign = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}[name]
    return Draft(f"{{0}} {sign} {{1}}" if m.chance(0.4) else f"torch.{name}({{0}}, {{1}})", [x, m.partner(x, "ib")], keeps=True)


def power(m: Maker) -> Draft:
    x = m.pick("fi")
    if x.kind == "i":
        return Draft(f"torch.pow({{0}}, {m.choice(['0', '1', '2', '3', '5', '0.5'])})", [x])
    if m.chance(0.6):
        exponent = m.choice(["0", "1", "2", "3", "-1", "-2", "0.5", "-0.5", "2.0", "1.5", "4", "-1.5", "True"])
        positive = exponent in ("0.5", "-0.5", "1.5", "-1.5", "-1", "-2")
        return Draft(f"torch.pow({'({0}.abs() + 0.5)' if positive and m.chance(0.9) else '{0}'}, {exponent})", [x])
    if m.chance(0.4):
        return Draft(f"torch.pow({m.choice(['2', '0.5', '3.0', '1'])}, {{0}}.clamp(-4, 4))", [x])
    return Draft("torch.pow({0}.abs() + 0.5, {1}.clamp(-3, 3))", [x, m.partner(x, "f")])


def choose(m: Maker) -> Draft:
    c = m.pick("b")
    x = m.partner(c)
    form = m.rng.randrange(4)
    if form == 0:
        return Draft(f"torch.where({{0}}, {{1}}, {m.number(x)})", [c, x], keeps=True)
    if form == 1:
        return Draft(f"torch.where({{0}}, {m.number(x)}, {{1}})", [c, x], keeps=True)
    if form == 2:
        return Draft(f"torch.where({{0}}, {m.number(x)}, {m.number(x)})", [c], keeps=True)
    y = m.partner(c)
    return Draft("torch.where({0}, {1}, {2})", [c, x, y], keeps=True)


def fill(m: Maker) -> Draft:
    x = m.pick("fib")
    c = m.partner(x, "b")
    if m.chance(0.25):
        y = m.pick("fib", accept=lambda t: t.ndim == 0)
        return Draft("{0}.masked_fill({1}, {2})", [x, c, y], keeps=True)
    value = "float('-inf')" if x.kind == "f" and m.chance(0.1) else m.number(x)
    return Draft(f"{{0}}.masked_fill({{1}}, {value})", [x, c], keeps=True)


def clamp(m: Maker) -> Draft:
    x = m.pick("fi")
    form = m.rng.randrange(6)
    low, high = ("-0.5", "1.5") if x.kind == "f" else ("-3", "5")
    if form == 0:
        return Draft(f"torch.clamp({{0}}, {low}, {high})", [x], keeps=True)
    if form == 1:
        return Draft(f"torch.clamp({{0}}, min={m.number(x)})", [x], keeps=True)
    if form == 2:
        return Draft(f"torch.clamp({{0}}, max={m.number(x)})", [x], keeps=True)
    y = m.partner(x, "fi")
    if form == 3:
        return Draft("torch.clamp({0}, min={1})", [x, y], keeps=True)
    if form == 4:
        return Draft("torch.clamp({0}, max={1})", [x, y], keeps=True)
    return Draft("torch.clamp({0}, {1}, {2})", [x, y, m.partner(x, "fi")], keeps=True)


def three(m: Maker) -> Draft:
    x = m.pick("fi")
    y, z = m.partner(x, x.kind), m.partner(x, x.kind)
    value = "" if m.chance(0.5) else f", value={m.real() if x.kind == 'f' else m.integer()}"
    if x.kind == "f" and m.chance(0.3):
        return Draft(f"torch.addcdiv({{0}}, {{1}}, {{2}}.abs() + 0.5{value})", [x, y, z])
    if x.kind == "f" and m.chance(0.4):
        same = [v for v in (y, z) if v.tensor.dtype == x.tensor.dtype]
        if len(same) < 2:
            raise Refused
        return Draft("torch.lerp({0}, {1}, {2}.sigmoid())" if m.chance(0.6) else f"torch.lerp({{0}}, {{1}}, {m.real()})", [x, y, z])
    return Draft(f"torch.addcmul({{0}}, {{1}}, {{2}}{value})", [x, y, z], simpler=("torch.addcmul({0}, {1}, {2})",))


def cast(m: Maker) -> Draft:
    x = m.pick("fib")
    to = m.dtype("ffib")
    text = {"float32": "{0}.float()", "float16": "{0}.half()", "float64": "{0}.double()", "bool": "{0}.bool()", "int64": "{0}.long()"}.get(to, "")
    if not text or m.chance(0.5):
        text = f"{{0}}.to(torch.{to})"
    if x.kind == "f" and not to.startswith(("float", "bfloat")):
        x = m.pick("f", exact=True, accept=lambda t: bool((t.abs() < 100).all()))
        if to == "uint8":
            text = text.replace("{0}", "{0}.abs()")
    exact = x.kind != "f" or to in ("float64", "bool") or (x.tensor.dtype.itemsize < 4 and to == "float32") or to.startswith(("int", "uint"))
    if x.kind == "i" and "float" in to:
        exact = bool((x.tensor.double().abs() < 100).all())
    return Draft(text, [x], keeps=exact)


def like(m: Maker) -> Draft:
    x = m.pick("fib")
    return Draft("{0}.type_as({1})", [x, m.pick("f" if x.kind == "f" else "fi")], keeps=False)


# (weight, draft)
CATALOGUE = [
    (6, smooth), (2, keeping), (2, stepped), (4, activation), (1, stepped_activation), (1, prelu), (7, arithmetic), (3, division), (2, stepped_division),
    (3, two_of_a_kind), (2, two_floats), (1, stepped_floats), (3, comparison), (1, logical), (2, bitwise), (3, power), (3, choose), (2, fill), (3, clamp),
    (2, three), (4, cast), (1, like),
]  # fmt: skip
