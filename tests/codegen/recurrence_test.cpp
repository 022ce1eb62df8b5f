// Recurrent networks: what they are lowered to, and their step kernels, run on an emulated cluster of blocks
// (tools/cluster_emulator.h) beside the definition in double precision.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/device/device_files.h"
#include "codegen/devices.h"
#include "codegen/graph_builder.h"
#include "codegen/kernel_key.h"
#include "codegen/lower/lower.h"
#include "codegen/recurrence_samples.h"
#include "codegen/templates/recurrence/cuda_recurrence.h"

namespace planish::codegen {
namespace {

using samples::build;
using samples::Built;
using samples::lowered;
using samples::Network;
using Numbers = std::vector<float>;

/// All memory of one run: the kernel's inputs, outputs and scratch.
struct Memory {
  std::vector<Numbers> inputs, outputs, scratch;
  Numbers& of(const Emitted::Argument& arg) {
    using Kind = Emitted::Argument::Kind;
    return (arg.kind == Kind::input ? inputs : arg.kind == Kind::output ? outputs : scratch)[std::size_t(arg.index)];
  }
};

/// Parameters of the step kernel by name.
std::vector<std::string> parameters(const std::string& source) {
  const std::size_t begin = source.find("planish_kernel(") + 15, end = source.find(')', begin);
  std::vector<std::string> out;
  for (std::size_t at = begin; at < end;) {
    const std::size_t comma = std::min(source.find(',', at), end);
    const std::string one = source.substr(at, comma - at);
    out.push_back(one.substr(one.rfind(' ') + 1));
    at = comma + 2;
  }
  return out;
}

void run_step(const Emitted& step, Memory& memory, unsigned seed) {
  constexpr std::array<std::string_view, 1> files{"sm90/recurrence.cuh"};
  constexpr std::array<DeviceFile, 3> machine{{{"types.cuh", ""}, {"sm90/ptx.cuh", ""}, {"sm90/cluster.cuh", ""}}};
  const std::string on_device = device_text(files);
  REQUIRE(step.source.starts_with(on_device));
  std::string source = fmt::format("#define THREADS {}\n#define CLUSTER {}\n#include \"{}/{}\"\n", step.block[0],
                                   step.cluster[0], PLANISH_SOURCE_DIR, "tests/codegen/tools/cluster_emulator.h");
  source += device_text(files, machine) + step.source.substr(on_device.size());
  std::string arguments;
  const auto names = parameters(step.source);
  REQUIRE(names.size() == step.args.size());
  for (std::size_t i = 0; i < names.size(); ++i)
    arguments +=
        fmt::format("{}({}*)emulated_arguments[{}]", i == 0 ? "" : ", ", names[i] == "flags" ? "u32" : "float", i);
  source += fmt::format(
      "static void** emulated_arguments;\n"
      "static void emulated_entry() {{ planish_kernel({}); emu::end(); }}\n"
      "extern \"C\" int emulated_run(void** arguments, unsigned seed) {{ emulated_arguments = arguments; "
      "return emu::run(emulated_entry, {}, {}, seed); }}\n",
      arguments, step.grid[0], step.shared);
  const Compiled compiled(source, "-O1 -w -std=c++20");
  std::vector<void*> places;
  for (const auto& arg : step.args) places.push_back(memory.of(arg).data());
  CHECK(compiled.function<int(void**, unsigned)>("emulated_run")(places.data(), seed) == 0);
}

/// One layer's direction by the definition: states of all steps, [steps][batch][hidden], and the last cell's.
struct Definition {
  std::vector<double> h, c;
};

Definition define(const Network& n, const std::vector<double>& x, std::int64_t width, const Numbers* w, bool backwards,
                  const double* h0, const double* c0) {
  const std::int64_t H = n.hidden, B = n.batch;
  Definition out{std::vector<double>(static_cast<std::size_t>(n.steps * B * H)), std::vector<double>(c0, c0 + B * H)};
  std::vector<double> h(h0, h0 + B * H), next = h;
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (std::int64_t s = 0; s < n.steps; ++s) {
    const std::int64_t t = backwards ? n.steps - 1 - s : s;
    for (std::int64_t b = 0; b < B; ++b) {
      for (std::int64_t u = 0; u < H; ++u) {
        double in[4], of[4];
        for (int g = 0; g < n.gates(); ++g) {
          const std::int64_t row = g * H + u;
          in[g] = n.biases ? w[2][std::size_t(row)] : 0;
          of[g] = n.biases ? w[3][std::size_t(row)] : 0;
          for (std::int64_t k = 0; k < width; ++k)
            in[g] += double{w[0][std::size_t(row * width + k)]} * x[std::size_t((t * B + b) * width + k)];
          for (std::int64_t k = 0; k < H; ++k)
            of[g] += double{w[1][std::size_t(row * H + k)]} * h[std::size_t(b * H + k)];
        }
        double& state = next[std::size_t(b * H + u)];
        if (n.cell == "lstm") {
          double& c = out.c[std::size_t(b * H + u)];
          c = sigmoid(in[1] + of[1]) * c + sigmoid(in[0] + of[0]) * std::tanh(in[2] + of[2]);
          state = sigmoid(in[3] + of[3]) * std::tanh(c);
        } else if (n.cell == "gru") {
          const double z = sigmoid(in[1] + of[1]);
          state = (1 - z) * std::tanh(in[2] + sigmoid(in[0] + of[0]) * of[2]) + z * h[std::size_t(b * H + u)];
        } else {
          state = n.cell == "rnn_relu" ? std::max(0.0, in[0] + of[0]) : std::tanh(in[0] + of[0]);
        }
        out.h[std::size_t((t * B + b) * H + u)] = state;
      }
    }
    h = next;
  }
  return out;
}

/// Emits the network with one of its genomes and runs it: products beforehand by their definition, steps emulated.
class Trial {
 public:
  Trial(const Network& network, Genome genome) : n_(network), genome_(std::move(genome)) {}

