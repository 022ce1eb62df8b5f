#include "ir/index.h"

#include <doctest/doctest.h>

#include <functional>
#include <random>

using namespace planish::ir;

namespace {

void for_each_point(const Space& space, const std::function<void(const std::vector<std::int64_t>&)>& body) {
  std::vector<std::int64_t> point(space.extents.size(), 0);
  for (;;) {
    body(point);
    std::size_t i = point.size();
    while (i-- > 0) {
      if (++point[i] < space.extents[i]) break;
      point[i] = 0;
      if (i == 0) return;
    }
    if (i == static_cast<std::size_t>(-1)) return;
  }
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t k) {
  std::int64_t q = a / k;
  if (a % k != 0 && a < 0) --q;
  return q;
}

IndexExpr var(int i) {
  return IndexExpr::variable(i);
}

/// A random expression together with a function that computes the same without any simplification.
struct Pair {
  IndexExpr e;
  std::function<std::int64_t(const std::vector<std::int64_t>&)> f;
};

Pair random_pair(std::mt19937& rng, const Space& space, int depth) {
  auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(rng); };
  if (depth == 0) {
    const int i = pick(0, static_cast<int>(space.extents.size()) - 1);
    const int c = pick(-2, 12), b = pick(-5, 9);
    return {add(scale(var(i), c), IndexExpr::constant(b), space),
            [=](const auto& p) { return p[static_cast<std::size_t>(i)] * c + b; }};
  }
  const int k = pick(1, 12);
  switch (pick(0, 3)) {
    case 0: {
      Pair a = random_pair(rng, space, depth - 1), b = random_pair(rng, space, depth - 1);
      return {add(a.e, scale(b.e, k), space), [a, b, k](const auto& p) { return a.f(p) + k * b.f(p); }};
    }
    case 1: {
      Pair a = random_pair(rng, space, depth - 1);
      return {floor_div(a.e, k, space), [a, k](const auto& p) { return floor_quotient(a.f(p), k); }};
    }
    case 2: {
      Pair a = random_pair(rng, space, depth - 1);
      return {mod(a.e, k, space), [a, k](const auto& p) { return a.f(p) - k * floor_quotient(a.f(p), k); }};
    }
    default: {
      Pair a = random_pair(rng, space, depth - 1);
      std::vector<IndexExpr> replacements;
      for (std::size_t i = 0; i < space.extents.size(); ++i) {
        replacements.push_back(
            add(IndexExpr::constant(space.extents[i] - 1), scale(var(static_cast<int>(i)), -1), space));
      }
      return {substitute(a.e, replacements, space), [a, space](const auto& p) {
                std::vector<std::int64_t> flipped;
                for (std::size_t i = 0; i < p.size(); ++i) flipped.push_back(space.extents[i] - 1 - p[i]);
                return a.f(flipped);
              }};
    }
  }
}

}  // namespace

TEST_CASE("random expressions keep their value and their range") {
  std::mt19937 rng(7);
  const std::vector<Space> spaces{{{6, 4}}, {{3, 5, 4}}, {{24}}, {{2, 1, 7}}};
  for (int round = 0; round < 3000; ++round) {
    const Space& space = spaces[static_cast<std::size_t>(round) % spaces.size()];
    const Pair pair = random_pair(rng, space, 1 + round % 4);
    const auto [lo, hi] = pair.e.range(space);
    bool same = true, inside = true;
    for_each_point(space, [&](const auto& point) {
      const std::int64_t value = pair.e.evaluate(point);
      same = same && value == pair.f(point);
      inside = inside && value >= lo && value <= hi;
    });
    CHECK_MESSAGE(same, pair.e.text());
    CHECK_MESSAGE(inside, pair.e.text());
  }
}

TEST_CASE("div and mod simplify by range and by common factors") {
  const Space space{{8, 4, 6}};
  const IndexExpr e = add(scale(var(0), 4), var(1), space);
  CHECK(floor_div(e, 4, space) == var(0));
  CHECK(mod(e, 4, space) == var(1));
  CHECK(floor_div(e, 8, space).text() == "(d0 // 2)");
  CHECK(mod(e, 8, space).text() == "d1 + 4*(d0 % 2)");
  CHECK(floor_div(floor_div(var(2), 2, space), 3, space) == IndexExpr::constant(0));
  CHECK(mod(mod(var(0), 4, space), 2, space).text() == "(d0 % 2)");
  CHECK(floor_div(mod(var(0), 4, space), 2, space).text() == "((d0 // 2) % 2)");
}

TEST_CASE("a ravel undoes an unravel") {
  const Space space{{120}};
  const IndexExpr i = var(0);
  const IndexExpr a = floor_div(i, 24, space), b = mod(floor_div(i, 6, space), 4, space), c = mod(i, 6, space);
  CHECK(add(add(scale(a, 24), scale(b, 6), space), c, space) == i);
  const IndexExpr shifted = add(i, IndexExpr::constant(7), space);
  const IndexExpr back = add(scale(floor_div(shifted, 5, space), 5), mod(shifted, 5, space), space);
  CHECK(back == shifted);
}

TEST_CASE("reshape through another shape and back is the identity") {
  const Space space{{4, 6, 5}};
  IndexExpr flat = add(add(scale(var(0), 30), scale(var(1), 5), space), var(2), space);
  const IndexExpr p = floor_div(flat, 20, space), q = mod(flat, 20, space);
  const IndexExpr back = add(scale(p, 20), q, space);
  CHECK(back == flat);
  CHECK(mod(back, 5, space) == var(2));
  CHECK(mod(floor_div(back, 5, space), 6, space) == var(1));
  CHECK(floor_div(back, 30, space) == var(0));
}

TEST_CASE("text, dependence and coefficients") {
  const Space space{{8, 9}};
  const IndexExpr e = add(add(scale(var(0), 4), floor_div(var(1), 3, space), space), IndexExpr::constant(7), space);
  CHECK(e.text() == "4*d0 + (d1 // 3) + 7");
  CHECK(e.depends_on(1));
  CHECK(e.coefficient_of(1) == 0);
  CHECK(e.coefficient_of(0) == 4);
  CHECK_FALSE(e.is_affine());
  CHECK(IndexExpr::constant(-3).text() == "-3");
  CHECK(scale(var(1), -1).text() == "-d1");
  CHECK(e.range(space) == std::pair<std::int64_t, std::int64_t>{7, 37});
}
