#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "codegen/devices.h"
#include "codegen/emit/cuda_access.h"
#include "codegen/emit/cuda_pattern.h"
#include "codegen/emit/cuda_plan.h"
#include "codegen/genome.h"
#include "codegen/templates/column/cuda_column_plan.h"
#include "column_samples.h"
#include "cooperative_genomes.h"
#include "cpp_samples.h"
#include "gather_samples.h"
#include "sample_kernels.h"

using namespace planish;
using namespace planish::codegen;
using namespace planish::codegen::printing;

namespace {
bool has(const std::string& source, std::string_view text) {
  return source.find(text) != std::string::npos;
}
/// The genome with every gene that it does not name at its first choice.
Genome complete(const Kernel& kernel, Genome genome) {
  for (const auto& one : genes(kernel, h200())) genome.try_emplace(one.name, one.choices.front());
  return genome;
}
std::string body(const Emitted& emitted) {
  return emitted.source.substr(emitted.source.find("// ---- kernel ----"));
}
}  // namespace

TEST_CASE("emission is a function of its arguments") {
  for (const auto& sample : samples::small_samples()) {
    const auto genome = seeds(sample.kernel, h200()).front();
    const auto a = emit(sample.kernel, h200(), genome);
    const auto b = emit(sample.kernel, h200(), genome);
    REQUIRE(a.has_value());
    CHECK(a->source == b->source);
    CHECK(a->args.size() == sample.kernel.inputs.size() + sample.kernel.outputs.size());
    CHECK_FALSE(has(a->source, "#include"));
  }
}

TEST_CASE("a product that its row's maximum is taken off is not fused with the difference") {
  const auto soft = samples::scaled_softmax(64, 100, false);
  const auto emitted = emit(soft.kernel, h200(), seeds(soft.kernel, h200()).front());
  REQUIRE(emitted.has_value());
  CHECK(has(body(*emitted), "__fsub_rn("));
  const auto columns = samples::softmax_columns(64, 100);  // of what is no product
  const auto plain = emit(columns.kernel, h200(), seeds(columns.kernel, h200()).front());
  REQUIRE(plain.has_value());
  CHECK_FALSE(has(body(*plain), "__fsub_rn("));
}

TEST_CASE("a pointwise kernel loads vectors, and its tail one by one") {
  const auto sample = samples::relu(1003);
  const Genome genome = complete(sample.kernel, {{"threads", 64}, {"vector", 16}, {"unroll", 2}});
  const auto emitted = emit(sample.kernel, h200(), genome);
  REQUIRE(emitted.has_value());
  CHECK(emitted->grid[0] == 2);
  CHECK(has(body(*emitted), "pl_load<0, 4>(r0[u], in0 + (e0));"));
  CHECK(has(body(*emitted), "if (blockIdx.x == 1 && threadIdx.x < 3) {"));
  CHECK(has(body(*emitted), "if (q < 250) {"));
}

TEST_CASE("rows of a table are loaded in vectors, places of each element where they are used") {
  const auto rows = samples::embedding_scale(37, 50, 64);
  const auto table = emit(rows.kernel, h200(), complete(rows.kernel, {{"threads", 64}, {"vector", 16}}));
  REQUIRE(table.has_value());
  CHECK(has(body(*table), "if ((unsigned long long)v0 < 50ULL) pl_load<0, 4>(r1[u], in1 + (d1) + v0 * 64LL);"));
  CHECK(has(body(*table), "(unsigned long long)v0 < 50ULL ? r1[u].x[j] : PL_NAN_F32"));
  const auto columns = samples::pick_columns(9, 70, 100);
  const auto each = emit(columns.kernel, h200(), complete(columns.kernel, {{"threads", 64}, {"vector", 16}}));
  REQUIRE(each.has_value());
  CHECK(has(body(*each), "(unsigned long long)v1 < 70ULL ? pl_ldg(in1 + (70 * d0) + v1 * 1LL) : PL_NAN_F32"));
  CHECK(prefers_columns(samples::bag(6, 9, 40, 48).kernel));
}

TEST_CASE("rows of odd length start anywhere, and never read outside") {
  const auto sample = samples::l2_norm(64, 65535);
  Genome genome{{"threads", 256}, {"vector", 16}, {"unroll", 2}, {"hints", 0},  {"min_blocks", 1},     {"residency", 2},
                {"rows", 1},      {"cluster", 4}, {"fast", 0},   {"online", 0}, {"persistent_rows", 0}};
  genome = complete(sample.kernel, genome);
  const auto plan = make_plan(sample.kernel, h200(), genome);
  CHECK(plan.shifted);
  CHECK(plan.vectors == 16385);
  const auto emitted = emit(sample.kernel, h200(), genome);
  REQUIRE(emitted.has_value());
  CHECK(has(body(*emitted), "const int shift = (int)((65535 * d0) & 3);"));
  CHECK(has(body(*emitted), "if (e0 >= 0 && e0 + 4 <= 65535) {"));
  CHECK(has(body(*emitted), "pl_cluster_sync();"));
  CHECK(emitted->cluster[0] == 4);
  CHECK(emitted->grid[0] == 256);
}

TEST_CASE("what the ends of a row may cut comes last, and needs the only tests") {
  const auto sample = samples::standardize_gain(64, 50257);
  const Genome plain =
      complete(sample.kernel, {{"threads", 256}, {"vector", 16}, {"unroll", 4}, {"cluster", 4}, {"residency", 2}});
  const auto text = body(*emit(sample.kernel, h200(), plain));
  // 12565 vectors, 4 of them perhaps cut, 1024 a trip: 12 trips of all threads in chunks of 4, and one more.
  CHECK(has(text, "for (int k0 = 0; k0 < 12; k0 += 4) {"));
  CHECK(has(text, "const int e0 = (t + 1) * 4 - shift;"));
  CHECK(has(text, "for (int k0 = 12; k0 < 13; k0 += 4) {"));
  CHECK(has(text, "const int e0 = (t < 12561 ? t + 1 : t < 12562 ? t - 12561 : t) * 4 - shift;"));
  CHECK(has(text, "pl_load<0, 1>(r"));
  Genome across = plain;
  across["realign"] = 1;
  const auto realigned = body(*emit(sample.kernel, h200(), across));
  CHECK(has(realigned, "pl_load_across<0>(r"));
  CHECK_FALSE(has(text, "pl_load_across"));
  across["vector"] = 4;
  CHECK(illegal(sample.kernel, h200(), across) == "no load lies across vectors");
  const auto even = samples::layer_norm(64, 16384);
  CHECK_FALSE(
      illegal(even.kernel, h200(), complete(even.kernel, {{"threads", 256}, {"vector", 16}, {"realign", 1}})).empty());
}

