#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/pack.h"
#include "codegen/contraction/pack_text.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/renumbered.h"
#include "codegen/device/device_files.h"

// Packs what slides: a chunk of 8 channels at one place is 16 bytes, made by one thread; threads side by side make
// places side by side, whose elements mostly lie side by side. Where the last dim has phases, neighbours in memory are
// places of each: a thread makes those of all of them, so that what it reads is read once.
namespace planish::codegen::contraction {
namespace {

constexpr int threads_each = 256;
/// Items of a thread, at most: few blocks to launch, and few that tell others of their largest element. As many blocks
/// as fill a large device come first: a thread waits for the elements of one item before it asks for the next one's.
constexpr std::int64_t most_items = 16;
constexpr std::int64_t blocks_for_all = 1024;

/// Rows for which there are zeros: those of any tile, so that kernels of other tiles may read the same planes.
std::int64_t widest(const TilePlan& plan, const ImplicitOperand& implicit) {
  return std::max(256, tile_rows(plan, implicit.operand));
}

class ImplicitPrinter {
 public:
  ImplicitPrinter(const Kernel& kernel, const Contraction& c, const ImplicitOperand& implicit, const Im2col& columns,
                  const TilePlan& plan, bool odd)
      : kernel_(by_place(kernel, c, implicit)),
        c_(c),
        implicit_(implicit),
        plan_(plan),
        odd_(odd),
        root_{implicit.operand == Operand::a ? c.first : c.second},
        products_(is_shared(kernel, c, implicit.operand) ? 1 : c.batches),
        places_(columns.zeros(products_)),
        turns_(implicit.dims.back().stride),
        items_(places_ / turns_),
        all_(items_ + columns.strip(widest(plan, implicit))),
        items_each_(std::clamp<std::int64_t>(all_ / (threads_each * blocks_for_all), 1, most_items)),
        run_(threads_each * items_each_),
        part_bytes_(columns.places(products_, widest(plan, implicit)) * 16) {}

  Packing print(bool again) {
    PlaceWriter writer(kernel_);
    Packing packing;
    packing.inputs = writer.inputs(root_);
    packing.threads = threads_each;
    packing.blocks = (all_ + run_ - 1) / run_;
    packing.part_bytes = part_bytes_;
    packing.exponents = again ? products_ * implicit_.images : 0;
    const bool splits = parts(plan_) == 2, scaled = scales(plan_);
    static constexpr std::array<std::string_view, 1> files{"sm90/pack.cuh"};
    writer.out = place_prelude() + device_text(files);
    writer.line("// ---- kernel ----");
    values(writer);
    writer.open(
        fmt::format("extern \"C\" __global__ void __launch_bounds__({}) "
                    "planish_kernel({}unsigned char* __restrict__ out0{}{}{}) {{",
                    threads_each, writer.parameters(root_), splits ? ", unsigned char* __restrict__ out1" : "",
                    scaled || odd_ ? ", int* __restrict__ notes" : "", again ? ", int* __restrict__ exponents" : ""));
    writer.line(fmt::format("const long long first = (long long)blockIdx.x * {};", run_));
    if (again) leave_early(writer);
    if (scaled && !again) writer.line("float top = 0.0f;");
    if (scaled && !again) writer.line("int noted = -1;");
    writer.open(fmt::format("for (int i = 0; i < {}; ++i) {{", items_each_));
    writer.line(fmt::format("const long long item = first + i * {} + threadIdx.x;", threads_each));
    writer.line(fmt::format("if (item >= {}ll) break;", again ? items_ : all_));
    if (turns_ > 1) writer.line("#pragma unroll");
    if (turns_ > 1) writer.open(fmt::format("for (int turn = 0; turn < {}; ++turn) {{", turns_));
    item(writer, again);
    writer.line(splits ? "Chunk hi, lo;" : "Chunk hi;");
    print_rounding(writer, plan_, "v", again ? "f * g" : "1.0f");
    writer.line("put_chunk(out0 + place * 16, hi);");
    if (splits) writer.line("put_chunk(out1 + place * 16, lo);");
    if (turns_ > 1) writer.close();
    writer.close();
    if (scaled && !again) {
      writer.line("for (int apart = 16; apart > 0; apart /= 2) {");
      writer.line("  const int other = __shfl_xor_sync(~0u, noted, apart);");
      writer.line("  const float theirs = __shfl_xor_sync(~0u, top, apart);");
      // Whoever is of another image notes its own.
      writer.line("  if (other != noted) { note_magnitude(notes, noted, top); continue; }");
      writer.line("  top = fmaxf(top, theirs);");
      writer.line("}");
      writer.line("if (threadIdx.x % 32 == 0) note_magnitude(notes, noted, top);");
    }
    writer.close();
    packing.source = std::move(writer.out);
    return packing;
  }

