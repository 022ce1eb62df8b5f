#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "codegen/attention/decode.h"
#include "codegen/attention/last_keys.h"
#include "codegen/contraction/direct.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/device/device_files.h"

namespace planish::codegen {
namespace {

using contraction::PlaceWriter;

/// Keys that a block brings into the L2 cache while launches before it still run: what it will ask for first.
constexpr int most_ahead = 256;

/// Prints the policy that `sm90/decode_attention.cuh` asks for.
class DecodePrinter {
 public:
  DecodePrinter(const Kernel& kernel, const Attention& a, const Decode& d, const DecodeTiling& plan,
                const DecodeWrites& writes)
      : kernel_(kernel),
        a_(a),
        d_(d),
        plan_(plan),
        writes_(writes),
        score_(score_before_end(kernel, a)),
        writer_(kernel) {}

  DecodeText print() {
    std::vector<int> roots{score_, a_.scores.first, a_.scores.second, a_.values.second, a_.shift, a_.divisor};
    for (const Output& output : kernel_.outputs) roots.push_back(output.node);
    for (const LastKey& each : last_keys_of(kernel_, a_)) roots.push_back(each.node);
    DecodeText out;
    out.inputs = inputs_ = writer_.inputs(roots);
    const std::array<std::string_view, 1> files{"sm90/decode_attention.cuh"};
    writer_.line("// ---- policy ----");
    // Inputs may be what a launch before has written.
    writer_.line("template <typename T> PL_DEVICE T pl_ldg(const T* p) { return load_visible(p); }");
    policy();
    if (writes_.scatter != nullptr) out.written = written();
    entry(out.written);
    out.source = contraction::place_prelude() + device_text(files) + writer_.out;
    out.printed = std::move(writer_.out);
    return out;
  }

 private:
  static constexpr std::string_view at = "const Args& args, int unit";
  const Node& node(int id) const { return kernel_.nodes[static_cast<std::size_t>(id)]; }
  std::string long_of(std::int64_t n) const { return fmt::format("{}ll", n); }

  /// "static PL_DEVICE float score(const Args& args, int unit, …) {", with the pointers and coordinates that text below
  /// needs. `at`: a coordinate's name and its variables.
  void open(const std::string& head, std::span<const int> inputs,
            const std::vector<std::pair<std::string, std::vector<int>>>& places) {
    writer_.open("static PL_DEVICE " + head + " {");
    for (const int i : inputs) writer_.line(fmt::format("const auto* const in{0} = args.in{0};", i));
    for (const auto& [linear, variables] : places) {
      if (!variables.empty()) writer_.decode(linear, variables);
    }
  }

  void policy() {
    writer_.open("struct P {");
    writer_.line(fmt::format("static constexpr int units = {}, rows = {}, features = {}, columns = {}, keys = {};",
                             d_.units, d_.rows, d_.features, d_.columns, d_.length));
    writer_.line(fmt::format("static constexpr int warps = {}, stages = {}, splits = {}, tile = {};", plan_.warps,
                             plan_.stages, plan_.splits, decode_tile(d_)));
    writer_.line(fmt::format("static constexpr long long key_stride = {}, value_stride = {};", d_.keys.stride,
                             d_.values.stride));
    writer_.line(fmt::format("static constexpr SkinnyCode key_code = {}, value_code = {};", code_of(d_.keys),
                             code_of(d_.values)));
    writer_.line(fmt::format("static constexpr int key_together = {}, value_together = {};", d_.keys.together,
                             d_.values.together));
    writer_.line(fmt::format("static constexpr bool weighs = {};", d_.values.weighs()));
    writer_.line(fmt::format("static constexpr bool bf16 = {}, computed = {}, chained = {};", d_.element == DType::bf16,
                             d_.computed, plan_.chained));
    const bool looks_up = d_.keys.together > 0 || d_.values.together > 0;
    writer_.line(fmt::format("static constexpr int ahead = {};",
                             last_keys_of(kernel_, a_).empty() && !looks_up ? most_ahead : 0));
    writer_.open("struct Args {");
    for (const int i : inputs_)
      writer_.line(
          fmt::format("const {}* in{};", printing::storage_type(kernel_.inputs[static_cast<std::size_t>(i)].dtype), i));
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
      writer_.line(fmt::format("{}* out{};", printing::storage_type(kernel_.outputs[o].dtype), o));
    writer_.close_declaration();
    begin_of("key", d_.keys);
    begin_of("value", d_.values);
    end();
    query();
    score();
    softmax();
    store();
    writer_.close_declaration();
  }