TEST_CASE("of a row larger than a cluster's shared memory, a part stays") {
  const auto rows = samples::group_norm(112, 8, 8, 262144);
  Genome genome = complete(
      rows.kernel,
      {{"threads", 1024}, {"vector", 16}, {"unroll", 4}, {"cluster", 16}, {"residency", 2}, {"partial_residency", 1}});
  const auto plan = make_plan(rows.kernel, h200(), genome);
  CHECK(plan.trips == 32);
  CHECK(plan.kept_trips == 12);
  CHECK(plan.dynamic_shared == 12 * 1024 * 16);
  const auto text = body(*emit(rows.kernel, h200(), genome));
  CHECK(has(text, "for (int k0 = 12; k0 < 32; k0 += 4) {"));
  CHECK(has(text, "for (int k0 = 0; k0 < 12; k0 += 4) {"));
  genome["min_blocks"] = 2;
  CHECK_FALSE(illegal(rows.kernel, h200(), genome).empty());
  const auto small = samples::layer_norm(64, 16384);
  genome = complete(small.kernel, {{"threads", 256}, {"vector", 16}, {"residency", 2}, {"partial_residency", 1}});
  CHECK(illegal(small.kernel, h200(), genome) == "none or all of the row fits on chip");
  const auto offered = seeds(rows.kernel, h200());
  CHECK(std::ranges::any_of(offered, [](const Genome& g) { return gene(g, "partial_residency", 0) != 0; }));
}

TEST_CASE("rows that are read again may be read from their end, which is in the cache still") {
  const auto rows = samples::group_norm(112, 8, 8, 262144);
  Genome genome =
      complete(rows.kernel, {{"threads", 1024}, {"vector", 16}, {"unroll", 4}, {"cluster", 16}, {"reverse", 1}});
  CHECK(has(body(*emit(rows.kernel, h200(), genome)), "for (int k0 = 32 - 4; k0 >= 0; k0 -= 4) {"));
  genome["residency"] = 2;
  CHECK(illegal(rows.kernel, h200(), genome) == "only rows that are read again are read backwards");
  const auto columns = samples::softmax_columns(4096, 262144);
  genome = complete(columns.kernel, {{"threads", 1024}, {"vector", 16}, {"unroll", 4}, {"split", 256}, {"reverse", 1}});
  CHECK(has(body(*emit(columns.kernel, h200(), genome)), "for (int k0 = 12; k0 >= 0; k0 -= 4) {"));
  genome["grid_split"] = 2;
  const auto sliced = emit(columns.kernel, h200(), genome);
  CHECK(has(body(sliced->after.back()), "(32767u - blockIdx.x)"));
  CHECK_FALSE(has(body(*sliced), "u - blockIdx.x"));
}

TEST_CASE("positions that rise need one comparison an element") {
  const auto rising = samples::extremes(4096, 1024, DType::f32, false);
  const auto genome = seeds(rising.kernel, h200()).front();
  CHECK(has(body(*emit(rising.kernel, h200(), genome)), "pl_later<true>(a0v[j], a0i[j], "));
  auto falling = rising;
  for (auto& node : falling.kernel.nodes) {
    if (node.op == Op::index)
      node.index = ir::add(ir::IndexExpr::constant(1023), ir::scale(node.index, -1), falling.kernel.space);
  }
  CHECK_FALSE(has(body(*emit(falling.kernel, h200(), genome)), "pl_later<true>(a0v"));
}

TEST_CASE("tensors beyond 2^31 elements are indexed with 64 bits") {
  const auto big = samples::softmax(3500000, 1000);
  const auto emitted = emit(big.kernel, h200(), seeds(big.kernel, h200()).front());
  REQUIRE(emitted.has_value());
  CHECK(has(emitted->source, "typedef long long ix;"));
  const auto small = samples::softmax(3500, 1000);
  CHECK(has(emit(small.kernel, h200(), seeds(small.kernel, h200()).front())->source, "typedef int ix;"));
}

TEST_CASE("pairs that one sweep can compute are found by structure") {
  const auto pairs = online_pairs(samples::logsumexp(8, 64).kernel);
  REQUIRE(pairs.size() == 1);
  CHECK(pairs[0].kind == JointKind::exponentials);
  REQUIRE(online_pairs(samples::layer_norm(8, 64).kernel).size() == 1);
  CHECK(online_pairs(samples::layer_norm(8, 64).kernel)[0].kind == JointKind::deviations);
  CHECK(online_pairs(samples::rms_norm(8, 64).kernel).empty());
  // A divisor other than the row's length is no mean.
  auto odd = samples::standardize(8, 64);
  for (auto& node : odd.kernel.nodes) {
    if (node.op == Op::constant && node.value == 64) node.value = 65;
  }
  CHECK(online_pairs(odd.kernel).empty());
  // Nor does a sum of exponentials follow the maximum of something else.
  auto other = samples::softmax(8, 64);
  other.kernel.reductions[0].kind = ReduceKind::min;
  CHECK(online_pairs(other.kernel).empty());
}