 private:
  /// plane_values(): eight channels at one place of a plane; zeros where no element lies.
  void values(PlaceWriter& writer) const {
    writer.open(fmt::format("PL_DEVICE void plane_values(float (&v)[8], {}int batch, int phase, int chunk, int at) {{",
                            writer.parameters(root_)));
    writer.line("bool there = true;");
    std::int64_t later = implicit_.plane, phases = implicit_.phases;
    for (const ImplicitDim& slide : implicit_.dims) {
      later /= slide.places;
      phases /= slide.stride;
      const std::string place = fmt::format("(unsigned)at / {} % {}", later, slide.places);
      const std::string phase = fmt::format("phase / {} % {}", phases, slide.stride);
      writer.line(slide.stride == 1 ? fmt::format("const {} d{} = {};", writer.coordinate(), slide.row, place)
                                    : fmt::format("const {} d{} = ({}) * {} + {};", writer.coordinate(), slide.row,
                                                  place, slide.stride, phase));
      if (slide.places * slide.stride > slide.reach)
        writer.line(fmt::format("there = there && d{} < {};", slide.row, slide.reach));
    }
    writer.open("if (!there) {");
    writer.line("#pragma unroll");
    writer.line("for (int j = 0; j < 8; ++j) v[j] = 0.0f;");
    writer.line("return;");
    writer.close();
    for (const ImplicitDim& slide : implicit_.dims) {
      if (slide.tap >= 0) writer.line(fmt::format("const int d{} = 0;", slide.tap));
    }
    writer.decode("batch", c_.batch);
    writer.decode(fmt::format("(unsigned)at / {}", implicit_.plane), implicit_.apart);
    writer.line("#pragma unroll");
    writer.open("for (int j = 0; j < 8; ++j) {");
    const bool ragged = implicit_.channel_count % 8 != 0;
    writer.line("const int channel = chunk * 8 + j;");
    if (ragged) writer.line("v[j] = 0.0f;");
    if (ragged) writer.open(fmt::format("if (channel < {}) {{", implicit_.channel_count));
    writer.decode("channel", implicit_.channels);
    writer.nodes(root_);
    writer.line(fmt::format("v[j] = {};", writer.name(root_[0])));
    if (ragged) writer.close();
    writer.close();
    writer.close();
  }

  std::string image(const char* batch) const {
    return products_ == 1 ? fmt::format("at / {}", implicit_.plane)
                          : fmt::format("{} * {} + at / {}", batch, implicit_.images, implicit_.plane);
  }

