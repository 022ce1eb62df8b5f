#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/dtype.h"
#include "judge/aims.h"
#include "judge/parts.h"

/// Why outputs are wrong, from where and by how much they are.
namespace planish::judge {
namespace {

/// Relative root-mean-square error of one rounding to so many significant bits.
double rounding(int bits) {
  return std::ldexp(1.0, -bits) / std::sqrt(3.0);
}

/// Half of the last place: what an output of this dtype cannot be better than.
double output_rounding(const std::string& dtype) {
  const auto known = dtype_from_name(dtype);
  if (!known) return rounding(24);
  switch (*known) {
    case DType::f64:
      return rounding(53);
    case DType::f16:
      return rounding(11);
    case DType::bf16:
      return rounding(8);
    case DType::f8_e4m3:
    case DType::f8_e4m3_fnuz:
      return rounding(4);
    case DType::f8_e5m2:
    case DType::f8_e5m2_fnuz:
      return rounding(3);
    default:
      return rounding(24);
  }
}

/// The case that failed: the last one where evaluation stopped. Null where the document has none.
const TestCase* failing_case(const Evaluation& e) {
  if (!e.test) return nullptr;
  for (auto it = e.test->cases.rbegin(); it != e.test->cases.rend(); ++it) {
    if (!it->ok) return &*it;
  }
  return nullptr;
}

double excess(const OutputErrors& errors) {
  const auto over = [](double error, double gate) {
    if (!(error <= gate)) return gate > 0 ? error / gate : 1e300;  // NaN counts as beyond
    return gate > 0 ? error / gate : 0.0;
  };
  return std::max(over(errors.fro, errors.gate_fro), over(errors.max, errors.gate_max));
}

/// Where the worst element lies in its output.
struct Place {
  bool known = false;
  bool last_of_row = false;  ///< within the last vector of the last dimension
  bool last_row = false;     ///< last index in every dimension but the last
  std::int64_t length = 0;   ///< of the last dimension
  std::int64_t ragged = 0;   ///< elements of a row beyond the last whole vector
};

/// Elements that one access of the candidate holds.
std::int64_t vector_elements(const Question& question, std::size_t output) {
  std::int64_t size = 4;
  if (output < question.output_dtypes.size()) {
    if (const auto dtype = dtype_from_name(question.output_dtypes[output])) size = std::max(1, size_of(*dtype));
  }
  if (const auto bits = codegen::gene(question.genome, "bits", 0); bits > 0)
    return std::max<std::int64_t>(1, bits / 8 / size);
  return std::max<std::int64_t>(1, codegen::gene(question.genome, "vector", size) / size);
}

Place place_of(const Question& question, std::size_t output, const WorstElement& worst) {
  Place place;
  if (output >= question.output_shapes.size()) return place;
  const auto& shape = question.output_shapes[output];
  if (shape.empty() || shape.size() != worst.index.size()) return place;
  place.known = true;
  place.length = shape.back();
  const std::int64_t vector = vector_elements(question, output);
  place.ragged = place.length % vector;
  place.last_of_row = worst.index.back() >= place.length - std::max<std::int64_t>(1, place.ragged);
  place.last_row = shape.size() > 1;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) place.last_row = place.last_row && worst.index[d] == shape[d] - 1;
  return place;
}

bool finite(const WorstElement& worst) {
  return std::isfinite(worst.actual) && std::isfinite(worst.expected);
}

/// n or 1/n for a whole n from 2 to 64, where actual is that multiple of expected; 0 otherwise.
double multiple(const WorstElement& worst) {
  if (!finite(worst) || worst.expected == 0 || worst.actual == 0) return 0;
  const double ratio = worst.actual / worst.expected;
  for (const double r : {ratio, 1 / ratio}) {
    const double whole = std::round(r);
    if (whole >= 2 && whole <= 64 && std::fabs(r - whole) < 1e-3 * whole) return r == ratio ? whole : 1 / whole;
  }
  return 0;
}

class Mismatch {
 public:
  explicit Mismatch(const Question& question) : question_(question), e_(question.evaluation) {
    out_.kind = Kind::mismatch;
    failed_ = failing_case(e_);
    if (failed_ == nullptr || failed_->outputs.empty()) return;
    const auto worst = std::ranges::max_element(failed_->outputs, {}, excess);
    at_ = static_cast<std::size_t>(worst - failed_->outputs.begin());
    errors_ = &*worst;
  }