TEST_CASE("an online softmax sweeps once, and a walk refills what it wrote") {
  const auto sample = samples::softmax(4096, 8192);
  Genome genome{{"threads", 256}, {"vector", 16}, {"unroll", 2}, {"hints", 0},  {"min_blocks", 1},     {"residency", 2},
                {"rows", 1},      {"cluster", 1}, {"fast", 0},   {"online", 0}, {"persistent_rows", 0}};
  genome = complete(sample.kernel, genome);
  const auto barriers = [&](const Genome& g) {
    const auto emitted = emit(sample.kernel, h200(), g);
    REQUIRE(emitted.has_value());
    const std::string source = body(*emitted);
    int count = 0;
    for (auto at = source.find("__syncthreads"); at != std::string::npos; at = source.find("__syncthreads", at + 1))
      ++count;
    return count;
  };
  CHECK(barriers(genome) == 2);
  genome["online"] = 1;
  CHECK(barriers(genome) == 1);
  genome["persistent_rows"] = 16;
  const auto walking = emit(sample.kernel, h200(), genome);
  REQUIRE(walking.has_value());
  CHECK(walking->grid[0] == 256);
  CHECK(has(body(*walking), "if (group + 1 < upto) {"));
  CHECK(has(body(*walking), "expf("));
  genome["fast"] = 1;
  CHECK_FALSE(has(body(*emit(sample.kernel, h200(), genome)), "expf("));
  genome["residency"] = 0;
  CHECK(illegal(sample.kernel, h200(), genome) == "walking refills shared memory");
}

TEST_CASE("what is masked by position is not loaded, and rows that share an operand can run together") {
  const auto sample = samples::biased_scores(4, 2, 64);
  CHECK(shared_along(sample.kernel) == std::vector<int>{0});
  const auto needs = needed_when(sample.kernel);
  REQUIRE(needs[0].size() == 1);
  CHECK_FALSE(needs[0][0].holds);
  CHECK(sample.kernel.nodes[static_cast<std::size_t>(needs[0][0].node)].op == Op::logical_not);
  CHECK(needs[0] == needs[1]);
  // Something else looks at the scores: they are always needed; the bias is not.
  auto seen = sample;
  seen.kernel.reductions.push_back({ReduceKind::sum, 0, DType::f32, 0});
  CHECK(needed_when(seen.kernel)[0].empty());
  CHECK(needed_when(seen.kernel)[1].size() == 1);
  // Masks in memory are looked at in kernels with rows alone.
  for (const auto& guard : needed_when(samples::masked(8, 64).kernel)) CHECK(guard.empty());

  Genome genome = complete(sample.kernel, {});
  genome["vector"] = 16;
  CHECK_FALSE(has(body(*emit(sample.kernel, h200(), genome)), "bool n0"));
  CHECK(has(body(*emit(sample.kernel, h200(), genome)), "const ix d2 = row % 64;"));
  genome["predication"] = 1;
  genome["raster"] = 1;
  const std::string source = body(*emit(sample.kernel, h200(), genome));
  CHECK(has(source, "if (n0) pl_load<0, 4>("));
  CHECK(has(source, "const ix d0 = row % 4;"));
  // Large operands that rows far apart share decide the order of the first guess.
  const auto large = samples::biased_scores(16, 16, 2048);
  CHECK(seeds(large.kernel, h200()).front().at("raster") == 1);
  CHECK(seeds(large.kernel, h200()).front().at("predication") == 2);
}

TEST_CASE("what a mask in memory or a length hides is not loaded, and the mask is loaded before") {
  const auto sample = samples::hidden_scores(5, 96);
  const auto needs = needed_when(sample.kernel);
  CHECK(needs[0].size() == 2);
  CHECK(asked_by(sample.kernel, needs) == std::vector<int>{1, 2});  // the mask's and the length's loads
  CHECK(needs[1].empty());
  Genome genome = complete(sample.kernel, {});
  genome["vector"] = 16;
  genome["unroll"] = 2;
  CHECK_FALSE(has(body(*emit(sample.kernel, h200(), genome)), "bool n0"));
  genome["predication"] = 1;
  // By residency: where the mask lies when the scores are asked for.
  const std::vector<std::string> places{"r1[u]", "R1[k0 + u]", "r1[u]"};
  for (std::int64_t residency = 0; residency < 3; ++residency) {
    genome["residency"] = residency;
    REQUIRE(illegal(sample.kernel, h200(), genome).empty());
    const std::string source = body(*emit(sample.kernel, h200(), genome));
    const std::string& mask = places[static_cast<std::size_t>(residency)];
    const auto loaded = source.find("pl_load<0, 4>(" + mask);
    const auto looked = source.find("(" + mask + ".x[j] != 0)");
    const auto asked = source.find("if (n0) pl_");
    CHECK(loaded != std::string::npos);
    CHECK(loaded < looked);
    CHECK(looked < asked);
    CHECK(asked != std::string::npos);
    CHECK(has(source, residency == 2 ? "if (n0) pl_copy_async<4>(&S0" : "if (n0) pl_load<0, 4>("));
  }
  // Two conditions hide: neither decides alone. The causal mask does, and a hidden vector takes a way of its own.
  CHECK_FALSE(vector_predicate(sample.kernel, needs));
  const auto causal = samples::biased_scores(4, 2, 64);
  Genome veiled = complete(causal.kernel, {});
  veiled["vector"] = 16;
  veiled["predication"] = 2;
  const std::string two_ways = body(*emit(causal.kernel, h200(), veiled));
  const auto shown = two_ways.find("if (n0) {");
  REQUIRE(shown != std::string::npos);
  const auto hidden = two_ways.find("} else {", shown);
  REQUIRE(hidden != std::string::npos);
  const std::string short_way = two_ways.substr(hidden, two_ways.find("acc0[j]", hidden) - hidden);
  CHECK(has(short_way, " = v"));
  CHECK_FALSE(has(short_way, " * "));  // the scores' arithmetic is left out
  genome["persistent_rows"] = 4;
  CHECK(illegal(sample.kernel, h200(), genome) == "a mask in memory is looked at before what it masks is asked for");
  genome["predication"] = 0;
  CHECK(illegal(sample.kernel, h200(), genome).empty());
}

