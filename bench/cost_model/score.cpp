// How well the cost model ranks genomes: planish-cost-model-score STORE.db DEVICE-PREFIX. Reads what record.py
// measured.
//
// For each kernel: Spearman's correlation of guessed and measured times over genomes that were held out, for the model
// taught by this kernel alone, by the other kernels alone (an unseen task), and by both; beside a linear model on the
// same features. "regret" is how much slower the genome that is guessed to be the best of the held-out ones is than the
// best of them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "session/tuning_database.h"

using namespace planish;

namespace {

struct Score {
  double correlation = 0, regret = 0;
};

template <typename Guess>
Score score(const std::vector<model::Sample>& test, Guess guess) {
  std::vector<double> guessed, measured;
  for (const auto& sample : test) {
    guessed.push_back(guess(sample));
    measured.push_back(sample.log_ms);
  }
  if (test.empty()) return {};
  const auto pick = std::ranges::min_element(guessed) - guessed.begin();
  return {model::rank_correlation(guessed, measured),
          std::exp(measured[static_cast<std::size_t>(pick)] - std::ranges::min(measured)) - 1};
}

/// Ridge regression: what a linear model makes of the same features.
class Linear {
 public:
  explicit Linear(const std::vector<model::Sample>& train) {
    for (const auto& sample : train) {
      for (const auto& [name, value] : sample.features) index_.try_emplace(name, index_.size());
    }
    const std::size_t n = index_.size() + 1;
    std::vector<double> a(n * n, 0), b(n, 0);
    for (const auto& sample : train) {
      const auto row = row_of(sample);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) a[i * n + j] += row[i] * row[j];
        b[i] += row[i] * sample.log_ms;
      }
    }
    for (std::size_t i = 0; i < n; ++i) a[i * n + i] += 0.3;
    for (std::size_t i = 0; i < n; ++i) {  // positive definite: no pivots needed
      for (std::size_t k = i + 1; k < n; ++k) {
        const double f = a[k * n + i] / a[i * n + i];
        for (std::size_t j = i; j < n; ++j) a[k * n + j] -= f * a[i * n + j];
        b[k] -= f * b[i];
      }
    }
    weights_.assign(n, 0);
    for (std::size_t i = n; i-- > 0;) {
      double sum = b[i];
      for (std::size_t j = i + 1; j < n; ++j) sum -= a[i * n + j] * weights_[j];
      weights_[i] = sum / a[i * n + i];
    }
  }
  double operator()(const model::Sample& sample) const {
    const auto row = row_of(sample);
    double out = 0;
    for (std::size_t i = 0; i < row.size(); ++i) out += row[i] * weights_[i];
    return out;
  }

 private:
  std::vector<double> row_of(const model::Sample& sample) const {
    std::vector<double> row(index_.size() + 1, 0);
    row.back() = 1;
    for (const auto& [name, value] : sample.features) {
      if (const auto at = index_.find(name); at != index_.end()) row[at->second] = value;
    }
    return row;
  }
  std::map<std::string, std::size_t> index_;
  std::vector<double> weights_;
};