  /// `v`, the eight values of an item, and what is needed for them.
  void item(PlaceWriter& writer, bool again) const {
    const std::int64_t positions = implicit_.positions();
    const bool scaled = scales(plan_);
    writer.line("float v[8];");
    const std::int64_t phases = implicit_.phases / turns_;
    if (!again) writer.line("long long place;");
    if (!again) writer.open(fmt::format("if (item < {}ll) {{", items_));
    writer.line(fmt::format("const int at = item % {};", positions));
    writer.line(fmt::format("const int plane = item / {};", positions));
    const std::string batch = fmt::format("plane / {}", phases * implicit_.chunks);
    const std::string phase = turns_ > 1 ? fmt::format("plane / {} % {} * {} + turn", implicit_.chunks, phases, turns_)
                                         : fmt::format("plane / {} % {}", implicit_.chunks, phases);
    const std::string values = fmt::format("plane_values(v, {}{}, {}, plane % {}, at);", writer.arguments(root_), batch,
                                           phase, implicit_.chunks);
    // The plane among those of all phases.
    writer.line(fmt::format("{}place = {} * {}ll + at;", again ? "const long long " : "",
                            turns_ > 1 ? fmt::format("(((long long)(plane / {0}) * {1} + turn) * {0} + plane % {0})",
                                                     implicit_.chunks, turns_)
                                       : "(long long)plane",
                            positions));
    if (scaled || odd_) writer.line(fmt::format("const int image = {};", image(("(" + batch + ")").c_str())));
    if (again) {
      writer.line("const float most = __int_as_float(notes[image]);");
      writer.line("if (is_safe(most)) continue;");
      writer.line("const int e = scaling_exponent(most);");
      writer.line("const float f = power_of_two(-e / 2), g = power_of_two(-e - -e / 2);");
    }
    writer.line(values);
    if (again) return;
    if (scaled) {
      writer.line("if (image != noted) note_magnitude(notes, noted, top), top = 0.0f, noted = image;");
      writer.line("#pragma unroll");
      writer.line("for (int j = 0; j < 8; ++j) top = fmaxf(top, is_finite(v[j]) ? fabsf(v[j]) : 0.0f);");
    }
    if (odd_) {
      writer.line("bool odd = false;");
      writer.line("#pragma unroll");
      writer.line("for (int j = 0; j < 8; ++j) odd = odd || !is_finite(v[j]);");
      writer.line(fmt::format("if (odd) notes[{} + image] = 1;", products_ * implicit_.images));
    }
    writer.close();
    writer.open("else {");
    if (turns_ > 1) writer.line("if (turn > 0) break;");
    writer.line(fmt::format("place = {}ll + item;", places_ - items_));
    writer.line("#pragma unroll");
    writer.line("for (int j = 0; j < 8; ++j) v[j] = 0.0f;");
    writer.close();
  }

  /// Leaves the exponents, and the kernel where nothing has to be done again.
  void leave_early(PlaceWriter& writer) const {
    writer.open(fmt::format("if (blockIdx.x == 0) for (int i = threadIdx.x; i < {}; i += {}) {{",
                            products_ * implicit_.images, threads_each));
    writer.line("const float most = __int_as_float(notes[i]);");
    writer.line("exponents[i] = is_safe(most) ? 0 : scaling_exponent(most);");
    writer.close();
    if (products_ * implicit_.images <= threads_each) {
      writer.line(fmt::format("const float most = threadIdx.x < {} ? __int_as_float(notes[threadIdx.x]) : 0.0f;",
                              products_ * implicit_.images));
      writer.line("if (!__syncthreads_or(!is_safe(most))) return;");
    }
  }

  Kernel kernel_;
  const Contraction& c_;
  const ImplicitOperand& implicit_;
  const TilePlan& plan_;
  bool odd_;
  std::vector<int> root_;
  std::int64_t products_, places_;
  std::int64_t turns_;  ///< places of an item
  std::int64_t items_;  ///< behind which come zeros
  std::int64_t all_;
  std::int64_t items_each_, run_;  ///< of a thread, and of a block
  std::int64_t part_bytes_;
};

}  // namespace

std::vector<Packing> print_implicit_packings(const Kernel& kernel, const Contraction& c,
                                             const ImplicitOperand& implicit, const Im2col& columns,
                                             const TilePlan& plan, bool odd) {
  ImplicitPrinter printer(kernel, c, implicit, columns, plan, odd);
  std::vector<Packing> out{printer.print(false)};
  if (scales(plan)) out.push_back(printer.print(true));
  for (Packing& one : out) one.source = renumbered(one.source);
  return out;
}

}  // namespace planish::codegen::contraction