TEST_CASE("rows that arrive in stages are copied in whole units, inside the tensor") {
  const auto sample = samples::standardize_gain(4001, 50257);
  Genome genome = complete(sample.kernel, {});
  genome["threads"] = 256;
  genome["residency"] = 2;
  genome["cluster"] = 4;
  genome["stages"] = 3;
  genome["operand_residency"] = 1;
  genome["online"] = 1;
  REQUIRE(illegal(sample.kernel, h200(), genome).empty());
  const auto plan = make_plan(sample.kernel, h200(), genome);
  CHECK(plan.width == 1);
  CHECK(plan.chunk == 12565);
  REQUIRE(plan.streams.size() == 2);
  CHECK_FALSE(plan.streams[0].held);
  CHECK(plan.streams[1].held);
  for (const auto& stream : plan.streams) {
    CHECK(stream.align == 4);
    CHECK(stream.capacity % 16 == 0);
    CHECK(stream.capacity >= (12565 + 3 + 3) * 4);
  }
  CHECK(plan.dynamic_shared == 3 * plan.streams[0].capacity + plan.streams[1].capacity);
  const auto emitted = emit(sample.kernel, h200(), genome);
  REQUIRE(emitted.has_value());
  // As many clusters of four as surely run at the same time.
  CHECK(emitted->grid[0] == 128);
  const std::string source = body(*emitted);
  // 4001 · 50257 elements leave one after the last whole unit, and so does the gain.
  CHECK(has(source, "z0 = z0 < 201078256 ? z0 : 201078256;"));
  CHECK(has(source, "z1 = z1 < 50256 ? z1 : 50256;"));
  CHECK(has(source, "for (ix q = 201078256 + tid % 256; q < 201078257; q += 256)"));
  CHECK(has(source, "pl_take<1>(s0, w0 + e0);"));
  CHECK(has(source, "pl_take<1>(s1, w1 + e0);"));
  CHECK_FALSE(has(source, "pl_load<"));

  // Blocks of a cluster that write to each other need no barrier of all of them but one before they start.
  CHECK(has(source, "pl_remote("));
  genome["exchange"] = 1;
  const std::string pushing = body(*emit(sample.kernel, h200(), genome));
  CHECK_FALSE(has(pushing, "pl_remote("));
  CHECK(pushing.find("pl_cluster_sync();") == std::string::npos);
  CHECK(has(pushing,
            "if (tid == 0) pl_barrier_expect(&met0[turn], 384);"));  // a sum, a sum of squares, a count, of 32 warps
  CHECK(has(pushing, "pl_push(&cl0[turn * 32 + rank * 8 + tid / 32], red0, &met0[turn], tid % 32);"));
  CHECK(has(pushing, "pl_barrier_wait(&met0[turn], again);"));

  const auto refused = [&](const char* name, std::int64_t value) {
    Genome other = genome;
    other[name] = value;
    return illegal(sample.kernel, h200(), other);
  };
  CHECK(refused("persistent_rows", 4) == "stages lie in shared memory and walk themselves");
  CHECK(refused("residency", 1) == "stages lie in shared memory and walk themselves");
  CHECK(refused("stages", 0) == "only persistent blocks hold what rows share");
  CHECK(refused("cluster", 1) == "a block alone exchanges nothing");
  genome["exchange"] = 0;
  CHECK_FALSE(refused("cluster", 1).empty());  // three rows of 200 KB
  const auto few = samples::standardize_gain(10, 50257);
  CHECK(illegal(few.kernel, h200(), genome) == "too few rows for persistent blocks");
  const auto offered = [&](const samples::Sample& s) {
    return std::ranges::any_of(seeds(s.kernel, h200()), [](const Genome& g) { return gene(g, "stages", 0) != 0; });
  };
  CHECK(offered(samples::standardize_gain(32768, 50257)));
  CHECK(offered(samples::layer_norm(32768, 16384)));
  CHECK_FALSE(offered(few));
}

TEST_CASE("vector access needs proof of alignment and of contiguity") {
  ir::Space space{{8, 64}};
  const auto at = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
    return add(add(scale(ir::IndexExpr::variable(0), a), scale(ir::IndexExpr::variable(1), b), space),
               ir::IndexExpr::constant(c), space);
  };
  Lanes lanes;
  lanes.width = 4;
  lanes.variable = 1;
  using K = Access::Kind;
  const auto of = [&](const ir::IndexExpr& e) { return classify(e, {}, DType::f32, space, lanes); };
  CHECK(of(at(64, 1, 0)).kind == K::vector);
  CHECK(of(at(64, 1, 0)).unit == 4);
  CHECK(of(at(64, 1, 2)).unit == 2);
  CHECK(of(at(65, 1, 0)).unit == 1);
  CHECK(of(at(64, -1, 63)).kind == K::reversed);
  CHECK(of(at(64, -1, 63)).unit == 4);
  CHECK(of(at(1, 0, 0)).kind == K::invariant);
  CHECK(of(at(1, 8, 0)).kind == K::elements);
  CHECK(classify(at(64, 1, 0), {}, DType::f64, space, lanes).unit == 2);
  const auto div = floor_div(ir::IndexExpr::variable(1), 16, space);
  CHECK(of(div).kind == K::invariant);
  CHECK(of(floor_div(ir::IndexExpr::variable(1), 6, space)).kind == K::elements);
  CHECK(of(mod(ir::IndexExpr::variable(1), 16, space)).kind == K::vector);
  const auto under = [&](const ir::IndexExpr& e, std::int64_t lo, std::int64_t hi) {
    const ir::Bound bound{e, lo, hi};
    return classify(at(64, 1, 0), {&bound, 1}, DType::f32, space, lanes).kind;
  };
  const auto d1 = ir::IndexExpr::variable(1);
  CHECK(under(d1, 0, 62) == K::elements);
  CHECK(under(d1, 2, 64) == K::elements);
  CHECK(under(d1, 0, 60) == K::vector);  // no vector of four crosses 60
  CHECK(under(at(0, 1, 2), 0, 60) == K::elements);
  CHECK(under(at(0, 1, 2), 2, 62) == K::vector);
  CHECK(under(at(0, -1, 63), 4, 64) == K::vector);
  CHECK(under(at(0, -1, 64), 4, 64) == K::elements);
  CHECK(under(at(0, 2, 0), 0, 60) == K::elements);
  CHECK(under(at(64, 1, 0), 128, 512) == K::vector);
}

TEST_CASE("a reduction over a strided dimension lays threads along the contiguous one") {
  CHECK(prefers_columns(samples::rms_channels(4, 64, 1024).kernel));
  CHECK_FALSE(prefers_columns(samples::softmax(64, 1024).kernel));
}