  static std::string_view code_of(const KeyRows& rows) {
    switch (rows.stored) {
      case DType::i8:
        return "code_i8";
      case DType::u8:
        return "code_u8";
      case DType::f8_e4m3:
        return "code_e4m3";
      case DType::f8_e5m2:
        return "code_e5m2";
      default:
        return "code_none";
    }
  }

  void begin_of(const char* name, const KeyRows& rows) {
    const Node& load = node(rows.load);
    std::vector<int> inputs = writer_.inputs(load.args);
    if (std::ranges::find(inputs, rows.input) == inputs.end()) inputs.push_back(rows.input);
    std::vector<std::pair<std::string, std::vector<int>>> places{{"unit", a_.scores.batch}};
    if (rows.together > 0) places.emplace_back("key", a_.scores.n);
    open(fmt::format("const void* {}({}{})", rows.together > 0 ? fmt::format("{}_at", name) : name, at,
                     rows.together > 0 ? ", int key" : ""),
         inputs, places);
    writer_.nodes(load.args);
    const std::string place =
        fmt::format("in{} + ({}){}", rows.input, writer_.place_of(rows.begin), writer_.moved(load.args, load.strides));
    if (rows.together > 0)
      writer_.line(fmt::format("return {} ? {} : nullptr;", writer_.in_range(load.args, load.limits), place));
    else
      writer_.line(fmt::format("return {};", place));
    writer_.close();
  }

  /// " * v5 / v6": the scales that move with the key, or the others.
  std::string scaled(const KeyRows& rows, bool by_key) const {
    std::string out;
    for (const RowScale& scale : rows.scales)
      if (scale.by_key == by_key) out += fmt::format(" {} {}", scale.divides ? '/' : '*', writer_.name(scale.node));
    return out;
  }
  static void add_scales(const KeyRows& rows, bool by_key, std::vector<int>& to) {
    for (const RowScale& scale : rows.scales)
      if (scale.by_key == by_key) to.push_back(scale.node);
  }

  /// Names of the scatter's inputs beside the attention's.
  static std::string own_name(int input) { return fmt::format("w{}", input); }
  std::string scatter_type(int input) const {
    return std::string(printing::storage_type(writes_.scatter->inputs[static_cast<std::size_t>(input)].dtype));
  }

  /// The policy of what is written; the inputs that it reads.
  std::vector<int> written() {
    const Kernel& scatter = *writes_.scatter;
    const WrittenRows& rows = writes_.rows;
    PlaceWriter text(scatter);
    std::vector<int> roots;
    for (const Output& output : scatter.outputs) roots.insert(roots.end(), {output.node, output.args[0]});
    const std::vector<int> inputs = text.inputs(roots);
    text.open("struct W {");
    text.line(fmt::format("static constexpr int rows = {};", rows.rows));
    text.open("struct Args {");
    for (const int i : inputs) text.line(fmt::format("const {}* in{};", scatter_type(i), i));
    text.close_declaration();
    const auto function = [&](const std::string& head, int root, bool feature) {
      text.open("static PL_DEVICE " + head + " {");
      for (const int i : text.inputs(std::vector<int>{root}))
        text.line(fmt::format("const auto* const in{0} = args.in{0};", i));
      if (!rows.unit.empty()) text.decode("unit", rows.unit);
      if (!rows.row.empty()) text.decode("row", rows.row);
      if (feature) text.decode("feature", std::vector<int>{rows.along});
      text.nodes(std::vector<int>{root});
    };
    const auto of = [&](const std::string& name, const Output& output) {
      function(fmt::format("long long {}_place({}, int row)", name, at), output.args[0], false);
      text.line(fmt::format("return {};", text.name(output.args[0])));
      text.close();
      function(fmt::format("u16 {}({}, int row, int feature)", name, at), output.node, true);
      const DType dtype = scatter.nodes[static_cast<std::size_t>(output.node)].dtype;
      text.line(fmt::format("return {};", printing::store_form(text.name(output.node), dtype, output.dtype)));
      text.close();
    };
    of("key", scatter.outputs[static_cast<std::size_t>(rows.keys)]);
    of("value", scatter.outputs[static_cast<std::size_t>(rows.values)]);
    text.close_declaration();
    writer_.out += text.out;
    return inputs;
  }

