#include "codegen/emit/cpp_operation.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "codegen/operation.h"

namespace planish::codegen::cpp {
namespace {

/// Of two operands that meet: what can hold both.
Form join(Form a, Form b) {
  if (a == b) return a;
  if (a == Form::d || b == Form::d) return Form::d;
  if (a == Form::f || b == Form::f) return Form::f;
  if (a == Form::l || b == Form::l) return Form::l;
  return Form::i;
}

/// Roundings to a whole number, which integers already are.
struct Rounding {
  Op op;
  std::string_view function;
};
constexpr Rounding roundings[] = {
    {Op::ceil, "ceil_"}, {Op::floor, "floor_"}, {Op::round_even, "rint_"}, {Op::trunc, "trunc_"}};

/// Functions of the prelude that are others for floating-point numbers than for integers.
struct TwoKinds {
  Op op;
  std::string_view floating, whole;
};
constexpr TwoKinds two_kinds[] = {{Op::floor_div, "floor_div_", "idiv_floor"},
                                  {Op::remainder, "remainder_", "imod_floor"},
                                  {Op::fmod, "mod_trunc", "imod_trunc"}};

class OperationText {
 public:
  OperationText(Printer& printer, const View& view, int node, const Spot& spot)
      : printer_(printer),
        view_(view),
        spot_(spot),
        n_(view.kernel.nodes[static_cast<std::size_t>(node)]),
        vec_(view.vec(node)),
        form_(view.form[static_cast<std::size_t>(node)]),
        floating_(form_ == Form::f || form_ == Form::d) {}

  std::string text() {
    if (auto text = of_family()) return *text;
    if (auto text = of_table()) return *text;
    if (info(n_.op).truth) return truth();
    switch (info(n_.op).arity) {
      case 1:
        return of_one();
      case 2:
        return of_two();
      default:
        return of_three();
    }
  }

 private:
  // ---- operands and the words of the prelude ----

  Form arg_form(std::size_t i) const { return view_.form[static_cast<std::size_t>(n_.args[i])]; }
  std::string as(std::size_t i, Form form) { return printer_.value(n_.args[i], form, vec_, spot_); }
  std::string arg(std::size_t i) { return as(i, form_); }

  std::string lit(double x) const {
    const std::string text = printer_.literal(form_, x, static_cast<std::int64_t>(x));
    return vec_ ? fmt::format("splat({})", text) : text;
  }

  std::string call(std::string_view function, std::string_view args) {
    printer_.used().emplace(function);
    return fmt::format("{}({})", function, args);
  }

  /// The same of a function that the C library has for vectors of double.
  std::string library_call(std::string_view function, std::string_view args) {
    if (form_ == Form::d && vec_) printer_.used().insert("libm");
    return call(function, args);
  }

  /// A condition on numbers of form `of`, as a mask.
  std::string test(const std::string& condition, Form of) const {
    return vec_ ? fmt::format("mask(({})({}))", of == Form::d || of == Form::l ? "vl" : "vi", condition)
                : fmt::format("mask({})", condition);
  }
  std::string is_negative() { return test(arg(0) + " < 0", form_); }

  /// Small integers live in 32 bits and wrap after each operation.
  std::string wrap(const std::string& text) const {
    if (form_ != Form::i) return text;
    if (n_.dtype == DType::i8) return fmt::format("((({}) << 24) >> 24)", text);
    if (n_.dtype == DType::i16) return fmt::format("((({}) << 16) >> 16)", text);
    if (n_.dtype == DType::u8) return fmt::format("(({}) & 255)", text);
    return text;
  }

  std::string_view unsigned_type() const {
    return vec_ ? (form_ == Form::l ? "vul" : "vu") : (form_ == Form::l ? "u64" : "unsigned");
  }

  std::string arithmetic(const std::string& a, std::string_view sign, const std::string& b) const {
    if (floating_) return fmt::format("{} {} {}", a, sign, b);
    return wrap(fmt::format("({0})(({1})({2}) {3} ({1})({4}))", type_name(form_, vec_), unsigned_type(), a, sign, b));
  }