TEST_CASE("columns, lonely rows and positions take the column schedule") {
  CHECK(uses_column_schedule(samples::rms_channels(4, 64, 1024).kernel));
  CHECK(uses_column_schedule(samples::whole_moments(1 << 20).kernel));
  CHECK(uses_column_schedule(samples::extremes(4096, 1024, DType::f32, false).kernel));
  CHECK_FALSE(uses_column_schedule(samples::softmax(4096, 1024).kernel));
  CHECK_FALSE(uses_column_schedule(samples::group_norm(64, 8, 8, 4096).kernel));
}

TEST_CASE("every column sample has legal seeds, and drawing keeps to the law") {
  for (const bool large : {false, true}) {
    for (const auto& sample : large ? samples::large_column_samples() : samples::column_samples()) {
      INFO(sample.family);
      const auto first = seeds(sample.kernel, h200());
      REQUIRE(first.size() >= 3);
      for (const auto& genome : first) {
        CHECK(illegal(sample.kernel, h200(), genome) == "");
        CHECK(emit(sample.kernel, h200(), genome).has_value());
      }
      std::mt19937_64 rng(11);
      for (int i = 0; i < 3; ++i) {
        const Genome drawn = random_genome(sample.kernel, h200(), rng);
        CHECK(illegal(sample.kernel, h200(), drawn) == "");
        CHECK(illegal(sample.kernel, h200(), mutate(sample.kernel, h200(), drawn, rng)) == "");
      }
      for (const auto& next : neighbours(sample.kernel, h200(), first.front())) {
        CHECK(illegal(sample.kernel, h200(), next) == "");
      }
    }
  }
}

TEST_CASE("blocks that share a column leave their states, and the next launch merges them") {
  const auto sample = samples::column_stats(1, 65536, 1024);
  Genome genome{{"threads", 256}, {"vector", 16},     {"unroll", 4}, {"hints", 0},     {"fast", 0},   {"min_blocks", 1},
                {"split", 8},     {"grid_split", 64}, {"online", 0}, {"residency", 0}, {"reverse", 0}};
  const auto sliced = emit(sample.kernel, h200(), genome);
  REQUIRE(sliced.has_value());
  // 32 vectors of 4 columns a block: 8 groups of columns.
  CHECK(sliced->grid[0] == 8 * 64);
  REQUIRE(sliced->after.size() == 1);
  CHECK(sliced->after[0].grid[0] == 8);
  CHECK(sliced->scratch_bytes == std::vector<std::int64_t>{2 * 64 * 1024 * 4});
  CHECK(sliced->args.size() == 2);
  CHECK(sliced->args[1].kind == Emitted::Argument::Kind::scratch);
  CHECK(sliced->after[0].args.size() == 4);
  CHECK(has(body(sliced->after[0]), "for (int i = y; i < 64; i += 8) {"));
  genome["grid_split"] = 1;
  const auto whole = emit(sample.kernel, h200(), genome);
  REQUIRE(whole.has_value());
  CHECK(whole->after.empty());
  CHECK(whole->scratch_bytes.empty());
  genome["split"] = 1024;
  CHECK(illegal(sample.kernel, h200(), genome) != "");
}

TEST_CASE("two dependent reductions over one long row are three launches, or two where one sweep does both") {
  const auto sample = samples::whole_moments(1 << 24);
  Genome genome{{"threads", 256}, {"vector", 16},    {"unroll", 4},  {"hints", 0},
                {"fast", 0},      {"min_blocks", 1}, {"split", 256}, {"grid_split", 256},
                {"online", 0},    {"residency", 0},  {"reverse", 0}};
  const auto apart = emit(sample.kernel, h200(), genome);
  REQUIRE(apart.has_value());
  CHECK(apart->after.size() == 2);
  genome["online"] = 1;
  const auto together = emit(sample.kernel, h200(), genome);
  REQUIRE(together.has_value());
  CHECK(together->after.size() == 1);
  CHECK(has(body(*together), "pl_deviations("));
  genome["residency"] = 1;
  CHECK(illegal(sample.kernel, h200(), genome).find("between the launches") != std::string::npos);
}

TEST_CASE("a cooperative group of blocks owns a row that no cluster holds, in one launch") {
  const auto sample = samples::group_norm(64, 8, 8, 262144);  // 512 rows of 8 MB
  Genome genome = complete(sample.kernel, {{"threads", 512},
                                           {"vector", 16},
                                           {"unroll", 4},
                                           {"min_blocks", 1},
                                           {"residency", 2},
                                           {"online", 1},
                                           {"cooperative", 132},
                                           {"pipeline_depth", 2}});
  const auto team = emit(sample.kernel, h200(), genome);
  REQUIRE(team.has_value());
  CHECK(team->cooperative);
  CHECK(team->after.empty());
  CHECK(team->grid[0] == 132);
  CHECK(team->zeroed == std::vector<int>{0, 1});
  // Sum and squares of 132 slices, words that say of which meeting they are, for two meetings in turn; two counters,
  // each on a line of its own.
  CHECK(team->scratch_bytes == std::vector<std::int64_t>{2 * 2 * 132 * 8, 2 * 128});
  CHECK(team->shared > 3 * 8 * 512 * 16 - 16);  // three rows' slices
  CHECK(has(body(*team), "pl_copy_wait<1>();"));
  // All 132 arrivals of a row, on every other row's counter.
  CHECK(
      has(body(*team), "pl_team_wait<false>(gates + (team * 2 + (turn) % 2) * 32, (unsigned)((turn) / 2 + 1) * 132u)"));
  CHECK(body(*team).find("pl_team_come") < body(*team).find("pl_team_wait"));
  // A warp more meets the team; the others leave their states with it and get the row before from it: at one barrier,
  // which both sides come to once a row and once more.
  CHECK(team->block[0] == 512 + 32);
  CHECK(has(body(*team), "__launch_bounds__(544, 1)"));
  const std::string both = body(*team);
  const auto leaves = both.find("if (tid >= 512) {"), sweeps = both.find("return;", leaves);
  REQUIRE(sweeps != std::string::npos);
  const std::string scout = both.substr(leaves, sweeps - leaves), others = both.substr(sweeps);
  const std::string meets = "pl_block_meet<544>();";
  CHECK(scout.find(meets) < scout.find("pl_team_come"));    // states of the row at hand, results of the one before
  CHECK(scout.rfind(meets) > scout.rfind("h0q[(turn) %"));  // the last row's results
  CHECK(has(others, "if (turn == 0) " + meets));
  CHECK(others.rfind(meets) > others.find("if (turn > 0) {"));
  CHECK(others.rfind(meets) < others.find("h0t[(turn + 1) %"));
  // Barriers have constant numbers: of one that is computed the compiler takes all 16, and a fourth of the blocks that
  // the plan counts on run at once.
  CHECK(has(team->source, "barrier.cta.sync 0, %0;"));
  CHECK(team->source.find("barrier.cta") == team->source.rfind("barrier.cta"));
  CHECK_FALSE(has(team->source, "bar.sync"));
  CHECK_FALSE(has(body(*team), "__syncthreads"));

  genome["pipeline_depth"] = 0;
  genome["cooperative"] = 44;
  const auto three = emit(sample.kernel, h200(), genome);
  REQUIRE(three.has_value());
  CHECK(three->grid[0] == 132);
  CHECK(three->block[0] == 512);  // nothing to do meanwhile: the first warp meets the team
  // Each team begins when the one before has its first row: others have use of the memory while one meets.
  CHECK(has(body(*three), "if (tid == 0) pl_team_wait<false>(gates + (team - 1) * 64, 44u);"));
  CHECK_FALSE(has(body(*team), "(team - 1)"));
  CHECK(three->scratch_bytes[1] == 3 * 2 * 128);
  // Two dependent reductions: the team meets twice a row.
  genome["online"] = 0;
  const auto twice = emit(sample.kernel, h200(), genome);
  REQUIRE(twice.has_value());
  CHECK(has(body(*twice), "gates + (team * 2 + ((turn) * 2 + 1) % 2) * 32"));
}

