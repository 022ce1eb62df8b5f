#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/device_product.h"
#include "codegen/contraction_samples.h"
#include "codegen/devices.h"

namespace planish::codegen {
namespace {

using samples::contraction_samples;
using samples::ContractionSample;
using Kind = Emitted::Argument::Kind;

std::vector<const Emitted*> launches_of(const Emitted& emitted) {
  std::vector<const Emitted*> all{&emitted};
  for (const Emitted& next : emitted.after) all.push_back(&next);
  return all;
}

/// Parameters of the entry, counted in its text.
std::size_t parameters(const std::string& source) {
  const auto begin = source.find("planish_kernel(");
  const auto end = source.find(") {", begin);
  REQUIRE(end != std::string::npos);
  return static_cast<std::size_t>(std::count(source.begin() + static_cast<std::ptrdiff_t>(begin),
                                             source.begin() + static_cast<std::ptrdiff_t>(end), ',')) +
         1;
}

/// Factors that are packed before they are multiplied.
std::size_t packed_operands(const Kernel& kernel, const Genome& genome) {
  const auto product = contraction::product_of(kernel);
  REQUIRE(product);
  const auto packed = [&](const std::optional<contraction::Direct>& direct, std::int64_t rows) {
    const bool along_rows = direct && direct->load_mode == contraction::LoadMode::along_rows;
    return !direct || (along_rows && rows != 64 && rows != 128 && rows != 256) ? 1u : 0u;
  };
  const auto& way = value_of(genome, "swap_operands", 0) != 0 ? *product->swapped : *product;
  if (value_of(genome, "direct", 0) == 0) return 2;
  return packed(way.direct_a, genome.at("tile_m")) + packed(way.direct_b, genome.at("tile_n"));
}

/// The first guess of those whose factors are packed.
Genome packing_seed(const Kernel& kernel) {
  const auto guesses = seeds(kernel, h200());
  const auto found = std::ranges::find_if(guesses, [](const Genome& g) { return value_of(g, "direct", 0) == 0; });
  REQUIRE(found != guesses.end());
  return *found;
}

}  // namespace

TEST_CASE("every product has seeds, and each of them is legal and emitted") {
  for (const ContractionSample& sample : contraction_samples(true)) {
    CAPTURE(sample.name);
    REQUIRE(sample.kernel.anchor == Anchor::contraction);
    REQUIRE(tensor_cores_lack(sample.kernel, h200()) == "");
    const auto guesses = seeds(sample.kernel, h200());
    REQUIRE(!guesses.empty());
    for (const Genome& genome : guesses) {
      CHECK(illegal(sample.kernel, h200(), genome) == "");
      const auto emitted = emit(sample.kernel, h200(), genome);
      REQUIRE(emitted);
      const bool narrow = sample.kernel.inputs[0].dtype != DType::f32;
      const bool joined = genome.at("split") > 1;
      // Of fp32 that is split on its way the same follows with packed factors, should rows have to be scaled. The
      // second is packed before where those who multiply split the first one.
      const std::int64_t direct = value_of(genome, "direct", 0);
      if (direct == contraction::by_file) {  // one launch, with maps, and with parts and their counters
        CHECK(emitted->after.empty());
        CHECK(emitted->scratch_bytes.size() == (joined ? 3 : 1));
        CHECK(emitted->zeroed.size() == (joined ? 1 : 0));
        CHECK(parameters(emitted->source) == emitted->args.size());
        CHECK(emitted->shared <= h200().shared_bytes);
        CHECK(emitted->grid[0] % emitted->cluster[0] == 0);
        continue;
      }
      const bool splits = !narrow && direct != 0;
      const std::size_t before = direct == 3 ? 1 : 0;
      const std::size_t packed = splits ? 2 : packed_operands(sample.kernel, genome), ways = splits ? 2 : 1;
      CHECK(launches_of(*emitted).size() == before + packed + ways * (joined ? 2 : 1));
      const std::size_t maps = direct == 3 ? 2 : direct == 2 || splits ? 1 : 0;
      CHECK(emitted->scratch_bytes.size() == (before + packed) * (narrow ? 1 : 3) + (joined ? ways : 0) + maps);
      std::set<int> written, read;
      const auto launches = launches_of(*emitted);
      for (const Emitted* const& launch : launches) {
        CHECK(parameters(launch->source) == launch->args.size());
        CHECK(launch->grid[0] >= 1);
        CHECK(launch->shared <= h200().shared_bytes);
        CHECK(launch->source.find("#include") == std::string::npos);
        const auto place = static_cast<std::size_t>(&launch - launches.data());
        const std::size_t first = before + (!splits ? 0 : joined ? 2 : 1);
        const bool is_packing = place < before || (place >= first && place < first + packed);
        if (place >= first && splits)
          CHECK(launch->source.find("if (!__syncthreads_or(any)) return;") != std::string::npos);
        for (const auto& arg : launch->args) {
          if (arg.kind != Kind::scratch) continue;
          REQUIRE(arg.index < static_cast<int>(emitted->scratch_bytes.size()));
          (is_packing ? written : read).insert(arg.index);
        }
      }
      // Whatever is packed is read, and more only by who joins parts.
      for (const int index : written) CHECK(read.contains(index));
      CHECK(read.size() == (splits ? emitted->scratch_bytes.size() : written.size() + (joined ? 1 : 0) + maps));
      for (const std::int64_t bytes : emitted->scratch_bytes) CHECK(bytes > 0);
      CHECK(emit(sample.kernel, h200(), genome)->source == emitted->source);
    }
  }
}

TEST_CASE("drawn and changed genomes stay legal, and say what they are") {
  std::mt19937_64 rng(3);
  for (const ContractionSample& sample : contraction_samples(false)) {
    for (int i = 0; i < 20; ++i) {
      const Genome genome = random_genome(sample.kernel, h200(), rng);
      CHECK(illegal(sample.kernel, h200(), genome) == "");
      REQUIRE(emit(sample.kernel, h200(), genome));
      CHECK(illegal(sample.kernel, h200(), mutate(sample.kernel, h200(), genome, rng)) == "");
      for (const Genome& next : neighbours(sample.kernel, h200(), genome))
        CHECK(illegal(sample.kernel, h200(), next) == "");
    }
  }
}

TEST_CASE("what cannot be had together is refused") {
  const auto sample = samples::mm_sample(512, 512, 4096);
  Genome genome = packing_seed(sample.kernel);
  const auto refused = [&](const char* gene, std::int64_t value) {
    Genome changed = genome;
    changed[gene] = value;
    const auto emitted = emit(sample.kernel, h200(), changed);
    REQUIRE_FALSE(emitted);
    CHECK(emitted.error().kind.name() == "illegal_genome");
    return emitted.error().message;
  };
  genome["tile_m"] = 128;
  genome["tile_n"] = 128;
  genome["tile_k"] = 64;
  genome["stages"] = 3;
  REQUIRE(emit(sample.kernel, h200(), genome));
  CHECK(refused("stages", 4).find("shared memory") != std::string::npos);
  CHECK(refused("promote", 32).find("promote_k") != std::string::npos);
  CHECK(refused("tile_n", 256).find("tile_n") != std::string::npos);
  CHECK(refused("width", 4).find("width") != std::string::npos);
  // Who splits factors on their way has no registers left for so many sums.
  CHECK(refused("direct", 1).find("registers") != std::string::npos);
}

TEST_CASE("fp32 is split into scaled pairs, 16-bit factors are multiplied as they are") {
  const auto wide = samples::mm_sample(256, 256, 256);
  const auto emitted = emit(wide.kernel, h200(), packing_seed(wide.kernel));
  REQUIRE(emitted);
  CHECK(emitted->source.find("lo.x[j] = low_part(s, hi.x[j])") != std::string::npos);
  CHECK(emitted->after.back().source.find("scale_by_power(is_finite(sum") != std::string::npos);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto narrow = samples::mm_sample(256, 256, 256, dtype);
    Genome genome = seeds(narrow.kernel, h200()).front();
    genome["tile_m"] = genome["tile_n"] = 64;  // of 128 bytes, as what lies along its rows comes
    genome["stages"] = 4;
    for (const std::int64_t direct : {2, 1, 0}) {
      genome["direct"] = direct;
      const auto plain = emit(narrow.kernel, h200(), genome);
      REQUIRE(plain);
      CHECK(plain->after.size() == (direct != 0 ? 0 : 2));
      CHECK(plain->source.find("lo.x[j] = low_part") == std::string::npos);
      const std::string& loop = direct != 0 ? plain->source : plain->after.back().source;
      // The second factor lies along its rows.
      const auto product = fmt::format("PL_WGMMA_BOTH(multiply, 64, \"{}\", 0, {})\n",
                                       dtype == DType::f16 ? "f16" : "bf16", direct != 0 ? 1 : 0);
      CHECK(loop.find(product) != std::string::npos);
    }
  }
}