  /// The same, with an infinity in the first state of one unit of the second sequence.
  void run_with_infinity() {
    infinity_ = true;
    run();
  }

  void run() {
    const Built built = build(n_);
    const auto kernel = lowered(built, built.outputs);
    REQUIRE_MESSAGE(kernel.has_value(), kernel.error().message);
    for (const Gene& gene : genes(*kernel, h200())) genome_.try_emplace(gene.name, gene.choices.front());
    REQUIRE_MESSAGE(illegal(*kernel, h200(), genome_) == "", text(genome_));
    const auto emitted = emit(*kernel, h200(), genome_);
    REQUIRE_MESSAGE(emitted.has_value(), emitted.error().message);
    draw(*kernel, *emitted);
    if (infinity_) memory_.inputs[1][static_cast<std::size_t>(n_.hidden) + 1] = INFINITY;
    define_all();
    std::vector<Emitted> launches{*emitted};
    launches.insert(launches.end(), emitted->after.begin(), emitted->after.end());
    int layer = 0, steps = 0;
    for (const Emitted& launch : launches) {
      if (launch.source.find("recurrence<Policy>") == std::string::npos) continue;
      const auto names = parameters(launch.source);
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i].starts_with("made")) multiply(layer, names[i][4] - '0', memory_.of(launch.args[i]));
      }
      run_step(launch, memory_, 7 + static_cast<unsigned>(steps++));
      ++layer;
    }
    CHECK(steps == (gene(genome_, "wavefront", 0) != 0 ? 1 : n_.layers));
    check(*kernel);
  }

 private:
  std::size_t per() const { return n_.biases ? 4 : 2; }
  std::size_t first_weight() const { return n_.zeros ? 1 : n_.cell == "lstm" ? 3 : 2; }
  const Numbers* weights(int cell) const {
    return &memory_.inputs[first_weight() + static_cast<std::size_t>(cell) * per()];
  }

  void draw(const Kernel& kernel, const Emitted& emitted) {
    std::mt19937 random(3);
    std::uniform_real_distribution<float> values(-0.7F, 0.7F);
    for (const Input& input : kernel.inputs) {
      auto& one = memory_.inputs.emplace_back(static_cast<std::size_t>(input.storage_elements));
      for (float& v : one) v = values(random);
    }
    for (const Output& output : kernel.outputs) {
      std::int64_t count = 1;
      for (const std::int64_t e : output.shape) count *= e;
      memory_.outputs.emplace_back(static_cast<std::size_t>(count), NAN);
    }
    for (const std::int64_t bytes : emitted.scratch_bytes)
      memory_.scratch.emplace_back(static_cast<std::size_t>(bytes / 4 + 4), NAN);
    for (const int z : emitted.zeroed) std::ranges::fill(memory_.scratch[static_cast<std::size_t>(z)], 0.0F);
  }

  void define_all() {
    const std::size_t states = static_cast<std::size_t>(n_.batch * n_.hidden);
    std::vector<double> zeros(states, 0);
    std::vector<double> x;
    for (std::int64_t t = 0; t < n_.steps; ++t) {
      for (std::int64_t b = 0; b < n_.batch; ++b) {
        for (std::int64_t k = 0; k < n_.width; ++k)
          x.push_back(
              memory_.inputs[0][std::size_t((n_.first_is_batch ? b * n_.steps + t : t * n_.batch + b) * n_.width + k)]);
      }
    }
    for (int layer = 0; layer < n_.layers; ++layer) {
      reads_.push_back(x);
      std::vector<double> both(static_cast<std::size_t>(n_.steps * n_.batch * n_.directions * n_.hidden));
      for (int d = 0; d < n_.directions; ++d) {
        const int cell = layer * n_.directions + d;
        const auto state = [&](std::size_t which) {
          if (n_.zeros) return zeros;
          const auto begin = memory_.inputs[which].begin() + static_cast<std::ptrdiff_t>(states) * cell;
          return std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(states));
        };
        const auto h0 = state(1), c0 = n_.cell == "lstm" ? state(2) : zeros;
        const Definition made = define(n_, x, n_.width_of(layer), weights(cell), d == 1, h0.data(), c0.data());
        const std::size_t last = d == 1 ? 0 : static_cast<std::size_t>((n_.steps - 1)) * states;
        last_h_.insert(last_h_.end(), made.h.begin() + static_cast<std::ptrdiff_t>(last),
                       made.h.begin() + static_cast<std::ptrdiff_t>(last + states));
        last_c_.insert(last_c_.end(), made.c.begin(), made.c.end());
        for (std::size_t i = 0; i < made.h.size(); ++i) {
          const std::size_t row = i / static_cast<std::size_t>(n_.hidden), u = i % static_cast<std::size_t>(n_.hidden);
          both[(row * static_cast<std::size_t>(n_.directions) + static_cast<std::size_t>(d)) *
                   static_cast<std::size_t>(n_.hidden) +
               u] = made.h[i];
        }
      }
      x = std::move(both);
    }
    all_ = std::move(x);
  }

  /// What the product before a layer's steps leaves: of what the layer should read.
  void multiply(int layer, int direction, Numbers& made) {
    const Numbers* w = weights(layer * n_.directions + direction);
    const std::int64_t width = n_.width_of(layer), rows = n_.gates() * n_.hidden;
    for (std::int64_t i = 0; i < n_.steps * n_.batch; ++i) {
      for (std::int64_t row = 0; row < rows; ++row) {
        double sum = n_.biases ? w[2][std::size_t(row)] : 0;
        for (std::int64_t k = 0; k < width; ++k)
          sum += double{w[0][std::size_t(row * width + k)]} * reads_[std::size_t(layer)][std::size_t(i * width + k)];
        made[std::size_t(i * rows + row)] = static_cast<float>(sum);
      }
    }
  }

  void check(const Kernel& kernel) {
    for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
      const auto& right = o == 0 ? all_ : o == 1 ? last_h_ : last_c_;
      double worst = 0;
      for (std::size_t i = 0; i < right.size(); ++i) {
        std::size_t at = i;
        if (o == 0 && n_.first_is_batch) {
          const auto wide = static_cast<std::size_t>(n_.directions * n_.hidden);
          const std::size_t t = i / wide / static_cast<std::size_t>(n_.batch),
                            b = i / wide % static_cast<std::size_t>(n_.batch);
          at = (b * static_cast<std::size_t>(n_.steps) + t) * wide + i % wide;
        }
        const double error = std::abs(memory_.outputs[o][at] - right[i]);
        worst = std::isnan(error) ? INFINITY : std::max(worst, error);
      }
      CHECK_MESSAGE(worst < 2e-6, n_.cell, " output ", o, " ", text(genome_));
    }
  }

  const Network n_;
  Genome genome_;
  Memory memory_;
  std::vector<std::vector<double>> reads_;
  std::vector<double> all_, last_h_, last_c_;
  bool infinity_ = false;
};

