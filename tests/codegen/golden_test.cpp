#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "activation_samples.h"
#include "attention_samples.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/device/device_files.h"
#include "codegen/eight_bit_samples.h"
#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/cuda_math.h"
#include "codegen/emit/expression.h"
#include "codegen/genome.h"
#include "codegen/grouped_samples.h"
#include "codegen/integer_samples.h"
#include "codegen/packed_samples.h"
#include "codegen/paged_samples.h"
#include "codegen/templates/template.h"
#include "column_samples.h"
#include "contraction_samples.h"
#include "devices.h"
#include "early_samples.h"
#include "gather_samples.h"
#include "order_samples.h"
#include "recurrence_samples.h"
#include "row_and_column_samples.h"
#include "sample_kernels.h"
#include "scan_samples.h"
#include "segment_samples.h"
#include "window_samples.h"

/// Golden sources: what code generation prints for one kernel of each kind, target and class of dtypes, as files under
/// tests/golden, so that a change of code generation is seen in its own diff. `make golden` accepts what is printed
/// now.
namespace planish::codegen {
namespace {

namespace fs = std::filesystem;

const fs::path folder = fs::path(PLANISH_SOURCE_DIR) / "tests" / "golden";

struct Golden {
  std::string name;  ///< of the file, from the folder
  std::string text;
};

bool is_device_file(const std::string& name) {
  return name.starts_with("device/");
}

/// The texts that kernels begin with and share. A golden kernel names them, since each is a golden file of its own.
std::vector<std::pair<std::string, std::string>> shared_texts() {
  std::vector<std::pair<std::string, std::string>> all{
      {"shared/place_prelude.cu", contraction::place_prelude()},
      {"shared/expression_prelude_cuda.cu", std::string(printing::prelude(true))},
      {"shared/expression_prelude_cpp.cpp.txt", std::string(printing::prelude(false))},
      {"shared/cuda_memory_prelude.cu", std::string(printing::cuda_memory_prelude())},
      {"shared/math_prelude.cu", std::string(printing::math_prelude())},
  };
  // Device files are golden where they lie: the longest part of each that no file is included into.
  for (const DeviceFile& file : device_files()) {
    std::string longest, part;
    std::istringstream lines{std::string(file.text)};
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("#pragma once") || line.starts_with("#include \"")) {
        part.clear();
        continue;
      }
      part += line + "\n";
      if (part.size() > longest.size()) longest = part;
    }
    all.emplace_back(fmt::format("device/{}", file.name), std::move(longest));
  }
  // Longer ones first, since one may hold another.
  std::ranges::sort(all, [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  return all;
}

std::string without_shared(std::string text) {
  for (const auto& [name, shared] : shared_texts()) {
    if (const auto at = text.find(shared); at != text.npos)
      text.replace(at, shared.size(),
                   fmt::format("// ---- {}{} ----\n", is_device_file(name) ? "src/codegen/" : "tests/golden/", name));
  }
  return text;
}

std::string_view kind_name(Emitted::Argument::Kind kind) {
  using Kind = Emitted::Argument::Kind;
  return kind == Kind::input ? "input" : kind == Kind::output ? "output" : kind == Kind::scratch ? "scratch" : "scalar";
}

std::string extent(const std::int64_t (&e)[3]) {
  return fmt::format("{}x{}x{}", e[0], e[1], e[2]);
}

std::string launch_text(const Emitted& one) {
  const std::string_view comment = one.language == "triton" ? "#" : "//";
  std::string args;
  for (const auto& arg : one.args) args += fmt::format(" {}{}", kind_name(arg.kind), arg.index);
  std::string text = fmt::format("{} launch: grid {} block {} cluster {} shared {}{}{}\n{} arguments:{}\n", comment,
                                 extent(one.grid), extent(one.block), extent(one.cluster), one.shared,
                                 one.cooperative ? " cooperative" : "", one.packs ? " packs" : "", comment, args);
  if (one.library) return text + fmt::format("{} operator: {}\n", comment, one.library->op);
  text += without_shared(one.source);
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

Golden golden(const std::string& set, std::string name, const Kernel& kernel, const Device& device,
              const Genome& genome) {
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  const auto emitted = emit(kernel, device, genome);
  const std::string genes = text(genome);
  if (!emitted) return {fmt::format("{}/{}.error.txt", set, name), genes + "\n" + emitted.error().message + "\n"};
  const std::string comment = emitted->language == "triton" ? "#" : "//";
  std::string body = fmt::format("{} genome: {}\n", comment, genes) + launch_text(*emitted);
  for (const Emitted& next : emitted->after) body += "\n" + launch_text(next);
  const std::string extension = emitted->language == "cuda" ? "cu" : emitted->language == "cpp" ? "cpp.txt" : "py.txt";
  return {fmt::format("{}/{}.{}", set, name, extension), std::move(body)};
}

/// "f32", "bf16", … of the first input, which tells classes of dtypes apart.
std::string dtype_name(const Kernel& kernel) {
  return kernel.inputs.empty() ? "none" : std::string(planish::name(kernel.inputs.front().dtype));
}

Device processor() {
  Device device;
  device.target = &backend::cpu();
  device.arch = "haswell";
  device.sms = 4;
  return device;
}

/// Collects golden kernels: of each name and dtype the first sample.
class Collection {
 public:
  void add(const std::string& set, const std::string& name, const Kernel& kernel, const Device& device,
           bool triton = false) {
    if (!seen_.insert(set + "/" + name + "/" + dtype_name(kernel)).second) return;
    for (const Genome& genome : seeds(kernel, device)) {
      const bool is_triton = genome.contains("language") && genome.at("language") == 1;
      if (is_triton != triton) continue;
      all.push_back(golden(set, name + "_" + dtype_name(kernel), kernel, device, genome));
      return;
    }
  }

  std::vector<Golden> all;

 private:
  std::set<std::string> seen_;
};

std::vector<Golden> golden_sources() {
  Collection out;
  Device with_triton = h200();
  with_triton.triton = true;
  const auto streaming = [&](const std::string& set, const std::vector<samples::Sample>& some, std::size_t most) {
    std::map<std::string, int> families;
    for (const auto& sample : some) {
      if (families[sample.family]++ > 0) continue;
      if (families.size() > most) break;
      out.add(set, sample.family, sample.kernel, h200());
      if (families.size() > 2) continue;
      out.add(set, sample.family + "_triton", sample.kernel, with_triton, true);
      out.add(set, sample.family + "_cpu", sample.kernel, processor());
    }
  };
  streaming("streaming", samples::small_samples(), 6);
  streaming("row", samples::row_samples(), 2);
  streaming("gather", samples::gather_samples(), 2);
  streaming("activation", samples::activation_samples(), 2);
  streaming("column", samples::column_samples(), 2);
  streaming("scan", samples::scan_samples(), 2);
  streaming("window", samples::window_samples(), 2);
  streaming("row_and_column", samples::cross_samples(), 2);
  streaming("early", samples::early_samples(), 1);
  streaming("segments", samples::parts_samples(), 1);
  const auto products = [&](const std::string& set, const std::vector<samples::ContractionSample>& some,
                            std::size_t most) {
    std::map<std::string, int> names;
    for (const auto& sample : some) {
      if (names[sample.name + dtype_name(sample.kernel)]++ > 0) continue;
      if (names.size() > most) break;
      out.add(set, sample.name, sample.kernel, h200());
    }
  };
  products("contraction", samples::contraction_samples(false), 6);
  products("convolution", samples::convolution_samples(false), 2);
  products("channels_last", samples::channels_last_samples(false), 1);
  samples::Convolved image{
      .x = {2, 320, 64, 64}, .w = {320, 320, 3, 3}, .padding = 1, .residual = true, .dtype = DType::bf16};
  image.last = "images";
  out.add("channels_last", "packed_by_taps", samples::conv_sample(image).kernel, h200());
  image.last = "input";
  out.add("channels_last", "along_places", samples::conv_sample(image).kernel, h200());
  products("transposed", samples::transposed_samples(false), 1);
  products("pooled", samples::pooled_samples(false), 1);
  products("folded", samples::folded_samples(false), 1);
  products("spread", samples::spread_samples(false), 1);
  products("attention", samples::attention_samples(false), 2);
  products("attention", samples::half_attention_samples(false), 2);
  const DType half = DType::bf16;
  out.add("product", "linear_gelu", samples::linear_sample(2048, 4096, 1024, half).kernel, h200());
  for (const samples::Scales scales : {samples::Scales::rows, samples::Scales::blocks}) {
    const auto sample = samples::eight_bit_sample({.m = 2048, .n = 4096, .k = 4096, .scales = scales});
    out.add("product", sample.name, sample.kernel, h200());
  }
  for (const samples::OfSums of : {samples::OfSums::rows, samples::OfSums::sums}) {
    const auto sample = samples::integer_sample({.m = 2048, .n = 4096, .k = 4096, .of = of});
    out.add("product", sample.name, sample.kernel, h200());
  }
  const samples::ScaledGroups groups{.rows = 4096, .depth = 2048, .columns = 4096, .groups = 32};
  out.add("product", "scaled_grouped_mm", samples::scaled_groups_sample(groups).kernel, h200());
  out.add("product", "linear_squares", samples::squares_sample(4096, 3072, 3072, 128).kernel, h200());
  out.add("window", "interleaved", samples::interleaved(4608, 512, 24, 64).kernel, h200());
  out.add("skinny", "linear_gelu", samples::linear_sample(4, 2048, 2048, half).kernel, h200());
  out.add("product", "linear_gelu_sm80", samples::linear_sample(2048, 4096, 1024, half).kernel, older("sm_80"));
  samples::Heads causal{.heads = 8, .keyed = 2, .queries = 512, .keys = 512, .features = 128, .dtype = half};
  causal.causal = true;
  const samples::Packed packed{
      .queries = std::vector<int>(16, 512), .heads = 32, .shared = 8, .features = 128, .columns = 128, .right = 0};
  out.add("attention", "packed", *samples::packed_kernel(packed), h200());
  const samples::Paged paged{.queries = 256,
                             .heads = 32,
                             .shared = 8,
                             .page = 16,
                             .pages = 80,
                             .features = 128,
                             .columns = 128,
                             .wide = false};
  out.add("attention", "paged", *samples::paged_kernel(samples::paged_graph(paged)), h200());
  out.add("attention", "causal_sm80", samples::attention_sample(causal).kernel, older("sm_80"));
  out.add("product", "bmm_sm86", samples::heads_sample(8, 12, 512, 64, half).kernel, older("sm_86"));
  out.add("skinny", "linear_gelu_sm80", samples::linear_sample(4, 2048, 2048, half).kernel, older("sm_80"));
  const samples::Heads one_token{.heads = 8, .keyed = 2, .queries = 1, .keys = 2048, .features = 128, .dtype = half};
  out.add("decode_attention", "grouped", samples::attention_sample(one_token).kernel, h200());
  out.add("decode_attention", "grouped_sm80", samples::attention_sample(one_token).kernel, older("sm_80"));
  const samples::OrderCase router{.rows = 64, .length = 128, .ranks = 8, .softmax = true},
      sampling{.rows = 2, .length = 151936, .ranks = 50}, vocabulary{.rows = 8, .length = 4096, .ranks = 4096};
  for (const auto& [name, order] : {std::pair{"router", router}, {"sampling", sampling}, {"sort", vocabulary}}) {
    const auto kernel = samples::order_kernel(order);
    out.add("order", name, *kernel, h200());
    out.add("order", fmt::format("{}_cpu", name), *kernel, processor());
  }
  out.add("recurrence", "lstm", samples::recurrence_sample(), h200());
  for (const auto& [name, shared] : shared_texts()) {
    if (!is_device_file(name)) out.all.push_back({name, shared});
  }
  return std::move(out.all);
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Both texts' first line that differs, numbered.
std::string first_difference(const std::string& accepted, const std::string& now) {
  std::istringstream a(accepted), b(now);
  std::string before, after;
  for (int number = 1;; ++number) {
    const bool more_a = static_cast<bool>(std::getline(a, before)), more_b = static_cast<bool>(std::getline(b, after));
    if (!more_a && !more_b) return "they differ in line ends";
    if (!more_a) before = "(the end)";
    if (!more_b) after = "(the end)";
    if (before != after) return fmt::format("line {}\n  accepted: {}\n  now:      {}", number, before, after);
  }
}

TEST_CASE("golden sources: what is emitted is what was accepted") {
  const bool accept = std::getenv("PLANISH_ACCEPT_GOLDEN") != nullptr;
  const std::vector<Golden> now = golden_sources();
  CHECK(now.size() >= 60);
  std::set<fs::path> names;
  for (const Golden& each : now) {
    const fs::path path = folder / each.name;
    CHECK_MESSAGE(names.insert(path).second, "two golden sources have the name " << each.name);
    if (accept) {
      fs::create_directories(path.parent_path());
      if (!fs::exists(path) || read(path) != each.text) std::ofstream(path, std::ios::binary) << each.text;
    } else if (!fs::exists(path)) {
      FAIL_CHECK(each.name << " is new; `make golden` accepts it");
    } else if (const std::string accepted = read(path); accepted != each.text) {
      FAIL_CHECK(each.name << " is emitted otherwise than accepted: " << first_difference(accepted, each.text)
                           << "\n`make golden` accepts what is emitted now; look at its diff");
    }
  }
  if (!fs::exists(folder)) return;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().extension() == ".md" || names.contains(entry.path())) continue;
    if (accept)
      fs::remove(entry.path());
    else
      FAIL_CHECK(fs::relative(entry.path(), folder).string() << " is no longer emitted; `make golden` removes it");
  }
}

}  // namespace
}  // namespace planish::codegen
