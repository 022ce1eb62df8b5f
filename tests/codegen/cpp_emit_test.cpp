// Emitted C++ is compiled, run, and compared with a double-precision interpreter of the kernel.
#include "codegen/emit/cpp_emit.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>

#include "cpp_samples.h"
#include "early_samples.h"
#include "gather_samples.h"
#include "interpret.h"
#include "row_and_column_samples.h"
#include "scan_samples.h"
#include "segment_samples.h"

namespace planish::codegen {
namespace {

/// Many kernels, compiled two at a time and linked into one library.
class Batch {
 public:
  Batch() {
    char name[] = "/tmp/planish-cpp-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~Batch() {
    if (handle_) dlclose(handle_);
    std::filesystem::remove_all(folder_);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void add(std::string source) {
    const std::string from = "void k0(", to = fmt::format("void k{}(", count_);
    source.replace(source.find(from), from.size(), to);
    std::ofstream(folder_ / fmt::format("{}.cpp", count_++)) << source;
  }
  void build() {
    const std::string flags =
        "-O3 -march=native -std=c++17 -fopenmp -fno-math-errno -fno-trapping-math -fPIC -Wall -Wno-psabi -Werror "
        "-Wframe-larger-than=24576";  // threads may have 128 KiB of stack in all
    const std::string command =
        fmt::format("cd {0} && ls *.cpp | xargs -P 2 -I@ g++ {1} -c @ -o @.o && g++ -shared -fopenmp *.o -o all.so",
                    folder_.string(), flags);
    REQUIRE(std::system(command.c_str()) == 0);
    // Never unloaded: the OpenMP library would go with it, under its own idle threads.
    handle_ = dlopen((folder_ / "all.so").c_str(), RTLD_NOW | RTLD_NODELETE);
    REQUIRE_MESSAGE((handle_ != nullptr), dlerror());
  }
  void run(int i, void** args) const {
    auto* f = reinterpret_cast<void (*)(void**)>(dlsym(handle_, fmt::format("k{}", i).c_str()));
    REQUIRE((f != nullptr));
    f(args);
  }
  int count() const { return count_; }
  /// Threads that kernels may take from now on, which the machine need not have.
  void allow(int threads) const {
    if (auto* set = reinterpret_cast<void (*)(int)>(dlsym(handle_, "omp_set_num_threads"))) set(threads);
  }

 private:
  std::filesystem::path folder_;
  void* handle_ = nullptr;
  int count_ = 0;
};

struct Aligned {
  explicit Aligned(std::size_t bytes)
      : data(static_cast<unsigned char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64))) {
    std::memset(data, 0xA5, (bytes + 127) / 64 * 64);
  }
  ~Aligned() { std::free(data); }
  Aligned(const Aligned&) = delete;
  unsigned char* data;
};

/// Largest |error| / (|reference| + its mean magnitude); infinity where NaN or Inf differ.
double error_of(DType t, const testing::Bytes& want, const unsigned char* got) {
  const std::int64_t n = static_cast<std::int64_t>(want.size()) / size_of(t);
  const testing::Bytes have(got, got + want.size());
  double scale = 0, worst = 0;
  std::int64_t finite = 0;
  for (std::int64_t i = 0; i < n; ++i)
    if (const double w = testing::read(t, want, i).f; std::isfinite(w)) scale += std::fabs(w), ++finite;
  scale = finite ? scale / static_cast<double>(finite) : 1;
  for (std::int64_t i = 0; i < n; ++i) {
    const testing::Value w = testing::read(t, want, i), g = testing::read(t, have, i);
    if (!is_floating(t)) {
      if (w.i != g.i) return INFINITY;
      continue;
    }
    if (std::isnan(w.f) || std::isinf(w.f) || std::isnan(g.f) || std::isinf(g.f)) {
      if (std::isnan(w.f) != std::isnan(g.f) || (!std::isnan(w.f) && w.f != g.f)) return INFINITY;
      continue;
    }
    worst = std::max(worst, std::fabs(w.f - g.f) / (std::fabs(w.f) + scale + 1e-300));
  }
  return worst;
}

double limit(DType t) {
  return t == DType::bf16 ? 8e-3 : t == DType::f16 ? 1e-3 : t == DType::f64 ? 1e-12 : 4e-6;
}

/// The same of an output. Each factor of a product rounds it once, and what they leave adds up like a walk.
double limit(const Kernel& kernel, const Output& output) {
  const Node& node = kernel.nodes[static_cast<std::size_t>(output.node)];
  const bool is_product =
      node.op == Op::reduced && kernel.reductions[static_cast<std::size_t>(node.reduction)].kind == ReduceKind::product;
  if (!is_product || output.dtype != DType::f32) return limit(output.dtype);
  return std::max(limit(output.dtype), 0x1p-24 * std::sqrt(static_cast<double>(kernel.inner_extent())));
}

Device device(int cores) {
  Device d;
  d.arch = __builtin_cpu_supports("avx512dq") ? "skylake-avx512"
           : __builtin_cpu_supports("avx2")   ? "haswell"
                                              : "x86-64";
  d.sms = cores;
  d.l2_bytes = 32 << 20;
  return d;
}

struct Trial {
  std::string label;
  Kernel kernel;
  Genome genome;
};

/// Each also with NaN, infinities and the like, unless `plain`: sums of numbers far apart have no digits in common.
void compare(const std::vector<Trial>& trials, const Device& on, bool plain = false) {
  Batch batch;
  std::vector<std::vector<std::int64_t>> scratch;
  for (const auto& t : trials) {
    auto emitted = emit_cpp(t.kernel, on, t.genome);
    REQUIRE_MESSAGE(emitted.has_value(), t.label);
    batch.add(emitted->source);
    scratch.push_back(emitted->scratch_bytes);
  }
  batch.build();
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const Kernel& k = trials[i].kernel;
    for (const bool specials : {false, true}) {
      if (specials && plain) continue;
      const auto inputs = testing::random_inputs(k, 11 + i, specials);
      const auto want = testing::Interpreter::run(k, inputs);
      std::vector<std::unique_ptr<Aligned>> memory;
      std::vector<void*> args;
      for (const auto& in : inputs) {
        memory.push_back(std::make_unique<Aligned>(in.size()));
        std::memcpy(memory.back()->data, in.data(), in.size());
        args.push_back(memory.back()->data);
      }
      for (const auto& w : want) {
        memory.push_back(std::make_unique<Aligned>(w.size()));
        std::memset(memory.back()->data, 0, w.size());
        args.push_back(memory.back()->data);
      }
      for (const std::int64_t bytes : scratch[i]) {
        memory.push_back(std::make_unique<Aligned>(static_cast<std::size_t>(bytes)));
        args.push_back(memory.back()->data);
      }
      const int allowed = i % 4 == 3 ? 3 : 64;  // now and then fewer than the kernel was made for
      batch.allow(allowed);
      batch.run(static_cast<int>(i), args.data());
      std::string genes = fmt::format(" allowed={}", allowed);
      for (const auto& [g, v] : trials[i].genome) genes += fmt::format(" {}={}", g, v);
      for (std::size_t o = 0; o < want.size(); ++o) {
        const auto* got = memory[inputs.size() + o]->data;
        const double e = error_of(k.outputs[o].dtype, want[o], got);
        INFO(trials[i].label, genes, std::string(specials ? " specials" : ""), " output ", o, " error ", e);
        CHECK(e <= limit(k, k.outputs[o]));
        bool intact = true;
        for (std::size_t past = want[o].size(); past < (want[o].size() + 127) / 64 * 64; ++past)
          intact &= got[past] == 0xA5;
        CHECK(intact);
      }
    }
  }
}