TEST_CASE("stacked layers run as one launch, whatever the blocks hand on through") {
  for (const std::int64_t exchange : {0, 1, 2})
    Trial({"lstm", 5, 3, 4, 9, 2}, {{"cluster", 4}, {"rows", 3}, {"tile", 3}, {"exchange", exchange}, {"wavefront", 1}})
        .run();
  Trial({"gru", 6, 3, 4, 9, 3}, {{"cluster", 2}, {"rows", 2}, {"tile", 2}, {"unroll", 2}, {"wavefront", 1}}).run();
}

TEST_CASE("directions run beside each other, layers one after the other") {
  Trial({"lstm", 4, 3, 5, 9, 2, 2, true, true}, {{"cluster", 4}, {"rows", 3}, {"tile", 2}, {"unroll", 2}}).run();
  Trial({"gru", 4, 3, 5, 6, 1, 2, false, false, true}, {{"cluster", 2}, {"rows", 1}, {"tile", 1}}).run();
}

TEST_CASE("plain cells, odd sizes, and one block") {
  Trial({"rnn_relu", 4, 5, 3, 7, 1}, {{"cluster", 1}, {"rows", 5}, {"tile", 4}, {"unroll", 4}}).run();
  Trial({"rnn_tanh", 4, 2, 3, 33, 2, 1, true, true, true}, {{"cluster", 8}, {"rows", 2}, {"tile", 1}, {"wavefront", 1}})
      .run();
}