  Verdict verdict() {
    numbers();
    if (e_.outcome == Outcome::nondeterministic) {
      return settle("race",
                    "two runs on the same data disagree by more than rounding: something is read before it is written",
                    Aim::less_coordination, 0.5);
    }
    if (e_.outcome == Outcome::wrong_when_timed) {
      return settle(
          "stale_between_runs",
          "right when run once, wrong in a row of runs on other buffers: it leans on what an earlier run left",
          Aim::less_coordination, 0.4);
    }
    if (e_.outcome == Outcome::unwritten) return unwritten();
    if (e_.outcome == Outcome::nan) return misplaced();
    if (errors_ == nullptr) return settle("wrong_values", e_.message, std::nullopt, 0);
    return by_size();
  }

 private:
  void fact(const char* name, double value, const char* unit = "") { out_.evidence.push_back({name, value, unit}); }

  /// The numbers that every mismatch is told with.
  void numbers() {
    if (failed_ == nullptr) return;
    const auto passed = std::ranges::count(e_.test->cases, true, &TestCase::ok);
    fact("cases_passed", static_cast<double>(passed));
    if (errors_ == nullptr) return;
    fact("output", static_cast<double>(at_));
    fact("error_fro", errors_->fro);
    fact("gate_fro", errors_->gate_fro);
    fact("error_max", errors_->max);
    fact("gate_max", errors_->gate_max);
    fact("eager_fro", errors_->eager_fro);
    if (!errors_->worst) return;
    fact("worst_expected", errors_->worst->expected);
    fact("worst_actual", errors_->worst->actual);
    place_ = place_of(question_, at_, *errors_->worst);
    if (!errors_->worst->index.empty()) fact("worst_column", static_cast<double>(errors_->worst->index.back()));
    if (place_.known) {
      fact("row_length", static_cast<double>(place_.length));
      fact("row_ragged", static_cast<double>(place_.ragged));
    }
  }

  std::string where() const {
    std::string out = failed_ == nullptr ? "" : fmt::format("on {} data", failed_->regime);
    if (errors_ != nullptr && errors_->worst)
      out += fmt::format(", worst at [{}]", fmt::join(errors_->worst->index, ", "));
    return out;
  }

  Verdict settle(const char* issue, const std::string& why, std::optional<Aim> aim, double chance) {
    out_.issue = issue;
    const std::string place = where();
    out_.message = place.empty() ? why : fmt::format("{} ({})", why, place);
    if (aim) out_.moves = moves_for(*aim, chance, question_.genome, question_.genes);
    return std::move(out_);
  }

  Verdict unwritten() {
    if (place_.known && (place_.last_of_row || place_.last_row)) {
      return settle("missing_tail", "the end of the data is never written: the last, partial piece of work is left out",
                    Aim::inside_bounds, 0.6);
    }
    const bool first = errors_ != nullptr && errors_->worst &&
                       std::ranges::all_of(errors_->worst->index, [](std::int64_t i) { return i == 0; });
    return first
               ? settle("nothing_written", "the outputs are never written, from the first element on", std::nullopt, 0)
               : settle("missing_part", "a part of the outputs is never written: some pieces of work belong to nobody",
                        Aim::inside_bounds, 0.4);
  }

  Verdict misplaced() {
    const std::string regime = failed_ == nullptr ? "task" : failed_->regime;
    const bool should_be_finite = errors_ != nullptr && errors_->worst && std::isfinite(errors_->worst->expected);
    if (!should_be_finite && errors_ != nullptr && errors_->worst) {
      return settle("special_values", "a NaN or Inf that PyTorch gives is lost", Aim::more_exact, 0.4);
    }
    if (regime == "special" || regime == "infinite") {
      return settle("special_values", "Inf or NaN in the inputs spoils elements that PyTorch keeps finite",
                    Aim::more_exact, 0.4);
    }
    if (regime == "wide" || regime == "offset") {
      return settle("overflow", "an intermediate value leaves its range on large data", Aim::more_exact, 0.5);
    }
    return settle("uninitialised",
                  "NaN on ordinary data: memory is used that nobody wrote, or a division by zero in the padding",
                  Aim::inside_bounds, 0.5);
  }