  /// An operand that the compiler may fuse with this operation, but for a product whose rounding counts.
  std::string unfused(std::size_t i) {
    if (product_beside_extreme(view_.kernel, n_) != static_cast<int>(i)) return arg(i);
    return call("rounded", arg(i));
  }

  /// A function of the prelude over two integers.
  std::string of_integers(std::string_view function) {
    printer_.used().insert("ints");
    return wrap(fmt::format("({}){}({}, {})", type_name(form_, vec_), function, arg(0), arg(1)));
  }

  /// Of two booleans.
  std::string of_masks(std::string_view sign) { return fmt::format("{} {} {}", arg(0), sign, arg(1)); }

  // ---- operations ----

  /// What operation.h's table spells: a function of one argument, or a sign.
  std::optional<std::string> of_family() {
    const OperationInfo& one = info(n_.op);
    switch (one.form) {
      case OperationForm::function:
        return library_call(fmt::format("{}_", one.name), arg(0));
      case OperationForm::comparison: {
        const Form f = join(arg_form(0), arg_form(1));
        return test(fmt::format("{} {} {}", as(0, f), one.sign, as(1, f)), f);
      }
      case OperationForm::logic:
        return fmt::format("{} {} {}", as(0, Form::b), one.sign, as(1, Form::b));
      case OperationForm::bits:
        return fmt::format("{} {} {}", arg(0), one.sign, arg(1));
      case OperationForm::arithmetic:
        if (form_ == Form::b && n_.op != Op::sub) return of_masks(n_.op == Op::add ? "|" : "&");
        return floating_ ? arithmetic(unfused(0), one.sign, unfused(1)) : arithmetic(arg(0), one.sign, arg(1));
      default:
        return std::nullopt;
    }
  }

  /// What the tables of this file spell.
  std::optional<std::string> of_table() {
    for (const Rounding& one : roundings) {
      if (one.op == n_.op) return floating_ ? call(one.function, arg(0)) : arg(0);
    }
    for (const TwoKinds& one : two_kinds) {
      if (one.op != n_.op) continue;
      if (!floating_) return of_integers(one.whole);
      printer_.used().insert("fmod_f");
      return fmt::format("{}({}, {})", one.floating, arg(0), arg(1));
    }
    return std::nullopt;
  }

  /// Booleans that are no comparisons.
  std::string truth() {
    const Form f = arg_form(0);
    const char* const suffix = f == Form::f ? "f" : "";
    switch (n_.op) {
      case Op::logical_not:
        return fmt::format("~{}", as(0, Form::b));
      case Op::isnan:
        return test(fmt::format("{0} != {0}", as(0, f)), f);
      case Op::isinf:
        return test(fmt::format("abs_({}) == __builtin_inf{}()", as(0, f), suffix), f);
      case Op::isfinite:
        return test(fmt::format("abs_({}) < __builtin_inf{}()", as(0, f), suffix), f);
      default:
        return lit(0);
    }
  }

  std::string of_one() {
    switch (n_.op) {
      case Op::cast:
        return cast();
      case Op::neg:
        return floating_ ? fmt::format("-({})", arg(0)) : arithmetic(lit(0), "-", arg(0));
      case Op::abs:
        return floating_ ? fmt::format("abs_({})", arg(0))
                         : wrap(fmt::format("sel({}, {}, {})", is_negative(), arithmetic(lit(0), "-", arg(0)), arg(0)));
      case Op::sign:
        return fmt::format("sel({}, {}, sel({}, {}, {}))", test(arg(0) + " > 0", form_), lit(1), is_negative(), lit(-1),
                           lit(0));
      case Op::frac:
        return fmt::format("{} - {}", arg(0), call("trunc_", arg(0)));
      case Op::reciprocal:
        return fmt::format("{} / {}", lit(1), arg(0));
      case Op::sqrt:
        return call("sqrt_", arg(0));
      case Op::rsqrt:
        return fmt::format("{} / {}", lit(1), call("sqrt_", arg(0)));
      case Op::bitwise_not:
        return wrap(fmt::format("~{}", arg(0)));
      case Op::relu:
        return fmt::format("sel({}, {}, {})", is_negative(), lit(0), arg(0));
      default:
        return lit(0);
    }
  }