TEST_CASE("an infinity meets no weights of padding") {
  Trial({"lstm", 4, 3, 4, 9, 2}, {{"cluster", 4}, {"rows", 3}, {"tile", 3}, {"wavefront", 1}}).run_with_infinity();
  Trial({"lstm", 3, 2, 4, 13, 1, 2}, {{"cluster", 8}, {"rows", 2}, {"tile", 1}}).run_with_infinity();
}

TEST_CASE("weights that registers do not hold are read from shared memory") {
  const Network n{"lstm", 3, 2, 3, 130};
  const Genome genome{{"cluster", 2}, {"rows", 2}, {"tile", 2}, {"unroll", 4}};
  const auto kernel = lowered(build(n), build(n).outputs);
  REQUIRE(kernel);
  Genome whole = genome;
  for (const Gene& gene : genes(*kernel, h200())) whole.try_emplace(gene.name, gene.choices.front());
  const auto emitted = emit(*kernel, h200(), whole);
  REQUIRE_MESSAGE(emitted.has_value(), illegal(*kernel, h200(), whole));
  const std::string step = emitted->after.empty() ? emitted->source : emitted->after.back().source;
  constexpr std::string_view name = " kept = ";
  // Each of sixteen threads has chunks of four of the state's 130 elements, 65 units a block.
  CHECK(std::stoi(step.substr(step.find(name) + name.size())) < (2 * 17 + 15) / 16);
  Trial(n, genome).run();
}

