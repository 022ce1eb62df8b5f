// The policy, the functors and the instantiation of the device file of products.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/contraction/device_product.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/emit/cuda_emit.h"

namespace planish::codegen::contraction {
namespace {

class DevicePrinter {
 public:
  DevicePrinter(const Product& product, const DeviceTiling& tiling, const DeviceGroups* groups)
      : product_(product),
        groups_(groups),
        kernel_(product.kernel),
        c_(product.c),
        output_(kernel_.outputs.front()),
        tiling_(tiling),
        writer_(kernel_),
        roots_{output_.node},
        bf16_(narrow_type(kernel_, c_) == DType::bf16) {
    writer_.fast = tiling.fast;
    writer_.narrow = size_of(output_.dtype) == 2;
  }

  DevicePrinted print() {
    DevicePrinted out;
    out.inputs = writer_.inputs(roots_);
    for (const Operand operand : {Operand::a, Operand::b}) {
      const int input = product_.direct(operand)->input;
      if (std::ranges::find(out.inputs, input) == out.inputs.end()) out.inputs.push_back(input);
    }
    if (groups_ != nullptr && std::ranges::find(out.inputs, groups_->input) == out.inputs.end())
      out.inputs.push_back(groups_->input);
    std::ranges::sort(out.inputs);
    inputs_ = out.inputs;
    line("template <typename T> PL_DEVICE T pl_ldg(const T* p) { return __ldg(p); }");
    line(fmt::format("PL_WGMMA_BOTH(pl_multiply, {}, \"{}\", {:d}, {:d})", tiling_.tile_columns, bf16_ ? "bf16" : "f16",
                     across(Operand::a), across(Operand::b)));
    policy();
    functors();
    entry();
    out.text = std::move(writer_.out);
    return out;
  }

 private:
  void line(std::string_view text) { writer_.line(text); }
  void open(std::string_view text) { writer_.open(text); }
  void close() { writer_.close(); }
  bool across(Operand operand) const { return product_.direct(operand)->carrier == Carrier::along_rows; }
  int row() const { return c_.m.front(); }
  int column() const { return c_.n.front(); }
  std::string storage(int input) const {
    return std::string(printing::storage_type(kernel_.inputs[static_cast<std::size_t>(input)].dtype));
  }

  /// Whether results from a multiple of 16 bytes on are 16 aligned bytes.
  bool words() const {
    const int unit = 16 / size_of(output_.dtype);
    return c_.columns % unit == 0 && in_units(output_.index, unit);
  }
  bool in_units(const ir::IndexExpr& index, int unit) const {
    return index.constant_term() % unit == 0 && std::ranges::all_of(index.terms(), [&](const auto& term) {
             return term.atom.variable == column() || term.coefficient % unit == 0;
           });
  }

  void policy() {
    open("struct Policy {");
    line(fmt::format("static constexpr int rows = {}, columns = {}, depth = {}, units = {}, groups = {}, parts = 1;",
                     c_.rows, c_.columns, c_.depth, c_.batches, groups_ != nullptr ? groups_->count : 0));
    line(fmt::format("static constexpr int tile_rows = {}, tile_columns = {}, consumers = {}, stages = {};",
                     tiling_.tile_rows, tiling_.tile_columns, tiling_.consumers, tiling_.stages));
    line(fmt::format("static constexpr int cluster = {}, splits = {}, raster = {}, result_bytes = {};", tiling_.cluster,
                     tiling_.splits, tiling_.raster, size_of(output_.dtype)));
    line(fmt::format("static constexpr bool ping_pong = {}, share_b = {}, a_across = {}, b_across = {}, words = {};",
                     tiling_.ping_pong, tiling_.share_b, across(Operand::a), across(Operand::b), words()));
    writer_.close_declaration();
  }

  void functors() {
    open("struct Functors {");
    for (const int i : inputs_) line(fmt::format("const {}* __restrict__ in{};", storage(i), i));
    line(fmt::format("{}* __restrict__ out0;", printing::storage_type(output_.dtype)));
    line(fmt::format(
        "PL_DEVICE void multiply(float (&d)[{}], u64 a, u64 b, int keep) const {{ pl_multiply(d, a, b, keep); }}",
        tiling_.tile_columns / 2));
    if (groups_ != nullptr)
      line(fmt::format("PL_DEVICE int group_end(int i) const {{ return (int)min(max(in{}[{}], 0), {}); }}",
                       groups_->input, end_place(), c_.rows));
    operand(Operand::a);
    operand(Operand::b);
    result();
    open("PL_DEVICE char* place(int unit, int row, int column) const {");
    coordinates("column");
    line(fmt::format("return (char*)(out0 + ({}));", writer_.place_of(output_.index)));
    close();
    writer_.close_declaration();
  }

  /// Where the end of group i lies.
  std::string end_place() const {
    std::string at = groups_->step == 1 ? "i" : fmt::format("{}ll * i", groups_->step);
    return groups_->first == 0 ? at : fmt::format("{} + {}", at, groups_->first);
  }