TEST_CASE("few long rows are packed by several blocks, which find their largest element together") {
  struct Packed {
    std::int64_t rows, depth;
    int blocks;
    bool kept;  ///< until the magnitude of all of the row is known
  };
  for (const auto& [rows, depth, blocks, kept] : std::vector<Packed>{{256, 1024, 1, true},
                                                                     {4096, 1024, 1, true},
                                                                     {256, 4096, 4, true},
                                                                     {256, 16384, 4, false},
                                                                     {64, 131072, 8, false},
                                                                     {1024, 8192, 1, false},
                                                                     {8192, 8192, 1, false}}) {
    const auto sample = samples::mm_sample(rows, 256, depth);
    const auto emitted = emit(sample.kernel, h200(), packing_seed(sample.kernel));
    REQUIRE(emitted);
    CAPTURE(rows);
    CAPTURE(depth);
    CHECK(emitted->cluster[0] == blocks);
    CHECK(emitted->grid[0] % blocks == 0);
    // Each exponent is written once, by the first block of those that share the row.
    CHECK(emitted->scratch_bytes[2] == emitted->grid[0] / blocks * 8 * 4);
    CHECK((emitted->source.find("cluster_load(common + r") != std::string::npos) == (blocks > 1));
    CHECK((emitted->source.find("if (__syncthreads_or(!usual))") == std::string::npos) == kept);
  }
}