  Verdict by_size() {
    const double fro = errors_->fro;
    fact("times_the_gate", excess(*errors_));
    // If k of N elements are wrong by d, fro is about d·sqrt(k/N) and max about d.
    const double share = errors_->max > 0 ? std::min(1.0, (fro / errors_->max) * (fro / errors_->max)) : 1.0;
    fact("share_of_wrong_elements", share);
    const bool ends = place_.known && (place_.last_of_row || place_.last_row);
    const double own = output_rounding(at_ < question_.output_dtypes.size() ? question_.output_dtypes[at_] : "f32");
    fact("error_in_output_roundings", fro / own);
    const bool large = errors_->max > 0.05;
    if (large && share < 0.1 && ends) {
      return settle("missing_tail", "few elements are far off, at the end of the data: the last, partial piece of work",
                    Aim::inside_bounds, 0.6);
    }
    if (large && errors_->worst && errors_->worst->actual == 0 && errors_->worst->expected != 0) {
      return settle("left_zero", "zero where a value should be: a mask or a bound is too tight", Aim::inside_bounds,
                    0.4);
    }
    if (large && errors_->worst && multiple(*errors_->worst) != 0) {
      fact("actual_over_expected", multiple(*errors_->worst));
      return settle("miscounted",
                    "a whole multiple or part of what is right: something is added several times, or not by all",
                    Aim::less_coordination, 0.4);
    }
    if (is_scaled()) {
      fact("actual_over_expected", *errors_->slope);
      return settle("scaled",
                    fmt::format("all values are {:.4g} times what is right, and nothing else is wrong with them: a "
                                "constant factor is off",
                                *errors_->slope),
                    std::nullopt, 0);
    }
    if (large) {
      return share < 0.1 ? settle("wrong_places", "few elements are far off: wrong indices or a race in a corner",
                                  Aim::inside_bounds, 0.3)
                         : settle("wrong_values", "most elements are far off: the formula or its indices are wrong",
                                  std::nullopt, 0);
    }
    return precision(fro, share);
  }

  /// Whether one factor explains all but a tenth of the error. Roundings err both ways: they are orthogonal to what is
  /// right, and no factor explains them.
  bool is_scaled() const {
    if (!errors_->slope) return false;
    const double off = std::fabs(*errors_->slope - 1);
    const double rest = std::sqrt(std::max(0.0, errors_->fro * errors_->fro - off * off));
    return off > 0 && rest < 0.1 * off;
  }

  /// Values are nearly right: what was rounded, and to how many bits?
  Verdict precision(double fro, double share) {
    const bool earlier_passed = e_.test && e_.test->cases.size() > 1;
    if (failed_->regime == "offset" && earlier_passed) {
      return settle("cancellation",
                    "large equal parts are subtracted: sums of squares around a large mean lose their digits",
                    Aim::more_exact, 0.4);
    }
    if (failed_->regime == "wide" && earlier_passed) {
      return settle("range", "precision is lost on data of many magnitudes", Aim::more_exact, 0.5);
    }
    // A rounding is at all elements, and at none by much more than at the others.
    const bool everywhere = share > 0.03;
    if (fro > 4 * rounding(8) || (fro > 0.5 * rounding(8) && !everywhere)) {
      return settle("coarse",
                    everywhere ? "off by more than a few roundings to 8 bits: sums are kept in bf16, or a part of the "
                                 "formula is another one"
                               : "some elements are off by far more than the others: a part of the formula, or an "
                                 "approximation of it, is wrong for their values",
                    Aim::more_exact, 0.3);
    }
    if (fro > 0.5 * rounding(8)) {
      return settle("rounded_to_bf16", "off by as much as one rounding to 8 bits: values pass through bf16",
                    Aim::more_exact, 0.6);
    }
    if (fro > 0.2 * rounding(11) && everywhere) {
      return settle("rounded_to_11_bits", "off by as much as one rounding to 11 bits: values pass through TF32 or f16",
                    Aim::more_exact, 0.6);
    }
    return settle("accumulation", "nearly right: long chains of additions or approximate functions round too much",
                  Aim::more_exact, 0.7);
  }

  const Question& question_;
  const Evaluation& e_;
  Verdict out_;
  const TestCase* failed_ = nullptr;
  const OutputErrors* errors_ = nullptr;
  std::size_t at_ = 0;
  Place place_;
};

}  // namespace

Verdict judge_mismatch(const Question& question) {
  return Mismatch(question).verdict();
}

}  // namespace planish::judge