  void end() {
    const std::vector<LastKey> found = last_keys_of(kernel_, a_);
    std::vector<int> roots;
    for (const LastKey& each : found) roots.push_back(each.node);
    const bool by_row = ends_move_with(kernel_, a_, a_.scores.m);
    const std::vector<int> inputs = writer_.inputs(roots);
    open(fmt::format("int end({})", at), inputs, {});
    if (found.empty()) {
      writer_.line("return keys;");
      writer_.close();
      return;
    }
    // Of all rows, the one that sees most.
    writer_.line("long long most = 0;");
    writer_.open(fmt::format("for (int row = 0; row < {}; ++row) {{", by_row ? d_.rows : 1));
    if (!a_.scores.batch.empty()) writer_.decode("unit", a_.scores.batch);
    if (by_row) writer_.decode("row", a_.scores.m);
    writer_.nodes(roots);
    writer_.line("long long all = keys;");
    for (const LastKey& each : found)
      writer_.line(fmt::format("all = min(all, (long long){} + {});", writer_.name(each.node), long_of(each.plus)));
    writer_.line("most = max(most, all);");
    writer_.close();
    writer_.line("return (int)most;");
    writer_.close();
  }

  void query() {
    const int root = a_.scores.first;
    const std::vector<int> roots{root};
    const int feature = a_.scores.k[0];
    const auto place = [&] {
      if (!a_.scores.batch.empty()) writer_.decode("unit", a_.scores.batch);
      if (!a_.scores.m.empty()) writer_.decode("row", a_.scores.m);
      writer_.decode("feature", std::vector<int>{feature});
    };
    if (d_.computed) {
      open(fmt::format("u16 element({}, int row, int feature)", at), writer_.inputs(roots), {});
      place();
      writer_.nodes(roots);
      writer_.line(fmt::format("return (u16)({0}({1}, {1}) & 0xffff);",
                               d_.element == DType::bf16 ? "pack_bf16" : "pack_f16", writer_.name(root)));
    } else {
      open(fmt::format("uint4 query({}, int row, int feature)", at), writer_.inputs(roots), {});
      place();
      const Node& load = *contraction::plain_load(kernel_, root);
      writer_.line(fmt::format("return load_visible_16(in{} + ({}));", load.input, writer_.place_of(load.index)));
    }
    writer_.close();
  }

  /// Nodes of a key's score and weight, without what their looked-up loads are made of.
  std::vector<int> around(const std::vector<int>& roots) const {
    const auto looked_up = [&](int id) { return gathers(node(id)); };
    std::vector<int> out = printing::closure(kernel_, roots, looked_up);
    std::vector<int> loads;
    std::ranges::copy_if(roots, std::back_inserter(loads), looked_up);
    for (const int id : out) std::ranges::copy_if(node(id).args, std::back_inserter(loads), looked_up);
    out.insert(out.end(), loads.begin(), loads.end());
    std::ranges::sort(out);
    out.erase(std::ranges::unique(out).begin(), out.end());
    return out;
  }