std::vector<samples::Sample> all_samples() {
  auto all = samples::small_samples();
  auto more = samples::cpp_samples();
  std::move(more.begin(), more.end(), std::back_inserter(all));
  auto gathers = samples::gather_samples();
  std::move(gathers.begin(), gathers.end(), std::back_inserter(all));
  return all;
}

TEST_CASE("the first seed of every sample computes what the kernel means") {
  const Device on = device(2);
  std::vector<Trial> trials;
  for (auto& s : all_samples()) {
    const auto seeds = cpp_seeds(s.kernel, on);
    REQUIRE(!seeds.empty());
    trials.push_back({s.family, s.kernel, seeds[0]});
  }
  compare(trials, on);
}

TEST_CASE("a zero that was truncated to has no sign") {
  const Device on = device(2);
  const auto sample = samples::truncated_signs(301);
  std::vector<Trial> trials;
  std::mt19937_64 rng(3);
  for (int i = 0; i < 4; ++i) trials.push_back({sample.family, sample.kernel, random_genome(sample.kernel, on, rng)});
  compare(trials, on);
}

TEST_CASE("random genomes compute the same") {
  const Device on = device(3);
  std::mt19937_64 rng(5);
  std::vector<Trial> trials;
  for (auto& s : all_samples()) {
    const auto genes = cpp_genes(s.kernel, on);
    for (int tries = 0, drawn = 0; tries < 200 && drawn < 1; ++tries) {
      Genome g;
      for (const auto& gene : genes) g[gene.name] = gene.choices[rng() % gene.choices.size()];
      if (!cpp_illegal(s.kernel, on, g).empty()) continue;
      ++drawn;
      trials.push_back({s.family, s.kernel, g});
    }
  }
  compare(trials, on);
}

