#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "codegen/emit/cpp_emit.h"
#include "codegen/emit/cpp_kind.h"
#include "codegen/emit/cpp_plan.h"
#include "codegen/emit/early_stores.h"
#include "codegen/emit/expression.h"
#include "codegen/operation.h"
#include "codegen/row_and_column.h"

namespace planish::codegen {
namespace cpp {
namespace {

std::int64_t extent(const Kernel& k, int v) {
  return k.space.extents[static_cast<std::size_t>(v)];
}

std::int64_t points(const Kernel& k) {
  return k.outer_extent() * k.inner_extent();
}

/// Bytes touched, roughly: an input never more often than the space has points.
double traffic(const Kernel& k) {
  double bytes = 0;
  const auto n = static_cast<double>(points(k));
  for (const auto& i : k.inputs) bytes += std::min(static_cast<double>(i.storage_elements), n) * size_of(i.dtype);
  for (const auto& o : k.outputs) {
    if (!o.per_part) bytes += (o.per_row ? static_cast<double>(k.outer_extent()) : n) * size_of(o.dtype);
  }
  return bytes;
}

bool turnable(const Kernel& k, const Node& n, int v, int u) {
  const auto& in = k.inputs[static_cast<std::size_t>(n.input)];
  return n.op == Op::load && n.where.empty() && !gathers(n) && (in.dtype == DType::f32 || in.dtype == DType::i32) &&
         in.dtype == n.dtype && n.index.depends_on(v) && !folded(n.index, v) && n.index.coefficient_of(v) != 1 &&
         unit_stride(n.index, u);
}

/// Cycles a point, to choose the vector variable by.
double weight(const Kernel& k, int v) {
  const bool row = k.has_rows(), column = row && v < static_cast<int>(k.space.extents.size()) - k.inner;
  const int u = tile_variable(k, v);
  double cycles = 0;
  const auto access = [&](const ir::IndexExpr& e, bool store) {
    if (!e.depends_on(v)) return store ? 1.5 : 0.02;
    return unit_stride(e, v) ? (store ? 0.15 : 0.12) : 1.3;
  };
  const auto places = printing::place(k);
  for (const auto& n : k.nodes) {
    if (n.op != Op::load) continue;
    const bool own_places = std::any_of(n.args.begin(), n.args.end(), [&](int a) {
      return (places[static_cast<std::size_t>(a)].variables >> std::min(v, 63) & 1) != 0;
    });
    cycles += own_places ? 1.3 : u >= 0 && turnable(k, n, v, u) ? 0.25 : access(n.index, false);
  }
  for (const auto& o : k.outputs)
    if ((!o.per_row && !o.per_part) || column)
      cycles += access(o.index, true) *
                (o.per_row ? 1.0 / static_cast<double>(std::max<std::int64_t>(1, k.inner_extent())) : 1.0);
  const auto e = static_cast<double>(std::max<std::int64_t>(1, extent(k, v)));
  const double lanes = 16, vectors = static_cast<double>((extent(k, v) + 15) / 16);
  cycles += 0.3 + (column ? 0.2 : 0.6) * static_cast<double>(k.scans.size());  // arithmetic
  cycles *= std::max(1.0, vectors * lanes / e);
  if (row && !column)
    cycles += (30.0 + 40.0 * static_cast<double>(k.reductions.size())) /
              static_cast<double>(std::max<std::int64_t>(1, k.inner_extent()));
  return cycles;
}

bool shares_costly_values(const Kernel& k) {
  if (!cpp_kind(k).buffers || k.reductions.empty()) return false;
  for (const auto& n : k.nodes)
    if (n.op == Op::exp || n.op == Op::erf || n.op == Op::tanh || n.op == Op::sigmoid || n.op == Op::log ||
        n.op == Op::pow || n.op == Op::sin || n.op == Op::cos)
      return true;
  return false;
}

/// Bytes at most that the columns of so many threads take (see RowColumnRoom).
std::int64_t most_room(const Kernel& k, std::int64_t threads) {
  constexpr std::int64_t longest_vector = 16;
  return column_words(k) * 16 * (threads + 1) * (k.inner_extent() + longest_vector);
}

std::vector<std::int64_t> thread_choices(const Device& device) {
  std::vector<std::int64_t> out;
  const int most = std::clamp(device.sms, 1, 256);
  for (int t = 1; t < most; t *= 2) out.push_back(t);
  out.push_back(most);
  return out;
}

}  // namespace

Kernel with_variable(Kernel kernel) {
  if (kernel.space.extents.empty() || (kernel.has_rows() && kernel.inner == 0)) {
    kernel.space.extents.push_back(1);
    if (kernel.has_rows()) kernel.inner = 1;
  }
  return kernel;
}

std::vector<int> widths(const Device& device) {
  const std::string_view a = device.arch;
  constexpr std::array<std::string_view, 13> wide = {
      "avx512",         "cascadelake",   "cooperlake",    "cannonlake", "icelake", "tigerlake", "rocketlake",
      "sapphirerapids", "emeraldrapids", "graniterapids", "znver4",     "znver5",  "x86-64-v4"};
  constexpr std::array<std::string_view, 10> medium = {"haswell", "broadwell", "skylake", "alderlake", "raptorlake",
                                                       "znver",   "x86-64-v3", "avx2",    "lunarlake", "arrowlake"};
  for (auto w : wide)
    if (a.find(w) != a.npos) return {512, 256};
  for (auto m : medium)
    if (a.find(m) != a.npos) return {256};
  return {128};
}

int tile_variable(const Kernel& kernel, int v, std::vector<int>* loads) {
  if (!cpp_kind(kernel).chunks) return -1;
  int best = -1;
  std::size_t most = 0;
  for (int u = 0; u < static_cast<int>(kernel.space.extents.size()); ++u) {
    if (u == v || extent(kernel, u) < 8) continue;
    std::vector<int> found;
    for (std::size_t i = 0; i < kernel.nodes.size(); ++i)
      if (turnable(kernel, kernel.nodes[i], v, u)) found.push_back(static_cast<int>(i));
    if (found.size() <= most) continue;
    most = found.size();
    best = u;
    if (loads) *loads = found;
  }
  return best;
}

std::vector<int> vector_variables(const Kernel& kernel) {
  std::vector<std::pair<double, int>> all;
  const int n = static_cast<int>(kernel.space.extents.size());
  const Lanes lanes = cpp_kind(kernel).lanes;
  for (int v = 0; v < n; ++v) {
    if (lanes == Lanes::neighbours && v != n - 1) continue;
    if (lanes == Lanes::rows_or_last && v != n - 1 && v >= n - kernel.inner) continue;
    bool stored = true;  // a pointwise vector must move every output
    if (!kernel.has_rows() || v >= n - kernel.inner)
      for (const auto& o : kernel.outputs) stored &= o.per_row || o.writes_places() || o.index.depends_on(v);
    else
      for (const auto& o : kernel.outputs) stored &= o.index.depends_on(v);
    if (!stored && v != n - 1) continue;
    if (extent(kernel, v) <= 1 && v != n - 1) continue;
    all.emplace_back(weight(kernel, v) * (v == n - 1 ? 0.95 : 1.0) + (stored ? 0 : 1e6), v);
  }
  std::sort(all.begin(), all.end());
  std::vector<int> out;
  for (const auto& [w, v] : all)
    if (out.size() < 3 && (out.empty() || w < 8 * all[0].first)) out.push_back(v);
  return out;
}

bool panels_fit(const Kernel& kernel, int v) {
  const int outer = static_cast<int>(kernel.space.extents.size()) - kernel.inner;
  return cpp_kind(kernel).panels && v < outer && kernel.inner_extent() >= 64 && !printing::stores_last(kernel) &&
         std::all_of(
             kernel.reductions.begin(), kernel.reductions.end(), [](const Reduction& r) { return r.phase == 0; });
}

Result<Plan> plan(const Kernel& kernel, const Device& device, const Genome& genome) {
  if (auto why = cpp_illegal(kernel, device, genome); !why.empty())
    return fail("illegal_genome", "the C++ schedule is illegal: " + why, "draw another genome");
  const auto variables = vector_variables(kernel);
  if (variables.empty())
    return fail("unsupported", "no variable of the kernel can be the vector variable",
                "give scalars a variable of extent 1");
  Plan p;
  p.bits = static_cast<int>(gene(genome, "bits", widths(device)[0]));
  p.v = static_cast<int>(gene(genome, "vary", variables[0]));
  p.threads = static_cast<int>(gene(genome, "threads", 1));
  p.unroll = static_cast<int>(gene(genome, "unroll", 1));
  p.chunk = gene(genome, "chunk", 16384);
  p.stream = gene(genome, "nt", 0) != 0;
  p.split = gene(genome, "split", 0) != 0;
  p.buffer = gene(genome, "buffer", 0) != 0;
  p.panel = gene(genome, "panel", 0);
  p.tile = static_cast<int>(gene(genome, "tile", 0));
  if (p.tile > 0) p.u = tile_variable(kernel, p.v);
  return p;
}

}  // namespace cpp

std::vector<Gene> cpp_genes(const Kernel& given, const Device& device) {
  const Kernel kernel = cpp::with_variable(given);
  std::vector<Gene> out;
  const auto w = cpp::widths(device);
  out.push_back({"bits", std::vector<std::int64_t>(w.rbegin(), w.rend())});
  const auto variables = cpp::vector_variables(kernel);
  out.push_back({"vary", std::vector<std::int64_t>(variables.begin(), variables.end())});
  out.push_back({"threads", cpp::thread_choices(device)});
  out.push_back({"unroll", {1, 2, 4}});
  if (std::any_of(kernel.outputs.begin(), kernel.outputs.end(),
                  [](const Output& o) { return o.dtype == DType::f32 && !o.per_row && !o.per_part; }))
    out.push_back({"nt", {0, 1}});
  if (cpp::cpp_kind(kernel).chunks) {
    out.push_back({"chunk", {1024, 4096, 16384, 65536, 262144}});
    if (std::any_of(variables.begin(), variables.end(), [&](int v) { return cpp::tile_variable(kernel, v) >= 0; }))
      out.push_back({"tile", {0, 32, 64, 128}});
  } else {
    out.push_back(
        {"split", cpp::cpp_kind(kernel).splits ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{0}});
    if (cpp::shares_costly_values(kernel) && kernel.inner_extent() <= cpp::kBufferElements)
      out.push_back({"buffer", {0, 1}});
    if (std::any_of(variables.begin(), variables.end(), [&](int v) { return cpp::panels_fit(kernel, v); }))
      out.push_back({"panel", {0, 256, 1024, 4096}});
  }
  return out;
}

std::string cpp_illegal(const Kernel& given, const Device& device, const Genome& genome) {
  const Kernel kernel = cpp::with_variable(given);
  const auto all = cpp_genes(kernel, device);
  for (const auto& [name, value] : genome) {
    const auto it = std::find_if(all.begin(), all.end(), [&n = name](const Gene& g) { return g.name == n; });
    if (it == all.end()) return fmt::format("this kernel has no gene `{}`", name);
    if (std::find(it->choices.begin(), it->choices.end(), value) == it->choices.end())
      return fmt::format("gene `{}` cannot be {}", name, value);
  }
  const cpp::CppKind kind = cpp::cpp_kind(kernel);
  const auto variables = cpp::vector_variables(kernel);
  if (variables.empty()) return "no variable can be the vector variable";
  const int v = static_cast<int>(gene(genome, "vary", variables[0]));
  if (gene(genome, "tile", 0) > 0 && cpp::tile_variable(kernel, v) < 0)
    return "tiles need loads that run along another variable";
  if (kind.in_order && v == static_cast<int>(kernel.space.extents.size()) - 1 && kernel.inner > 0 &&
      gene(genome, "unroll", 1) != 1)
    return "a scan takes the vectors of a row one after the other";
  if (kind.column_states && cpp::most_room(kernel, gene(genome, "threads", 1)) > cpp::kMostRowColumnBytes)
    return "the threads' columns do not fit the memory that a kernel may take";
  if (gene(genome, "split", 0) && gene(genome, "threads", 1) == 1) return "one thread has nobody to share a row with";
  const int n = static_cast<int>(kernel.space.extents.size());
  if (const std::int64_t panel = gene(genome, "panel", 0); panel > 0) {
    if (!cpp::panels_fit(kernel, v)) return "panels need columns of one phase";
    if (panel > 256 && panel >= 2 * cpp::extent(kernel, v)) return "the panel is wider than the columns";
    if (gene(genome, "split", 0) && panel * gene(genome, "threads", 1) > cpp::kSharedStates)
      return "the threads' states take too much memory";
  }
  if (gene(genome, "buffer", 0) && v != n - 1) return "row buffers need the last variable as the vector variable";
  return "";
}

std::vector<Genome> cpp_seeds(const Kernel& given, const Device& device) {
  const Kernel kernel = cpp::with_variable(given);
  const cpp::CppKind kind = cpp::cpp_kind(kernel);
  const auto variables = cpp::vector_variables(kernel);
  if (variables.empty()) return {};
  const auto genes = cpp_genes(kernel, device);
  const auto has = [&](std::string_view name) {
    return std::any_of(genes.begin(), genes.end(), [&](const Gene& g) { return g.name == name; });
  };
  const double bytes = cpp::traffic(kernel);
  int costly = 0;
  for (const auto& n : kernel.nodes) costly += info(n.op).transcendental ? 1 : 0;
  const double work = bytes + 8.0 * costly * static_cast<double>(cpp::points(kernel));
  std::int64_t threads = 1;
  for (auto t : cpp::thread_choices(device))
    if (static_cast<double>(t) * 32768 <= work) threads = t;
  const auto genes_threads = cpp::thread_choices(device);
  const auto seed = [&](int v) {
    Genome g;
    const bool row = kernel.has_rows();
    const int n = static_cast<int>(kernel.space.extents.size());
    const bool column = row && v < n - kernel.inner;
    g["bits"] = cpp::widths(device)[0];
    g["vary"] = v;
    g["threads"] = threads;
    while (kind.column_states && g["threads"] > 1 && cpp::most_room(kernel, g["threads"]) > cpp::kMostRowColumnBytes)
      g["threads"] = g["threads"] == genes_threads.back() ? genes_threads[genes_threads.size() - 2] : g["threads"] / 2;
    const std::int64_t lanes = g["bits"] / 32, ev = cpp::extent(kernel, v);
    g["unroll"] = row ? (ev >= 8 * lanes ? 4 : ev >= 2 * lanes ? 2 : 1) : costly > 0 ? 1 : 2;
    if (kind.in_order && !column) g["unroll"] = 1;
    if (column && kernel.nodes.size() > 24) g["unroll"] = 1;
    if (has("nt")) g["nt"] = bytes > static_cast<double>(device.l2_bytes);
    if (has("chunk")) {
      g["chunk"] = 262144;
      for (std::int64_t c : {65536, 16384, 4096, 1024})
        if (ev > 0 && cpp::points(kernel) / ev * ((ev + g["chunk"] - 1) / g["chunk"]) < 4 * threads) g["chunk"] = c;
    }
    if (has("tile")) g["tile"] = cpp::tile_variable(kernel, v) >= 0 ? 64 : 0;
    if (row) {
      const std::int64_t units = column ? kernel.outer_extent() / std::max<std::int64_t>(1, ev) *
                                              ((ev + lanes * g["unroll"] - 1) / (lanes * g["unroll"]))
                                        : kernel.outer_extent();
      const std::int64_t inner = kernel.inner_extent();
      g["split"] =
          kind.splits && threads > 1 &&
          ((units < threads && inner >= 4096) || (units < 4 * threads && units % threads != 0 && inner >= (1 << 18)));
      if (has("buffer")) g["buffer"] = v == n - 1;
      if (has("panel")) {
        g["panel"] = 0;
        // Whole pieces of rows stream; a few vectors a row do not.
        if (cpp::panels_fit(kernel, v) && bytes > static_cast<double>(device.l2_bytes) / 4) {
          for (const std::int64_t p : {256, 1024, 4096}) {
            if (p == 256 || p < 2 * ev) g["panel"] = p;
          }
          const std::int64_t pieces =
              kernel.outer_extent() / std::max<std::int64_t>(1, ev) * ((ev + g["panel"] - 1) / g["panel"]);
          g["split"] = threads > 1 && pieces < 4 * threads && pieces % threads != 0 &&
                       g["panel"] * threads <= cpp::kSharedStates;
        }
      }
    }
    return g;
  };
  std::vector<Genome> out;
  const auto push = [&](const Genome& g) {
    if (cpp_illegal(kernel, device, g).empty() && std::find(out.begin(), out.end(), g) == out.end()) out.push_back(g);
  };
  for (int v : variables) push(seed(v));
  const Genome best = out.empty() ? Genome{} : out[0];
  for (const auto& gene : genes) {
    if (gene.name == "vary") continue;
    for (auto c : gene.choices) {
      if (gene.name == "threads" && c != 1 && c != gene.choices.back()) continue;
      Genome g = best;
      g[gene.name] = c;
      push(g);
    }
  }
  return out;
}

}  // namespace planish::codegen