  /// Its map, and the copy of a box.
  void operand(Operand operand) {
    const Direct& direct = *product_.direct(operand);
    const int k = c_.k.front(), other = operand == Operand::a ? row() : column();
    const int first = across(operand) ? other : k, second = across(operand) ? k : other;
    const auto stride = [&](int v) { return direct.row.coefficient_of(v) + direct.depth.coefficient_of(v); };
    std::vector<int> dims{first, second};
    std::string places;
    for (const int v : c_.batch) {
      dims.push_back(v);
      places += fmt::format(", (int)d{}", v);
    }
    const bool is_a = operand == Operand::a, grouped = !is_a && groups_ != nullptr;
    if (grouped) places += ", unit";
    open(fmt::format("PL_DEVICE void map_{}(u32 map, {}int rows) const {{", letter(operand), is_a ? "" : "int part, "));
    line(fmt::format("tensor_map_begin<{}, {}>(map, in{} + {}ll);", dims.size() + (grouped ? 1 : 0), bf16_,
                     direct.input, direct.row.constant_term()));
    for (std::size_t d = 0; d < dims.size(); ++d) {
      line(fmt::format("tensor_map_dim<{}>(map, {}, {});", d, kernel_.space.extent(dims[d]),
                       d == 0   ? "64"
                       : d == 1 ? "rows"
                                : "1"));
      if (d > 0) line(fmt::format("tensor_map_stride<{}>(map, {}ull);", d, 2 * stride(dims[d])));
    }
    if (grouped) {
      line(fmt::format("tensor_map_dim<{}>(map, {}, 1);", dims.size(), groups_->count));
      line(fmt::format("tensor_map_stride<{}>(map, {}ull);", dims.size(), 2 * groups_->stride));
    }
    close();
    line("template <int blocks>");
    open(fmt::format("PL_DEVICE void load_{}(u32 to, const void* map, u32 barrier, int unit, int x, int y) const {{",
                     letter(operand)));
    writer_.decode("unit", c_.batch);
    line(fmt::format("if constexpr (blocks != 0) tensor_share(to, map, barrier, blocks, x, y{});", places));
    line(fmt::format("else tensor_load(to, map, barrier, x, y{});", places));
    close();
  }

  void coordinates(std::string_view at) {
    writer_.decode("unit", c_.batch);
    line(fmt::format("const {} d{} = row, d{} = {};", writer_.coordinate(), row(), column(), at));
  }

  /// Loads that neighbouring results read as aligned neighbours.
  std::vector<int> paired() const {
    std::vector<int> found;
    for (const int id : printing::closure(kernel_, roots_, [](int) { return false; })) {
      const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
      if (node.op != Op::load || gathers(node) || !node.where.empty() || !node.index.is_affine()) continue;
      const int size = size_of(kernel_.inputs[static_cast<std::size_t>(node.input)].dtype);
      if ((size == 2 || size == 4) && c_.columns % 2 == 0 && node.index.coefficient_of(column()) == 1 &&
          in_units(node.index, 2))
        found.push_back(id);
    }
    return found;
  }

  void result() {
    line("template <int words>");
    open("PL_DEVICE void result(u32 (&out)[words], int unit, int row, int column, const float (&sums)[1][2]) const {");
    coordinates("column");
    const auto pairs = paired();
    for (const int id : pairs) {
      const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
      const std::string type = storage(node.input);
      const std::string word = size_of(kernel_.inputs[static_cast<std::size_t>(node.input)].dtype) == 2 ? "u32" : "u64";
      line(fmt::format("union {{ {0} all; {1} each[2]; }} l{2} = {{pl_ldg((const {0}*)(in{3} + ({4})))}};", word, type,
                       id, node.input, writer_.place_of(node.index)));
    }
    writer_.at_hand = [&](int id) {
      const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
      if (std::ranges::find(pairs, id) == pairs.end()) return unpaired(id);
      return printing::load_form(fmt::format("l{}.each[e]", id),
                                 kernel_.inputs[static_cast<std::size_t>(node.input)].dtype);
    };
    line("float got[2];");
    line("const int first = column;");
    line("#pragma unroll");
    open("for (int e = 0; e < 2; ++e) {");
    line(fmt::format("const {} d{} = {};", writer_.coordinate(), column(),
                     c_.columns % 2 == 0 ? "first + e" : fmt::format("min(first + e, {})", c_.columns - 1)));
    line("const float folded = sums[0][e];");
    writer_.fold = "folded";
    writer_.nodes(roots_);
    line(fmt::format("got[e] = {};", writer_.name(output_.node)));
    close();
    writer_.at_hand = nullptr;
    if (output_.dtype == DType::f32)
      line("out[0] = __float_as_uint(got[0]), out[words - 1] = __float_as_uint(got[1]);");
    else
      line(fmt::format("out[0] = {}(got[0], got[1]);", output_.dtype == DType::bf16 ? "pack_bf16" : "pack_f16"));
    close();
  }

  std::string unpaired(int id) {
    const auto own = std::exchange(writer_.at_hand, nullptr);
    std::string text = writer_.load(kernel_, id);
    writer_.at_hand = own;
    return text;
  }

  void entry() {
    std::string parameters, members;
    for (const int i : inputs_) {
      parameters += fmt::format("const {}* __restrict__ in{}, ", storage(i), i);
      members += fmt::format("in{}, ", i);
    }
    const bool split = tiling_.splits > 1;
    line("// ---- kernel ----");
    open(fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}, 1) planish_kernel({}{}char* __restrict__ maps{}) {{",
        128 * (tiling_.consumers + 1), parameters, writer_.output_parameters(),
        split ? ", float* partial, u32* arrived" : ""));
    line("extern __shared__ __align__(16) unsigned char pl_smem[];");
    line(fmt::format("const Functors f{{{}out0}};", members));
    line(fmt::format("product<Policy>(f, pl_smem, maps, {});", split ? "partial, arrived" : "nullptr, nullptr"));
    close();
  }

  const Product& product_;
  const DeviceGroups* const groups_;
  const Kernel& kernel_;
  const Contraction& c_;
  const Output& output_;
  const DeviceTiling tiling_;
  PlaceWriter writer_;
  const std::vector<int> roots_;
  const bool bf16_;
  std::vector<int> inputs_;
};

}  // namespace

DevicePrinted print_device_product(const Product& product, const DeviceTiling& tiling, const DeviceGroups* groups) {
  return DevicePrinter(product, tiling, groups).print();
}

}  // namespace planish::codegen::contraction
