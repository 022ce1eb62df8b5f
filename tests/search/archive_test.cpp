#include "search/archive.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace planish::search;

namespace {

Elite elite(int cell, double ms, std::uint64_t id, double spread = 0) {
  return {Cell::at(cell), ms, ms * (1 - spread), ms * (1 + spread), id};
}

}  // namespace

TEST_CASE("cells and their numbers name each other") {
  for (int i = 0; i < Cell::count; ++i) {
    CHECK(Cell::at(i).index() == i);
    CHECK(Cell::at(i).strategy < 4);
  }
}

TEST_CASE("what adding does, by name") {
  Archive archive;
  CHECK(archive.add(elite(3, 2.0, 1)) == Added::new_cell);
  CHECK(archive.add(elite(3, 1.0, 2)) == Added::improved);
  CHECK(archive.add(elite(3, 1.5, 3)) == Added::not_better);
  CHECK(archive.add(elite(3, 1.0, 4)) == Added::not_better);
  CHECK(archive.add(elite(3, 0.5, 1)) == Added::duplicate);
  CHECK(archive.add(elite(4, 9.0, 5)) == Added::new_cell);
  CHECK(archive.filled() == 2);
  CHECK(archive.best()->id == 2);
  CHECK(archive.at(Cell::at(3))->ms == 1.0);
  CHECK_FALSE(archive.at(Cell::at(0)));
}

TEST_CASE("what cannot be compared is rejected, and says why") {
  Archive archive;
  for (const double bad : {0.0, -1.0, double(NAN), double(INFINITY)}) {
    CHECK(archive.add(elite(0, bad, 1)) == Added::rejected);
    CHECK(!reject_reason(elite(0, bad, 1)).empty());
  }
  CHECK(archive.add({Cell::at(0), 1.0, 1.1, 1.2, 1}) == Added::rejected);
  CHECK(archive.add({Cell{4, 0, 0}, 1.0, 0, 0, 1}) == Added::rejected);
  CHECK(reject_reason(elite(0, 1, 1)).empty());
  // A rejected id may come again.
  CHECK(archive.add(elite(0, 1.0, 1)) == Added::new_cell);
}

TEST_CASE("inside the noise an elite stays until one of them was measured again") {
  Archive archive;
  archive.add(elite(0, 1.00, 1, 0.02));
  CHECK(archive.add(elite(0, 0.99, 2, 0.02)) == Added::contested);
  CHECK(archive.at(Cell::at(0))->id == 1);
  CHECK(archive.settle(elite(0, 1.01, 2, 0.001)) == Added::not_better);
  CHECK(archive.at(Cell::at(0))->id == 1);
  CHECK(archive.settle(elite(0, 0.995, 2, 0.001)) == Added::improved);
  CHECK(archive.at(Cell::at(0))->id == 2);
  // An elite's own second measurement counts even where it is worse.
  CHECK(archive.settle(elite(0, 1.2, 2, 0.001)) == Added::improved);
  CHECK(archive.at(Cell::at(0))->ms == 1.2);
  // Beyond the noise nothing is asked.
  CHECK(archive.add(elite(0, 0.9, 3, 0.02)) == Added::improved);
  archive.drop(3);
  CHECK(archive.filled() == 0);
  CHECK(archive.add(elite(0, 0.9, 3, 0.02)) == Added::duplicate);
}

TEST_CASE("adding in batches does what adding one by one by obvious code does") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 rng(seed);
    std::vector<Elite> stream;
    for (int i = 0; i < 600; ++i) {
      Elite one = elite(static_cast<int>(rng() % Cell::count), 1.0 + static_cast<double>(rng() % 50) / 10, rng() % 400,
                        static_cast<double>(rng() % 4) / 40);
      if (rng() % 20 == 0) one.ms = -one.ms;
      if (rng() % 20 == 0) one.lo_ms = one.ms * 1.5;
      if (rng() % 20 == 0) one.lo_ms = one.hi_ms = 0;
      if (rng() % 30 == 0) one.cell.structure = 3;
      stream.push_back(one);
    }
    Archive batched, single;
    std::vector<Added> by_batch, one_by_one;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t n = std::min<std::size_t>(1 + rng() % 64, stream.size() - at);
      const auto part = batched.add(std::span(stream).subspan(at, n));
      by_batch.insert(by_batch.end(), part.begin(), part.end());
      at += n;
    }
    for (const Elite& one : stream) one_by_one.push_back(single.add_single(one));
    CHECK(by_batch == one_by_one);
    for (int i = 0; i < Cell::count; ++i) {
      const auto &a = batched.at(Cell::at(i)), &b = single.at(Cell::at(i));
      REQUIRE(a.has_value() == b.has_value());
      if (a) CHECK((a->id == b->id && a->ms == b->ms));
    }
  }
}