TEST_CASE("a team adds plainly: a chunk's own mean, then the squares about it; counts come from extents") {
  const auto sample = samples::group_norm(64, 8, 8, 262144);
  const auto emitted = emit(sample.kernel, h200(),
                            complete(sample.kernel, {{"threads", 512},
                                                     {"vector", 16},
                                                     {"unroll", 4},
                                                     {"min_blocks", 1},
                                                     {"residency", 2},
                                                     {"online", 1},
                                                     {"cooperative", 132}}));
  REQUIRE(emitted.has_value());
  const std::string text = body(*emitted);
  const std::string kernel = text.substr(text.find("__global__"));
  // No merge of states divides: neither per lane nor per warp. What divides at all does so once a row.
  CHECK_FALSE(has(kernel, "pl_deviations("));
  CHECK(kernel.find(" / 2097152.0f") == kernel.rfind(" / 2097152.0f"));
  // 4 vectors of 4 elements are joined at a time; where threads may lack some, those they have are counted.
  CHECK(has(kernel,
            "pl_join(a0n[0], a0t[0], a0q[0], over0[0], 16.0f, 1.0f / 16.0f, "
            "((part0[0] + part0[1]) + (part0[2] + part0[3])));"));
  CHECK(has(kernel, "seen0 += 4.0f;"));
  CHECK(has(kernel, "pl_join(a0n[0], a0t[0], a0q[0], over0[0], seen, pl_fast_rcp(seen), "));
  // A warp of each block merges what 132 blocks left, five a lane, in an order that does not depend on who came when.
  CHECK(has(kernel, "w0t[i].look((unsigned long long*)(partials + 0LL) + (team * 2 + (turn) % 2) * 132 + from * 1);"));
  CHECK(has(kernel, "told = told & w0q[i].of((unsigned)(turn) + 1u);"));
  CHECK(has(kernel, "z0t[i] = b < 132 ? w0t[i].value() : 0.0f;"));
  CHECK(has(kernel, "for (int i = 0; i < 5; ++i) {"));
  CHECK(has(kernel, "a0q[0] += pl_xor(a0q[0], 16);"));
  // 131 slices of 4000 vectors, and a last one.
  CHECK(has(kernel, "const float held = (b == 131 ? 1152.0f : 16000.0f);"));
}

TEST_CASE("a team's row whose ends cut vectors counts its elements by itself") {
  const auto sample = samples::softmax(300, 1'000'001);
  Genome genome = complete(sample.kernel, {{"threads", 256},
                                           {"vector", 16},
                                           {"unroll", 2},
                                           {"min_blocks", 1},
                                           {"residency", 2},
                                           {"online", 1},
                                           {"cooperative", 132}});
  const auto softmax = emit(sample.kernel, h200(), genome);
  REQUIRE(softmax.has_value());
  // The maximum of a chunk, of a warp, of a block and of the team; then each sum of exponentials relative to it.
  const std::string text = body(*softmax);
  CHECK(has(text, "const float next0 = pl_max(a0m[0], pl_max(pl_max(top0[0], top0[1]), pl_max(top0[2], top0[3])));"));
  CHECK(has(text, "a0s[0] *= expf(own - a0m[0]);"));
  CHECK(has(text, "a0s[0] += z0s[i] * expf(z0m[i] - a0m[0]);"));

  const auto rows = samples::standardize(300, 1'000'001);
  const auto cut = emit(rows.kernel, h200(),
                        complete(rows.kernel, {{"threads", 256},
                                               {"vector", 16},
                                               {"unroll", 2},
                                               {"min_blocks", 1},
                                               {"residency", 2},
                                               {"online", 1},
                                               {"cooperative", 132}}));
  REQUIRE(cut.has_value());
  CHECK(has(body(*cut), "seen0[j] += 1.0f;"));
  CHECK(has(body(*cut), "const float held = pl_part(b * 7680 - shift, 7680, 1000001);"));
}

TEST_CASE("a team that writes once a row asks for its next row in the last fold") {
  const auto sample = samples::nll_rows(300, 1'000'000);
  const auto emitted = emit(
      sample.kernel, h200(),
      complete(
          sample.kernel,
          {{"threads", 256}, {"vector", 16}, {"unroll", 2}, {"min_blocks", 1}, {"residency", 2}, {"cooperative", 44}}));
  REQUIRE(emitted.has_value());
  const std::string text = body(*emitted);
  const auto asked = text.rfind("pl_copy_async<4>(&S0[(k0 + u) * 256], pn0 + (k0 + u) * 1024);");
  CHECK(asked != std::string::npos);
  CHECK(asked > text.rfind("expf("));
}