double milliseconds(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  auto store = store::Store::open_existing(argv[1]);
  if (!store) return 2;
  std::set<std::string> devices;
  std::map<std::string, std::string> tasks;  // key → name
  auto runs = store->runs();
  if (!runs) return 2;
  for (const auto& run : *runs) {
    devices.insert(run.device);
    if (auto regions = store->regions(run.id)) {
      for (const auto& region : *regions) tasks[region.key] = run.task;
    }
  }
  std::vector<model::Sample> samples;
  std::vector<model::Known> known;
  for (const auto& device : devices) {
    for (const char* pattern : {"pointwise", "row"}) {
      if (auto stored = store->tuning_records(device, pattern, 1e18))
        session::read_tuning_records(*stored, samples, known);
    }
  }
  std::map<std::string, std::vector<model::Sample>> groups;
  for (const auto& sample : samples) groups[sample.group].push_back(sample);
  fmt::print("{} samples of {} kernels\n", samples.size(), groups.size());
  fmt::print("{:<18}{:>6}{:>6} | {:>13} {:>13} | {:>13} | {:>13} {:>13}\n", "kernel", "ok", "fail", "own half",
             "linear half", "unseen task", "16 own", "others+16");
  std::vector<double> mean(10, 0);
  int counted = 0;
  for (const auto& [key, group] : groups) {
    std::vector<model::Sample> ok;
    std::ranges::copy_if(group, std::back_inserter(ok), &model::Sample::ok);
    if (ok.size() < 24) continue;
    std::vector<model::Sample> others;
    for (const auto& sample : samples) {
      // Every kernel of this task is unseen, whatever its shape: only other keys teach.
      if (tasks[sample.group] != tasks[key]) others.push_back(sample);
    }
    std::vector<double> row(10, 0);
    constexpr int draws = 5;
    for (int draw = 0; draw < draws; ++draw) {
      auto shuffled = ok;
      std::mt19937_64 rng(static_cast<std::uint64_t>(draw));
      for (std::size_t i = shuffled.size(); i > 1; --i) std::swap(shuffled[i - 1], shuffled[rng() % i]);
      const auto half = shuffled.begin() + static_cast<std::ptrdiff_t>(shuffled.size() / 2);
      const std::vector<model::Sample> train(shuffled.begin(), half), test(half, shuffled.end());
      const auto taught = [&](bool prior, std::size_t own) {
        model::CostModel m;
        if (prior) m.learn_prior(others);
        for (std::size_t i = 0; i < std::min(own, train.size()); ++i) m.observe(train[i]);
        return score(test, [&](const model::Sample& s) { return m.guess(s.group, s.features).log_ms; });
      };
      const Score scores[] = {taught(false, train.size()), score(test, Linear(train)), taught(true, 0),
                              taught(false, 16), taught(true, 16)};
      for (std::size_t i = 0; i < 5; ++i) {
        row[2 * i] += scores[i].correlation / draws;
        row[2 * i + 1] += scores[i].regret / draws;
      }
    }
    fmt::print("{:<18}{:>6}{:>6} |", tasks[key], ok.size(), group.size() - ok.size());
    for (std::size_t i = 0; i < 5; ++i) {
      fmt::print(" {:>6.2f} {:>5.1f}%{}", row[2 * i], 100 * row[2 * i + 1], i == 1 || i == 2 ? " |" : "");
    }
    fmt::print("\n");
    for (std::size_t i = 0; i < 10; ++i) mean[i] += row[i];
    ++counted;
  }
  if (counted == 0) return 1;
  fmt::print("{:<18}{:>6}{:>6} |", "mean", "", "");
  for (std::size_t i = 0; i < 5; ++i) {
    fmt::print(" {:>6.2f} {:>5.1f}%{}", mean[2 * i] / counted, 100 * mean[2 * i + 1] / counted,
               i == 1 || i == 2 ? " |" : "");
  }
  model::CostModel m;
  const double prior_ms = milliseconds([&] { m.learn_prior(samples); });
  const auto& some = groups.begin()->second;
  const double own_ms = milliseconds([&] {
    for (const auto& sample : some) m.observe(sample);
  });
  double sum = 0;
  const double guess_ms = milliseconds([&] {
    for (int i = 0; i < 20; ++i) {
      for (const auto& sample : samples) sum += m.guess(sample.group, sample.features).log_ms;
    }
  });
  fmt::print("\nlearning {} samples of earlier runs: {:.1f} ms; {} own, one by one: {:.1f} ms; a guess: {:.1f} us\n",
             samples.size(), prior_ms, some.size(), own_ms, 1e3 * guess_ms / 20 / static_cast<double>(samples.size()));
  return std::isfinite(sum) ? 0 : 1;
}