TEST_CASE("equal operands are packed by equal text, whatever comes after") {
  // The compiler's work for packing is shared by the candidates that tile alike.
  const auto plain = samples::mm_sample(4096, 4096, 4096);
  const auto genomes = seeds(plain.kernel, h200());
  Genome other = genomes.front();
  other["raster"] = 16;
  CHECK(emit(plain.kernel, h200(), genomes.front())->source == emit(plain.kernel, h200(), other)->source);
}

TEST_CASE("without wgmma, or with places known at run time alone, products are rows to fold") {
  const auto sample = samples::mm_sample(64, 64, 64);
  Device older = h200();
  older.arch = "sm_80";
  CHECK(tensor_cores_lack(sample.kernel, older) != "");
  const auto guesses = seeds(sample.kernel, older);
  REQUIRE(!guesses.empty());
  CHECK_FALSE(guesses.front().contains("tile_m"));
  CHECK(emit(sample.kernel, older, guesses.front()));
  Kernel gathered = sample.kernel;
  const auto load = std::ranges::find_if(gathered.nodes.rbegin(), gathered.nodes.rend(),
                                         [](const Node& node) { return node.op == Op::load; });
  REQUIRE(load != gathered.nodes.rend());
  load->args = {0};
  load->strides = {1};
  load->limits = {1};
  CHECK(tensor_cores_lack(gathered, h200()) != "");
}

}  // namespace planish::codegen