  /// Loads that say where others of these read.
  std::vector<int> looked_up_first(const std::vector<int>& loads) const {
    std::vector<int> places;
    for (const int id : loads) places.insert(places.end(), node(id).args.begin(), node(id).args.end());
    std::vector<int> out = printing::closure(kernel_, places, [](int) { return false; });
    std::erase_if(out, [&](int id) { return node(id).op != Op::load; });
    return out;
  }

  /// The values of these loads as a struct that a function of the same name fills.
  void loaded(const std::string& type, const std::string& head, const std::vector<int>& loads,
              const std::vector<std::pair<std::string, std::vector<int>>>& places) {
    writer_.open(fmt::format("struct {} {{", type));
    for (const int id : loads) writer_.line(fmt::format("{} v{};", printing::computing_type(node(id).dtype), id));
    writer_.close_declaration();
    open(fmt::format("{} {}", type, head), writer_.inputs(loads), places);
    writer_.nodes(loads);
    std::string given;
    for (const int id : loads) given += fmt::format("{}{}", given.empty() ? "" : ", ", writer_.name(id));
    writer_.line(fmt::format("return {{{}}};", given));
    writer_.close();
  }

  /// What a score reads is read ahead of it, and so is what its value is times; the rest is computed when the product
  /// is there. What is read at a looked-up place is looked up ahead of that.
  void score() {
    std::vector<int> scored{score_}, weighed;
    for (const bool by_key : {false, true}) add_scales(d_.keys, by_key, scored);
    add_scales(d_.values, true, weighed);
    std::vector<int> all = scored;
    all.insert(all.end(), weighed.begin(), weighed.end());
    std::vector<int> loads;
    for (const int id : around(all))
      if (node(id).op == Op::load) loads.push_back(id);
    const std::vector<int> first = looked_up_first(loads);
    const std::vector<std::pair<std::string, std::vector<int>>> places{
        {"unit", a_.scores.batch}, {"row", a_.scores.m}, {"key", a_.scores.n}};
    loaded("Found", fmt::format("found({}, int row, int key)", at), first, places);
    writer_.at_hand = [&](int id) {
      return std::ranges::find(first, id) == first.end() ? std::string() : fmt::format("found.v{}", id);
    };
    loaded("Given", fmt::format("given(const Found& found, {}, int row, int key)", at), loads, places);
    writer_.at_hand = [](int id) { return fmt::format("given.v{}", id); };
    open(fmt::format("float score(float product, const Given& given, {}, int row, int key)", at), {}, places);
    const std::string product = fmt::format("product{}{}", scaled(d_.keys, false), scaled(d_.keys, true));
    writer_.of_fold = [&](int) { return d_.keys.scales.empty() ? product : fmt::format("({})", product); };
    writer_.these(around(scored));
    writer_.line(fmt::format("return {};", writer_.name(score_)));
    writer_.close();
    if (d_.values.weighs()) {
      open(fmt::format("float weight(const Given& given, {}, int key)", at), {},
           {{"unit", a_.scores.batch}, {"key", a_.scores.n}});
      writer_.these(around(weighed));
      writer_.line(fmt::format("return 1.0f{};", scaled(d_.values, true)));
      writer_.close();
    }
    writer_.at_hand = nullptr;
  }

  void softmax() {
    const auto one = [&](const std::string& name, int root, std::string_view sums) {
      const std::vector<int> roots{root};
      std::vector<std::pair<std::string, std::vector<int>>> places{{"unit", a_.scores.batch}, {"row", a_.scores.m}};
      if (!writer_.has_place(root)) places.clear();
      open(fmt::format("float {}({}, int row, {})", name, at, sums), writer_.inputs(roots), places);
      writer_.nodes(roots);
      writer_.line(fmt::format("return {};", writer_.name(root)));
      writer_.close();
    };
    writer_.of_fold = [this](int r) { return std::string(r == a_.maximum ? "maximum" : "total"); };
    one("shift", a_.shift, "float maximum");
    one("divisor", a_.divisor, "float maximum, float total");
  }