TEST_CASE("a sum over a million elements is as accurate as a pairwise one") {
  const auto s = samples::row_sum(1, 1000003);
  const Device on = device(2);
  std::vector<Trial> trials;
  for (const auto& g : cpp_seeds(s.kernel, on)) trials.push_back({s.family, s.kernel, g});
  trials.resize(std::min<std::size_t>(trials.size(), 6));
  compare(trials, on);
}

TEST_CASE("columns swept in panels, by threads apart or together, compute the same") {
  const Device on = device(3);
  std::vector<Trial> trials;
  for (const auto& s : {samples::column_stats(2, 203, 700), samples::column_stats(1, 3001, 37, DType::bf16),
                        samples::extremes(131, 300, DType::f32, true)}) {
    Genome g = cpp_seeds(s.kernel, on)[0];
    g["vary"] = 0 + (s.kernel.space.extents.size() > 2);
    g["threads"] = 3;
    for (const std::int64_t split : {0, 1}) {
      g["split"] = split;
      g["panel"] = 256;
      g["unroll"] = 1 + split;
      REQUIRE(cpp_illegal(s.kernel, on, g) == "");
      trials.push_back({s.family, s.kernel, g});
    }
  }
  compare(trials, on);
  Genome wide = trials[2].genome;
  wide["panel"] = 4096;
  CHECK(cpp_illegal(trials[2].kernel, on, wide).find("wider") != std::string::npos);
  const auto soft = samples::softmax_columns(900, 80);
  Genome two = cpp_seeds(soft.kernel, on)[0];
  two["panel"] = 256;
  CHECK(cpp_illegal(soft.kernel, on, two).find("panel") != std::string::npos);
}