  std::string of_two() {
    switch (n_.op) {
      case Op::div:
        return fmt::format("{} / {}", arg(0), arg(1));
      case Op::trunc_div:
        return floating_ ? call("trunc_", arg(0) + " / " + arg(1)) : of_integers("idiv_trunc");
      case Op::pow:
        return floating_ ? library_call("pow_", arg(0) + ", " + arg(1)) : of_integers("ipow");
      case Op::atan2:
        return library_call("atan2_", arg(0) + ", " + arg(1));
      case Op::hypot:
        return library_call("hypot_", arg(0) + ", " + arg(1));
      case Op::copysign:
        return fmt::format("with_sign({}, {})", arg(0), arg(1));
      case Op::maximum:
      case Op::minimum:
        return extreme();
      case Op::fmax:
      case Op::fmin:
        return fmt::format("sel({} | {}, {}, {})",
                           test(fmt::format("{} {} {}", arg(0), n_.op == Op::fmax ? ">=" : "<=", arg(1)), form_),
                           test(fmt::format("{0} != {0}", arg(1)), form_), arg(0), arg(1));
      case Op::shift_left:
      case Op::shift_right:
        return shift();
      default:
        return lit(0);
    }
  }

  std::string of_three() {
    if (n_.op == Op::select) return fmt::format("sel({}, {}, {})", as(0, Form::b), arg(1), arg(2));
    if (n_.op == Op::fma) return fmt::format("{} * {} + {}", arg(0), arg(1), arg(2));
    return lit(0);
  }

  std::string cast() {
    const Form from = arg_form(0);
    std::string t = as(0, from);
    const Node& inner = view_.kernel.nodes[static_cast<std::size_t>(n_.args[0])];
    // g++ makes one truncation of float to integer to float, which keeps the sign of a zero that no integer has.
    if (floating_ && !vec_ && (from == Form::i || from == Form::l) && inner.op == Op::cast) t = call("settled", t);
    t = printer_.convert(t, from, form_, vec_);
    if (n_.rounds && is_narrow(n_.dtype)) {
      const std::string_view to = name(n_.dtype);
      printer_.used().emplace(to);
      return fmt::format("round_{}({})", to, t);
    }
    return wrap(t);
  }

  std::string extreme() {
    const bool greatest = n_.op == Op::maximum;
    if (form_ == Form::b) return of_masks(greatest ? "|" : "&");
    printer_.used().insert("fold");
    // A clamped i64 may be known to fit 32 bits; what it clamps need not.
    const Form f = join(form_, join(arg_form(0), arg_form(1)));
    return printer_.convert(fmt::format("{}({}, {})", greatest ? "greater" : "less", as(0, f), as(1, f)), f, form_,
                            vec_);
  }

  /// By less than nothing, or by more than there are bits: nothing is left but the sign.
  std::string shift() {
    const bool left = n_.op == Op::shift_left;
    const int width = form_ == Form::l                                 ? 64
                      : n_.dtype == DType::i16                         ? 16
                      : n_.dtype == DType::i8 || n_.dtype == DType::u8 ? 8
                                                                       : 32;
    const int most = form_ == Form::l ? 63 : 31;
    const std::string bad =
        fmt::format("{} | {}", test(arg(1) + " < 0", form_), test(fmt::format("{} >= {}", arg(1), width), form_));
    const std::string by = fmt::format("({} & {})", arg(1), most);
    const std::string moved =
        left ? fmt::format("({0})(({1})({2}) << {3})", type_name(form_, vec_), unsigned_type(), arg(0), by)
             : fmt::format("({} >> {})", arg(0), by);
    const std::string otherwise = left ? lit(0) : fmt::format("({} >> {})", arg(0), most);
    return wrap(fmt::format("sel({}, {}, {})", bad, otherwise, moved));
  }

  Printer& printer_;
  const View& view_;
  const Spot& spot_;
  const Node& n_;
  const bool vec_;
  const Form form_;
  const bool floating_;
};

}  // namespace

std::string operation_text(Printer& printer, const View& view, int node, const Spot& spot) {
  return OperationText(printer, view, node, spot).text();
}

}  // namespace planish::codegen::cpp