  void store() {
    std::vector<int> roots;
    for (const Output& output : kernel_.outputs) roots.push_back(output.node);
    add_scales(d_.values, false, roots);
    open(fmt::format("void store({}, int row, int column, float value)", at), writer_.inputs(roots),
         {{"unit", a_.values.batch}, {"row", a_.values.m}, {"column", a_.values.n}});
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
      writer_.line(fmt::format("auto* const out{0} = args.out{0};", o));
    const std::string value = fmt::format("(value{})", scaled(d_.values, false));
    writer_.of_fold = [&](int) { return d_.values.scales.empty() ? std::string("value") : value; };
    writer_.nodes(roots);
    writer_.stores();
    writer_.close();
  }

  /// `written`: inputs of the scatter.
  void entry(const std::vector<int>& written) {
    std::string parameters, arguments, given;
    const auto add = [&](const std::string& type, const std::string& name, std::string& to) {
      parameters += fmt::format("{}{} {}", parameters.empty() ? "" : ", ", type, name);
      to += fmt::format("{}{}", to.empty() ? "" : ", ", name);
    };
    const bool writes = writes_.scatter != nullptr;
    for (const int i : inputs_) {
      const bool own = writes && (i == d_.keys.input || i == d_.values.input);
      add(fmt::format("{}{}*", own ? "" : "const ",
                      printing::storage_type(kernel_.inputs[static_cast<std::size_t>(i)].dtype)),
          fmt::format("in{}", i), arguments);
    }
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
      add(fmt::format("{}*", printing::storage_type(kernel_.outputs[o].dtype)), fmt::format("out{}", o), arguments);
    for (const int i : written) add(fmt::format("const {}*", scatter_type(i)), own_name(i), given);
    const bool splits = plan_.splits > 1;
    writer_.open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {}) planish_kernel({}{}) {{",
                             plan_.warps * 32, plan_.beside ? 2 : plan_.blocks, parameters,
                             splits ? ", float* partial, u32* arrived" : ""));
    writer_.line("extern __shared__ __align__(16) unsigned char pl_smem[];");
    writer_.line(fmt::format("const P::Args args{{{}}};", arguments));
    if (writes) writer_.line(fmt::format("const W::Args writes{{{}}};", given));
    writer_.line(fmt::format("decode_attention<P{}>(args, {}, {}, pl_smem);",
                             writes          ? fmt::format(", W, {}", writes_.early)
                             : writes_.early ? ", NoneWritten, true"
                                             : "",
                             writes ? "writes" : "NoneWritten::Args()",
                             splits ? "partial, arrived" : "nullptr, nullptr"));
    writer_.close();
  }

  const Kernel& kernel_;
  const Attention& a_;
  const Decode& d_;
  const DecodeTiling plan_;
  const DecodeWrites& writes_;
  const int score_;  ///< of keys before the end
  PlaceWriter writer_;
  std::vector<int> inputs_;
};

}  // namespace

DecodeText print_decode(const Kernel& kernel, const Attention& attention, const Decode& decode,
                        const DecodeTiling& plan, const DecodeWrites& writes) {
  return DecodePrinter(kernel, attention, decode, plan, writes).print();
}

std::vector<int> inputs_of_keys(const Kernel& kernel, const Attention& attention, const Decode& decode) {
  std::vector<int> roots;
  for (const LastKey& each : last_keys_of(kernel, attention)) roots.push_back(each.node);
  for (const KeyRows* rows : {&decode.keys, &decode.values}) {
    const Node& load = kernel.nodes[static_cast<std::size_t>(rows->load)];
    roots.insert(roots.end(), load.args.begin(), load.args.end());
  }
  std::vector<int> out = PlaceWriter(kernel).inputs(roots);
  for (const int input : {decode.keys.input, decode.values.input})
    if (std::ranges::find(out, input) == out.end()) out.push_back(input);
  return out;
}

}  // namespace planish::codegen