TEST_CASE("rows longer than the whole device are kept in part") {
  const auto sample = samples::batch_standardize(32, 64, 1 << 18);  // 64 rows of 33.5 MB
  const Genome genome = complete(sample.kernel, {{"threads", 512},
                                                 {"vector", 16},
                                                 {"unroll", 2},
                                                 {"min_blocks", 1},
                                                 {"split", 512},
                                                 {"residency", 2},
                                                 {"online", 1},
                                                 {"cooperative", 132}});
  const ColumnPlan plan = make_column_plan(sample.kernel, h200(), genome);
  CHECK(plan.teams == 1);
  CHECK(plan.kept_trips > plan.base.trips * 3 / 4);
  CHECK(plan.kept_trips < plan.base.trips);
  const auto emitted = emit(sample.kernel, h200(), genome);
  REQUIRE(emitted.has_value());
  CHECK(emitted->shared <= h200().shared_bytes);
}

TEST_CASE("while a team meets, the cache gets the beginning of its next row") {
  const auto sample = samples::group_norm(64, 8, 8, 262144);
  Genome genome = complete(sample.kernel, {{"threads", 1024},
                                           {"vector", 16},
                                           {"unroll", 1},
                                           {"min_blocks", 1},
                                           {"residency", 2},
                                           {"online", 1},
                                           {"cooperative", 44}});
  const auto plain = emit(sample.kernel, h200(), genome);
  REQUIRE(plain.has_value());
  CHECK_FALSE(has(body(*plain), "pl_touch("));
  genome["prefetch"] = 4;
  const auto touching = emit(sample.kernel, h200(), genome);
  REQUIRE(touching.has_value());
  const std::string text = body(*touching);
  // Between leaving the own state and waiting for the others': half of a slice of 11936 vectors, twelve a thread.
  const auto comes = text.find("pl_team_come<false>("), touches = text.find("pl_touch(p0 + (k0 + u) * 4096);");
  REQUIRE(touches != std::string::npos);
  CHECK(comes < touches);
  CHECK(touches < text.find("pl_team_wait<false>(gates + (team * 2", comes));
  CHECK(has(text.substr(comes, touches - comes), "for (int k0 = 0; k0 < (6 < whole ? 6 : whole); k0 += 1) {"));
  CHECK(has(text.substr(comes, touches - comes), "const ix group = at + 3;"));
}

TEST_CASE("what shared memory has no room for is held in registers, and loaded for the next row once it was written") {
  const auto sample = samples::batch_standardize(32, 64, 262144);
  Genome genome = complete(sample.kernel, {{"threads", 512},
                                           {"split", 512},
                                           {"vector", 8},
                                           {"unroll", 4},
                                           {"min_blocks", 1},
                                           {"residency", 2},
                                           {"online", 1},
                                           {"cooperative", 132}});
  const auto again = emit(sample.kernel, h200(), genome);
  REQUIRE(again.has_value());
  genome["register_residency"] = 1;
  REQUIRE(illegal(sample.kernel, h200(), genome) == "");
  const auto held = emit(sample.kernel, h200(), genome);
  REQUIRE(held.has_value());
  const auto loads = [](const std::string& text) {
    std::size_t count = 0;
    for (auto at = text.find("pl_load<"); at != std::string::npos; at = text.find("pl_load<", at + 1)) ++count;
    return count;
  };
  const std::string text = body(*held);
  CHECK(has(text, "PlVec<float, 2> K0[8];"));
  CHECK_FALSE(has(body(*again), "K0"));
  // Once for the first row, and once for the one that follows; read again: in both sweeps, with and without tests.
  CHECK(loads(text) == 2);
  CHECK(loads(body(*again)) == 4);
  const auto written = text.rfind("K0[k0 + u - 56].x[j]"), next = text.rfind("pl_load<");
  CHECK(written < next);
  CHECK(text.find("const bool more") < next);
  CHECK(has(text.substr(text.find("const bool more"), next - text.find("const bool more")), "if (more) {"));
}

TEST_CASE("what a team may not do is named") {
  const auto sample = samples::group_norm(64, 8, 8, 262144);
  const Genome good = complete(sample.kernel, {{"threads", 512},
                                               {"vector", 16},
                                               {"unroll", 2},
                                               {"min_blocks", 1},
                                               {"residency", 2},
                                               {"online", 1},
                                               {"cooperative", 132},
                                               {"pipeline_depth", 1}});
  REQUIRE(illegal(sample.kernel, h200(), good) == "");
  const auto with = [&](Genome changed) {
    for (const auto& [name, value] : good) changed.try_emplace(name, value);
    return illegal(sample.kernel, h200(), changed);
  };
  CHECK(has(with({{"cooperative", 264}}), "same time"));
  CHECK(has(with({{"cooperative", 0}}), "only teams"));
  CHECK(has(with({{"online", 0}}), "one fold"));
  CHECK(has(with({{"residency", 1}}), "registers"));
  CHECK(has(with({{"prefetch", 4}}), "a row ahead"));
  CHECK(has(with({{"pipeline_depth", 0}, {"residency", 0}, {"register_residency", 1}}), "left over"));
  CHECK(has(with({{"pipeline_depth", 0}, {"register_residency", 1}}), "left over"));
  CHECK(has(with({{"cooperative", 0}, {"pipeline_depth", 0}, {"prefetch", 4}}), "only teams"));
  CHECK(has(with({{"residency", 0}, {"pipeline_depth", 2}}), "on chip"));
  CHECK(has(with({{"cluster", 2}}), "one row at a time"));
  CHECK(has(with({{"persistent_rows", 4}}), "persistent_rows"));
  CHECK(has(with({{"min_blocks", 3}, {"threads", 1024}, {"pipeline_depth", 0}}), "threads"));
  CHECK(has(with({{"threads", 1024}, {"unroll", 1}}), "no room"));
}