TEST_CASE("what a recurrent network is lowered to") {
  const Built built = build({"lstm", 5, 3, 4, 9, 2, 1, true, true, true});
  const auto kernel = lowered(built, built.outputs);
  REQUIRE_MESSAGE(kernel.has_value(), kernel.error().message);
  CHECK(kernel->anchor == Anchor::recurrence);
  CHECK(text(*kernel->recurrence) ==
        "lstm: 5 steps, batch 3, width 4, hidden 9, 2 layers, 1 directions\n"
        "x = in0 + 0 by [4, 20, 1]; h0 = none; c0 = none\n"
        "weights in1 + 0 by [4, 1]; in2 + 0 by [9, 1]; in3 + 0 by [1]; in4 + 0 by [1]\n"
        "weights in5 + 0 by [9, 1]; in6 + 0 by [9, 1]; in7 + 0 by [1]; in8 + 0 by [1]\n"
        "all -> out0 by [9, 45, 1]\n"
        "last h -> out1 by [27, 9, 1]\n"
        "last c -> out2 by [27, 9, 1]\n");
  const Cost costs = cost(*kernel);
  CHECK(costs.flops == 2 * 5 * 3 * 36 * (4 + 9 + 9 + 9));
  // Only what is asked for is written, and another cell of the same sizes is another kernel.
  const auto last = lowered(built, {built.outputs[1]});
  REQUIRE(last);
  CHECK(last->outputs.size() == 1);
  CHECK(last->recurrence->all.output == -1);
  const auto tanh = lowered(build({"rnn_tanh", 5, 3, 4, 9}), build({"rnn_tanh", 5, 3, 4, 9}).outputs);
  const auto relu = lowered(build({"rnn_relu", 5, 3, 4, 9}), build({"rnn_relu", 5, 3, 4, 9}).outputs);
  REQUIRE(tanh);
  REQUIRE(relu);
  CHECK(kernel_key_bytes(*tanh) != kernel_key_bytes(*relu));
}

TEST_CASE("what is no recurrent network of ours") {
  const auto why = [](const Built& built) {
    const auto kernel = lowered(built, built.outputs);
    return kernel ? std::string() : kernel.error().message;
  };
  Network n{"gru", 5, 3, 4, 9, 2};
  Built half = build(n);
  for (ir::Value& v : half.b.graph.values) v.dtype = DType::f16;
  CHECK(why(half) == "a recurrent network of another dtype than f32");
  Built dropping = build(n);
  for (ir::Arg& arg : dropping.b.graph.nodes.back().args) {
    if (arg.name == "dropout") arg.data = 0.5;
  }
  CHECK(why(dropping) == "dropout between layers");
  Built projected = build(n);
  for (ir::Arg& arg : projected.b.graph.nodes.back().args) {
    if (arg.name == "num_layers") arg.data = std::int64_t{1};
  }
  CHECK(why(projected) == "a recurrent network with projections");
  Built over_zeros = build(n);
  over_zeros.b.graph.nodes.insert(over_zeros.b.graph.nodes.begin(),
                                  {"aten.full.default", {L("size", {5, 3, 4}), F("fill_value", 0)}, {0}});
  over_zeros.inside.insert(over_zeros.inside.begin(), true);
  CHECK(why(over_zeros) == "a recurrent network over zeros");
  Built packed = build(n);
  packed.b.graph.nodes.back().op = "aten.gru.data";
  CHECK_FALSE(why(packed).empty());
}

TEST_CASE("guesses are legal, and a device without clusters has none") {
  for (const Network& n : {Network{"lstm", 512, 10, 128, 256, 6}, Network{"gru", 512, 10, 128, 256, 6, 2},
                           Network{"lstm", 128, 64, 256, 512}, Network{"gru", 64, 128, 256, 512, 2},
                           Network{"rnn_tanh", 51, 33, 65, 129}, Network{"lstm", 3, 1, 1, 1}}) {
    const auto kernel = lowered(build(n), build(n).outputs);
    REQUIRE(kernel);
    const auto guesses = seeds(*kernel, h200());
    CHECK_FALSE(guesses.empty());
    for (const Genome& guess : guesses) CHECK(illegal(*kernel, h200(), guess) == "");
    Device older = h200();
    older.arch = "sm_80";
    CHECK(seeds(*kernel, older).empty());
  }
  // A state of 8192 units has no place on chip.
  const Network large{"lstm", 3, 1, 1, 8192};
  CHECK(seeds(*lowered(build(large), build(large).outputs), h200()).empty());
}

}  // namespace
}  // namespace planish::codegen