// Threads of a server, or of OMP_STACKSIZE, may have 128 KiB: what is larger lies in scratch memory. Batch compiles
// with a limit on frames.
TEST_CASE("long rows, wide panels and what many threads exchange are kept off the stack") {
  const Device on = device(3);
  std::vector<Trial> trials;
  const auto softmax = samples::causal_softmax(1300);
  Genome g = cpp_seeds(softmax.kernel, on)[0];
  REQUIRE(g.contains("buffer"));
  for (const std::int64_t threads : {1, 3}) {
    g["buffer"] = 1;
    g["split"] = 0;
    g["threads"] = threads;
    trials.push_back({softmax.family, softmax.kernel, g});
    const auto emitted = emit_cpp(softmax.kernel, on, g);
    REQUIRE(emitted.has_value());
    REQUIRE(emitted->scratch_bytes.size() == 1);
    CHECK(emitted->scratch_bytes[0] >= threads * 1300 * 4);
  }
  const auto columns = samples::column_stats(1, 80, 5000);
  Genome p = cpp_seeds(columns.kernel, on)[0];
  p["vary"] = 0 + (columns.kernel.space.extents.size() > 2);
  p["threads"] = 3;
  for (const std::int64_t split : {0, 1}) {
    p["split"] = split;
    p["panel"] = 4096;
    REQUIRE(cpp_illegal(columns.kernel, on, p) == "");
    trials.push_back({columns.family, columns.kernel, p});
  }
  compare(trials, on);
  const Device many = device(256);
  const auto sum = samples::row_sum(2, 1 << 20);
  Genome shared = cpp_seeds(sum.kernel, many)[0];
  shared["threads"] = 256;
  shared["split"] = 1;
  const auto emitted = emit_cpp(sum.kernel, many, shared);
  REQUIRE(emitted.has_value());
  CHECK(emitted->scratch_bytes.size() == 1);
}

TEST_CASE("a kernel takes no more threads than its caller allows at the time") {
  const Device on = device(3);
  const auto sum = samples::row_sum(64, 1000);
  Genome g = cpp_seeds(sum.kernel, on)[0];
  g["threads"] = 3;
  const auto emitted = emit_cpp(sum.kernel, on, g);
  REQUIRE(emitted.has_value());
  CHECK(emitted->source.contains("const int allowed = omp_get_max_threads();"));
  CHECK(emitted->source.contains("num_threads(allowed < 3 ? allowed : 3)"));
}

TEST_CASE("what is stored while it is folded, by rows, columns and panels of them, by threads apart or together") {
  const Device on = device(3);
  std::vector<Trial> trials, gradients;  // those of huge numbers hang on the last digits of their exponents
  std::mt19937_64 rng(11);
  for (auto& s : samples::early_samples()) {
    if (s.kernel.outer_extent() * s.kernel.inner_extent() > 60000) continue;
    for (auto& genome : {cpp_seeds(s.kernel, on).at(0), random_genome(s.kernel, on, rng)})
      (s.family == "gelu_gradient" ? gradients : trials).push_back({s.family, s.kernel, genome});
  }
  for (const auto& s : {samples::stored_folds(2, 90, 700, 1), samples::gelu_gradient(1, 301, 37, 1, DType::bf16)}) {
    Genome g = cpp_seeds(s.kernel, on)[0];
    g["vary"] = 1;
    g["threads"] = 3;
    g["panel"] = 256;
    for (const std::int64_t split : {0, 1}) {
      g["split"] = split;
      g["unroll"] = 1 + split;
      REQUIRE(cpp_illegal(s.kernel, on, g) == "");
      (s.family == "gelu_gradient" ? gradients : trials).push_back({s.family, s.kernel, g});
    }
  }
  compare(trials, on);
  compare(gradients, on, true);
  // A panel is read once: what needs the columns' results first cannot be stored on the way.
  const auto late = samples::stored_twice(2, 300, 80, 1);
  Genome genome = cpp_seeds(late.kernel, on)[0];
  genome["panel"] = 256;
  CHECK_FALSE(cpp_illegal(late.kernel, on, genome).empty());
}

TEST_CASE("rows and columns folded in one pass, by threads that each take a run of rows") {
  const Device on = device(3);
  std::vector<Trial> sums, others;
  for (auto& s : samples::cross_samples()) {
    auto genome = cpp_seeds(s.kernel, on).at(0);
    const bool alone = s.parameters[0].second % 2 != 0;
    genome["threads"] = alone ? 1 : 3;
    genome["unroll"] = alone ? 4 : 1;
    REQUIRE(cpp_illegal(s.kernel, on, genome).empty());
    if (s.family == "both_logsumexp") s.kernel.outputs.pop_back();
    (s.family == "both_sums" ? sums : others).push_back({s.family, s.kernel, genome});
  }
  compare(sums, on, true);
  compare(others, on);
}

