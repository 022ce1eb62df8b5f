// Loads that lie beside each other: what a vector's lanes read of them together.
#include "codegen/emit/cuda_strip.h"

#include <doctest/doctest.h>

#include "codegen/devices.h"
#include "codegen/emit/cuda_emit.h"
#include "sample_kernels.h"

using namespace planish;
using namespace planish::codegen;
using namespace planish::codegen::printing;

namespace {

/// y[r, c] = Σ x[r, stride·c + k·dilation − padding] over `taps` taps; zeros outside of the `extent` columns of x.
Kernel window(DType dtype, std::int64_t extent, int taps, std::int64_t stride, std::int64_t dilation,
              std::int64_t padding) {
  samples::Build b;
  const std::int64_t out = (extent + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
  b.k.space.extents = {8, out};
  const int in = b.input(dtype, {8, extent});
  int sum = -1;
  for (int k = 0; k < taps; ++k) {
    const std::int64_t shift = k * dilation - padding;
    std::vector<ir::Bound> where{{b.at({{1, stride}}, shift), 0, extent}};
    const auto [lo, hi] = where[0].e.range(b.k.space);
    if (lo >= 0 && hi < extent) where.clear();
    int tap = b.load(in, b.at({{0, extent}, {1, stride}}, shift), where);
    if (dtype != DType::f32) tap = b.op(Op::cast, {tap});
    sum = sum < 0 ? tap : b.op(Op::add, {sum, tap});
  }
  Output output;
  output.node = sum;
  output.dtype = dtype;
  output.shape = {8, out};
  output.strides = {out, 1};
  output.index = b.at({{0, out}, {1, 1}});
  b.k.outputs.push_back(output);
  return b.k;
}

std::vector<Strip> strips(const Kernel& kernel, int width) {
  std::vector<int> loads;
  for (int i = 0; i < static_cast<int>(kernel.nodes.size()); ++i) {
    if (kernel.nodes[static_cast<std::size_t>(i)].op == Op::load) loads.push_back(i);
  }
  Lanes lanes;
  lanes.width = width;
  lanes.variable = 1;
  return find_strips(kernel, lanes, loads);
}

std::string source(const Kernel& kernel, const Genome& changes) {
  Genome genome;
  for (const Gene& gene : genes(kernel, h200())) genome[gene.name] = gene.choices.front();
  for (const auto& [name, value] : changes) genome[name] = value;
  const auto emitted = emit(kernel, h200(), genome);
  REQUIRE_MESSAGE(emitted.has_value(), (emitted ? "" : emitted.error().message));
  return emitted->source.substr(emitted->source.find("planish_kernel"));
}

}  // namespace

TEST_CASE("three taps over four lanes are three aligned units; the outer ones may be padding") {
  const auto found = strips(window(DType::f32, 64, 3, 1, 1, 1), 4);
  REQUIRE(found.size() == 1);
  CHECK(found[0].unit == 4);
  CHECK(found[0].units == 3);
  CHECK(found[0].before == 3);
  CHECK(found[0].shift == std::vector<std::int64_t>{3, 4, 5});
  REQUIRE(found[0].along.has_value());
  CHECK(found[0].along->hi == 64);
}

TEST_CASE("lanes two elements apart take every second element of one strip") {
  const auto found = strips(window(DType::f32, 64, 3, 2, 1, 1), 4);
  REQUIRE(found.size() == 1);
  CHECK(found[0].slope == 2);
  CHECK(found[0].units == 3);
}

TEST_CASE("where a unit could lie half in the padding, or past the end, units are smaller") {
  // 66 columns: rows begin at every second element of a unit of four.
  CHECK(strips(window(DType::f32, 66, 3, 1, 1, 1), 2)[0].unit == 2);
  // The last row's last elements are read without padding: whole units must end inside the input.
  CHECK(strips(window(DType::f32, 63, 4, 1, 1, 0), 4)[0].unit == 1);
}

TEST_CASE("taps far apart are no strip, and one lane needs none") {
  CHECK(strips(window(DType::f32, 256, 2, 1, 100, 0), 4).empty());
  CHECK(strips(window(DType::f32, 64, 3, 1, 1, 1), 1).empty());
}

TEST_CASE("what is set aside for a strip can be aligned") {
  // Seven elements of two bytes, unit 1: 14 bytes would be aligned to 14.
  const auto found = strips(window(DType::bf16, 67, 4, 1, 1, 3), 2);
  REQUIRE(found.size() == 1);
  CHECK(found[0].length() < 8);
  const int room = found[0].room(2) * 2;
  CHECK((room & (room - 1)) == 0);
  CHECK(found[0].room(2) >= found[0].length());
}

TEST_CASE("strips are loaded in front and picked from in the lanes; without the gene, taps are loads") {
  const Kernel kernel = window(DType::f32, 64, 3, 1, 1, 1);
  const std::string with = source(kernel, {{"vector", 16}, {"stencil_reuse", 1}});
  CHECK(with.find("PlVec<float, 12> s0[1];") != std::string::npos);
  CHECK(with.find("pl_load_unit<4>") != std::string::npos);
  CHECK(with.find("s0[u].x[5 + j * 1]") != std::string::npos);
  CHECK(source(kernel, {{"vector", 16}, {"stencil_reuse", 0}}).find("pl_load_unit") == std::string::npos);
  Genome narrow;
  for (const Gene& gene : genes(kernel, h200())) narrow[gene.name] = gene.choices.front();
  narrow["stencil_reuse"] = 1;
  CHECK(illegal(kernel, h200(), narrow).find("beside") != std::string::npos);
}
