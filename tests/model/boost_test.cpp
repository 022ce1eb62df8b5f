#include "model/boost.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace planish::model;

namespace {

struct Table {
  Matrix x;
  std::vector<double> y, weight;
};

/// y has a cliff, an interaction and an irrelevant column; some values are not known.
Table table(std::size_t rows, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  Table t;
  t.x.columns = 4;
  for (std::size_t i = 0; i < rows; ++i) {
    const auto a = static_cast<float>(rng() % 8), b = static_cast<float>(rng() % 5),
               c = static_cast<float>(rng() % 100);
    const bool missing = rng() % 4 == 0;
    t.x.values.insert(t.x.values.end(), {a, b, c, missing ? unknown : static_cast<float>(rng() % 3)});
    t.y.push_back((a > 5 ? 1.0 : 0.0) + (b > 2 ? 0.1 * a : 0.0) + (missing ? 0.7 : 0.0));
    t.weight.push_back(1);
  }
  return t;
}

double error(const Boost& boost, const Table& t) {
  double sum = 0;
  for (std::size_t i = 0; i < t.x.rows(); ++i) sum += std::pow(boost.predict(t.x.row(i)) - t.y[i], 2);
  return std::sqrt(sum / static_cast<double>(t.x.rows()));
}

}  // namespace

TEST_CASE("cliffs, interactions and missing values are learned, and hold on rows never seen") {
  const Table train = table(400, 1), test = table(400, 2);
  Boost boost;
  boost.fit(train.x, train.y, train.weight, {}, {});
  CHECK(error(boost, test) < 0.08);
  const auto importance = boost.importance(4);
  CHECK(importance[2] < 0.2 * importance[0]);
  // The same again.
  Boost other;
  other.fit(train.x, train.y, train.weight, {}, {});
  CHECK(other.predict(test.x.row(7)) == boost.predict(test.x.row(7)));
}

TEST_CASE("what is known already is a base to add to") {
  const Table train = table(200, 3);
  Boost boost;
  boost.fit(train.x, train.y, train.weight, train.y, {});
  CHECK(std::fabs(boost.predict(train.x.row(0))) < 1e-6);
}

TEST_CASE("chances: targets of 0 and 1") {
  Table t = table(300, 4);
  for (std::size_t i = 0; i < t.x.rows(); ++i) t.y[i] = t.x.row(i)[0] > 5 ? 1 : 0;
  BoostOptions options;
  options.logistic = true;
  Boost boost;
  boost.fit(t.x, t.y, t.weight, {}, options);
  for (std::size_t i = 0; i < t.x.rows(); ++i) CHECK((boost.predict(t.x.row(i)) > 0) == (t.y[i] > 0.5));
}

TEST_CASE("weights count, and too little teaches nothing") {
  Table t = table(40, 5);
  for (std::size_t i = 0; i < t.x.rows(); ++i) {
    t.y[i] = i % 2 == 0 ? 5 : -5;
    t.weight[i] = i % 2 == 0 ? 1 : 0;
  }
  Boost boost;
  boost.fit(t.x, t.y, t.weight, {}, {});
  CHECK(boost.predict(t.x.row(1)) == doctest::Approx(5));
  Boost none;
  Matrix one;
  one.columns = 2;
  one.values = {1, 2};
  none.fit(one, std::vector<double>{1}, std::vector<double>{1}, {}, {});
  CHECK(none.empty());
  CHECK(none.predict(one.row(0)) == 0);
}