TEST_CASE("teams are for long rows of which there are some") {
  const auto teams = [](const samples::Sample& sample) {
    const auto known = genes(sample.kernel, h200());
    return std::ranges::find(known, "cooperative", &Gene::name) != known.end();
  };
  CHECK(teams(samples::group_norm(64, 8, 8, 262144)));
  CHECK(teams(samples::batch_standardize(32, 64, 1 << 18)));
  CHECK(teams(samples::softmax(4096, 393216)));
  CHECK_FALSE(teams(samples::softmax(4096, 8192)));
  CHECK_FALSE(teams(samples::group_norm(1, 1, 8, 262144)));          // one row
  CHECK_FALSE(teams(samples::batch_standardize(256, 64, 1 << 20)));  // rows of 1 GB
  CHECK_FALSE(teams(samples::whole_moments(1 << 24)));
  // Where no cluster holds a row they are tried first, in several ways; otherwise one, second where no multiprocessor
  // holds a row.
  const auto has_cooperative = [](const Genome& g) { return g.at("cooperative") != 0; };
  const auto tried = seeds(samples::group_norm(64, 8, 8, 262144).kernel, h200());
  CHECK(std::ranges::count_if(tried, has_cooperative) == 6);
  CHECK(has_cooperative(tried.front()));
  CHECK_FALSE(has_cooperative(tried.back()));
  const auto shorter = seeds(samples::softmax(4096, 393216).kernel, h200());
  CHECK(std::ranges::count_if(shorter, has_cooperative) == 1);
  CHECK(has_cooperative(shorter[1]));
}

TEST_CASE("what both looks at a chunk need is computed once, and what a vector shares is loaded once") {
  const auto sample = samples::activated_group_norm(128, 8, 4, 254 * 254);
  Genome genome;
  for (const Gene& gene : genes(sample.kernel, h200())) genome[gene.name] = gene.choices.front();
  for (const auto& [name, value] :
       {std::pair{"online", 1}, {"lines", 1}, {"vector", 16}, {"threads", 256}, {"unroll", 2}})
    genome[name] = value;
  REQUIRE(illegal(sample.kernel, h200(), genome) == "");
  const std::string source = emit(sample.kernel, h200(), genome)->source;
  const std::string loop = source.substr(source.find("#pragma unroll 1"));
  const std::string first = loop.substr(0, loop.find("#pragma unroll 1", 20));
  const auto count = [](const std::string& text, std::string_view what) {
    std::size_t times = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++times;
    return times;
  };
  CHECK(count(first, "sigmoid(") == 1);
  // Two vectors of x, and one shift for each of them.
  CHECK(count(first, "pl_ldg(") == 0);
  CHECK(count(first, "pl_load<") == 2);
  CHECK(count(first, "[2][4];") == 1);
  // What is cheap is computed again: a register is worth more.
  const auto plain = samples::group_norm(128, 8, 4, 254 * 254);
  CHECK(emit(plain.kernel, h200(), genome)->source.find("[2][4];") == std::string::npos);
}

TEST_CASE("some draws have a team, where a kernel can have one") {
  const auto sample = samples::group_norm(64, 8, 8, 262144);
  std::mt19937_64 rng(3);
  int teams = 0;
  for (int i = 0; i < 40; ++i) {
    const Genome drawn = random_genome(sample.kernel, h200(), rng);
    CHECK(illegal(sample.kernel, h200(), drawn) == "");
    teams += drawn.at("cooperative") != 0;
  }
  CHECK(teams > 0);
  CHECK(teams < 40);
}

TEST_CASE("every team that is drawn can be emitted, and all its blocks run at once") {
  for (const auto& sample : {samples::group_norm(64, 8, 8, 262144), samples::batch_standardize(32, 64, 1 << 18),
                             samples::softmax(300, 1'000'001)}) {
    INFO(sample.family);
    std::mt19937_64 rng(5);
    for (int i = 0; i < 5; ++i) {
      const auto drawn = samples::random_team_genome(sample.kernel, h200(), rng);
      REQUIRE(drawn.has_value());
      const auto emitted = emit(sample.kernel, h200(), *drawn);
      REQUIRE(emitted.has_value());
      CHECK(emitted->cooperative);
      const std::int64_t held = 132 * drawn->at("min_blocks");
      CHECK(emitted->grid[0] <= held);
      // What each block takes, with the system's 1 KB and all of it rounded up to 128 bytes.
      const ColumnPlan plan = make_column_plan(sample.kernel, h200(), *drawn);
      const std::int64_t shared = (emitted->shared + (plan.meeting_bytes + 7) / 8 * 8 + 1024 + 127) / 128 * 128;
      CHECK(drawn->at("min_blocks") * shared <= h200().shared_bytes + 1024);
      CHECK(drawn->at("min_blocks") * emitted->block[0] <= 2048);
    }
  }
}

TEST_CASE("what another thread holds is asked for once, by all: the extremes of integers too") {
  samples::Build b;
  b.k.anchor = Anchor::row;
  b.k.inner = 1;
  b.k.space.extents = {4, 512};
  const int in = b.input(DType::i64, {4, 512});
  const int x = b.load(in, b.at({{0, 512}, {1, 1}}));
  for (const ReduceKind kind : {ReduceKind::max, ReduceKind::min}) {
    Kernel kernel = b.k;
    kernel.reductions.push_back({kind, x, DType::i64, 0});
    Node result;
    result.op = Op::reduced;
    result.dtype = DType::i64;
    result.reduction = 0;
    kernel.nodes.push_back(result);
    Output output;
    output.node = static_cast<int>(kernel.nodes.size()) - 1;
    output.dtype = DType::i64;
    output.shape = {4};
    output.strides = {1};
    output.index = b.at({{0, 1}});
    output.per_row = true;
    kernel.outputs.push_back(output);
    Genome genome;
    for (const Gene& gene : genes(kernel, h200())) genome[gene.name] = gene.choices.front();
    const auto emitted = emit(kernel, h200(), genome);
    REQUIRE(emitted.has_value());
    CHECK(has(body(*emitted), kind == ReduceKind::max ? "red0 = pl_max(red0, pl_xor(red0, 16));"
                                                      : "red0 = pl_min(red0, pl_xor(red0, 16));"));
  }
}
