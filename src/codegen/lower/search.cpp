#include "codegen/lower/indexed.h"

// Where numbers would stand in a sequence that is in order: searchsorted and bucketize, as pointwise kernels with a
// load for each step of a search by halves. Its steps are PyTorch's, so that what is found of a sequence that is in no
// order is the same as well.
namespace planish::codegen {
namespace {

/// `at`: coordinates of the sequence but the last one, along which it is searched for the node `x`.
Result<int> place_in_sequence(const Site& s, int sequence, const Coords& at, int x, bool right) {
  Builder& b = s.b;
  const ir::Value& value = s.low.info(sequence);
  const std::int64_t length = value.shape.back();
  const auto number = [&](std::int64_t n) { return b.integer(DType::i64, n); };
  int start = number(0), end = number(length);
  for (std::int64_t open = length; open > 0; open /= 2) {
    const bool first = open == length;
    const int middle = first ? number(length / 2) : b.op(Op::shift_right, b.add(start, end), number(1));
    Coords place = at;
    PLANISH_TRY(auto coordinate, s.low.at_run_time(middle, length));
    place.push_back(std::move(coordinate));
    PLANISH_TRY(const int y, s.low.value_as(sequence, std::move(place), b.dtype(x)));
    // Neither is the other way round where one is NaN.
    const int behind = b.op(Op::logical_not, b.test(right ? Op::gt : Op::ge, y, x));
    const int after = first ? number(length / 2 + 1) : b.add(middle, number(1));
    // The last halves may be nothing for some numbers, and one element for others.
    const int more = first ? b.integer(DType::boolean, 1) : b.test(Op::lt, start, end);
    const int left = b.op(Op::logical_and, more, b.op(Op::logical_not, behind));
    start = b.select(b.op(Op::logical_and, more, behind), after, start);
    end = b.select(left, middle, end);
  }
  return b.cast(start, s.out_dtype);
}

bool is_right(const Site& s) {
  return s.args.flag("right") || s.args.text("side") == "right";
}

}  // namespace

Result<int> searchsorted(const Site& s) {
  const int sequence = s.args.value("sorted_sequence"), self = s.args.value("self");
  if (sequence < 0 || self < 0 || s.args.value("sorter") >= 0) return unsupported("a search of another form");
  const auto& shape = s.low.info(sequence).shape;
  if (shape.empty() || s.low.info(sequence).dtype != s.low.info(self).dtype)
    return unsupported("a search for numbers of another type");
  if (shape.size() != 1 && shape.size() != s.coords.size()) return unsupported("a search of another rank");
  const DType computed = compute_dtype(s.low.info(self).dtype);
  PLANISH_TRY(const int x, s.low.value_as(self, s.coords, computed));
  Coords at;
  if (shape.size() > 1) at.assign(s.coords.begin(), s.coords.end() - 1);
  return place_in_sequence(s, sequence, at, x, is_right(s));
}

Result<int> bucketize(const Site& s) {
  const int sequence = s.args.value("boundaries"), self = s.args.value("self");
  if (sequence < 0 || self < 0) return unsupported("a search of another form");
  if (s.low.info(sequence).shape.size() != 1 || s.low.info(sequence).dtype != s.low.info(self).dtype)
    return unsupported("a search for numbers of another type");
  PLANISH_TRY(const int x, s.low.value_as(self, s.coords, compute_dtype(s.low.info(self).dtype)));
  return place_in_sequence(s, sequence, {}, x, is_right(s));
}

}  // namespace planish::codegen