TEST_CASE("rows and parts of them folded in one pass, by threads with rows of their own or shares of one") {
  const Device on = device(3);
  std::vector<Trial> trials;
  for (auto& s : samples::parts_samples()) {
    for (const bool shared : {false, true}) {
      auto genome = cpp_seeds(s.kernel, on).at(0);
      genome["threads"] = 3;
      genome["split"] = shared ? 1 : 0;
      genome["unroll"] = shared ? 1 : 4;
      if (genome.contains("buffer")) genome["buffer"] = shared ? 1 : 0;
      REQUIRE(cpp_illegal(s.kernel, on, genome).empty());
      trials.push_back({s.family, s.kernel, genome});
    }
  }
  compare(trials, on);
}

TEST_CASE("running values along rows and down columns, from either end, by threads apart or together") {
  const Device on = device(3);
  std::vector<Trial> trials;
  const auto add = [&](samples::Sample s, Genome with) {
    Genome g = cpp_seeds(s.kernel, on)[0];
    for (const auto& [name, value] : with) g[name] = value;
    REQUIRE(cpp_illegal(s.kernel, on, g) == "");
    trials.push_back({s.family, std::move(s.kernel), std::move(g)});
  };
  add(samples::cumsum(5, 1001), {{"threads", 2}});
  add(samples::cumsum(3, 773, 1, true, DType::bf16), {{"threads", 3}, {"split", 1}});
  add(samples::cumsum(2, 300, 37, true), {{"threads", 3}, {"split", 1}});
  add(samples::cumsum(2, 3, 1, false, DType::f64), {});
  add(samples::scans(3, 261), {});
  add(samples::scans(2, 200, 1, true), {{"threads", 3}, {"split", 1}});
  add(samples::scans(2, 70, 19, true), {{"threads", 3}, {"split", 1}});
  add(samples::scans(1, 81, 40), {});
  add(samples::integer_scans(3, 133), {});
  add(samples::integer_scans(2, 67, 21, true), {});
  add(samples::cumulative_softmax(4, 530), {{"threads", 2}, {"split", 1}});
  compare(trials, on);
  CHECK(cpp_illegal(trials[0].kernel, on, {{"unroll", 2}}).find("one after the other") != std::string::npos);
}

TEST_CASE("a running sum over a million elements is as accurate as a pairwise one") {
  const Device on = device(2);
  std::vector<Trial> trials;
  for (const bool columns : {false, true}) {
    const auto s = columns ? samples::cumsum(1, 65537, 16) : samples::cumsum(1, 1000003);
    trials.push_back({s.family, s.kernel, cpp_seeds(s.kernel, on)[0]});
  }
  compare(trials, on);
}

TEST_CASE("genes outside the kernel or its choices are refused by name") {
  const auto s = samples::softmax(4, 64);
  const Device on = device(2);
  CHECK(cpp_illegal(s.kernel, on, {{"warp", 4}}).find("warp") != std::string::npos);
  CHECK(cpp_illegal(s.kernel, on, {{"unroll", 3}}).find("unroll") != std::string::npos);
  CHECK(cpp_illegal(s.kernel, on, {{"split", 1}, {"threads", 1}}).find("share") != std::string::npos);
  const auto e = emit_cpp(s.kernel, on, {{"unroll", 3}});
  REQUIRE(!e.has_value());
  CHECK(e.error().kind.name() == "illegal_genome");
  CHECK(emit_cpp(s.kernel, on, cpp_seeds(s.kernel, on)[0])->source ==
        emit_cpp(s.kernel, on, cpp_seeds(s.kernel, on)[0])->source);
}

TEST_CASE("every seed is legal, also on a machine without wide vectors") {
  for (const char* arch : {"x86-64", "haswell", "sapphirerapids"}) {
    Device on = device(64);
    on.arch = arch;
    for (auto& s : all_samples())
      for (const auto& g : cpp_seeds(s.kernel, on)) CHECK(cpp_illegal(s.kernel, on, g) == "");
  }
}

}  // namespace
}  // namespace planish::codegen
