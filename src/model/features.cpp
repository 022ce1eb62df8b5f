#include "model/features.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/named_values.h"
#include "codegen/earlier_names.h"
#include "codegen/node_text.h"
#include "codegen/operation.h"
#include "codegen/templates/template.h"

namespace planish::model {
namespace {

double log2_of(double value) {
  return std::log2(std::max(value, 1e-6));
}

/// Genes are mostly powers of two; 0 means "not used" and lies below 1.
double gene_feature(std::int64_t value) {
  return value > 0 ? std::log2(static_cast<double>(value)) : -1.0;
}

int widest(const codegen::Kernel& kernel) {
  int bytes = 1;
  for (const auto& input : kernel.inputs) bytes = std::max(bytes, size_of(input.dtype));
  for (const auto& output : kernel.outputs) bytes = std::max(bytes, size_of(output.dtype));
  return bytes;
}

bool structural(codegen::Op op) {
  // What a scan gives is told apart from what a row folds.
  return op == codegen::Op::cast ||
         (codegen::info(op).cost == codegen::OperationCost::free && op != codegen::Op::scanned);
}

std::string kinds_of(const codegen::Kernel& kernel) {
  std::set<std::string> kinds;
  for (const auto& node : kernel.nodes) {
    if (!structural(node.op)) kinds.emplace(codegen::info(node.op).name);
  }
  for (const auto& reduction : kernel.reductions)
    kinds.insert(fmt::format("reduce_{}", codegen::info(reduction.kind).name));
  return fmt::format("{}", fmt::join(kinds, " "));
}

DType widest_dtype(const codegen::Kernel& kernel) {
  DType found = DType::f32;
  int bytes = 0;
  const auto look = [&](DType dtype) {
    if (size_of(dtype) > bytes) {
      bytes = size_of(dtype);
      found = dtype;
    }
  };
  for (const auto& output : kernel.outputs) look(output.dtype);
  for (const auto& input : kernel.inputs) look(input.dtype);
  return found;
}

Features facts_of(const codegen::Kernel& kernel) {
  Features f;
  const codegen::Cost cost = codegen::cost(kernel);
  const auto outer = static_cast<double>(kernel.outer_extent()), inner = static_cast<double>(kernel.inner_extent());
  f["k.row"] = kernel.has_rows() ? 1 : 0;
  f["k.scans"] = static_cast<double>(kernel.scans.size());
  f["k.log_outer"] = log2_of(outer);
  f["k.log_inner"] = log2_of(inner);
  f["k.log_points"] = log2_of(outer * inner);
  f["k.log_bytes"] = log2_of(cost.bytes);
  f["k.log_flops_per_byte"] = log2_of(cost.flops / std::max(cost.bytes, 1.0));
  f["k.inputs"] = static_cast<double>(kernel.inputs.size());
  f["k.outputs"] = static_cast<double>(kernel.outputs.size());
  f["k.widest"] = widest(kernel);
  int narrow = 16;
  for (const auto& input : kernel.inputs) narrow = std::min(narrow, std::max(1, size_of(input.dtype)));
  f["k.narrowest"] = narrow;
  f["k.reductions"] = static_cast<double>(kernel.reductions.size());
  int phases = 0;
  for (const auto& reduction : kernel.reductions) phases = std::max(phases, reduction.phase + 1);
  f["k.phases"] = phases;
  double heavy = 0, loads = 0, masked = 0, strided = 0, still = 0, gathered = 0;
  const int last = static_cast<int>(kernel.space.extents.size()) - 1;
  for (const auto& node : kernel.nodes) {
    if (codegen::info(node.op).transcendental) ++heavy;
    if (node.op != codegen::Op::load) continue;
    ++loads;
    if (!node.where.empty()) ++masked;
    if (codegen::gathers(node)) ++gathered;
    if (last >= 0 && !node.index.depends_on(last)) {
      ++still;
    } else if (last >= 0 && node.index.coefficient_of(last) != 1) {
      ++strided;
    }
  }
  f["k.costly"] = heavy;
  f["k.loads"] = loads;
  f["k.masked_loads"] = masked;
  f["k.strided_loads"] = strided;
  f["k.still_loads"] = still;
  f["k.gathered_loads"] = gathered;
  double per_row = 0;
  for (const auto& output : kernel.outputs) per_row += output.per_row ? 1 : 0;
  f["k.per_row_outputs"] = per_row;
  f["k.log_nodes"] = log2_of(static_cast<double>(kernel.nodes.size()));
  int aligned = 0;  // powers of two in the length of a row
  const std::int64_t length = kernel.has_rows() ? kernel.inner_extent() : kernel.outer_extent() * kernel.inner_extent();
  while (aligned < 6 && length > 0 && length % (std::int64_t{2} << aligned) == 0) ++aligned;
  f["k.aligned"] = aligned;
  return f;
}

}  // namespace

std::string text(const Features& features) {
  return named_values_text(features);
}

Result<Features> features_from_text(std::string_view text) {
  PLANISH_TRY(Features out, named_values_from_text<Features>(text, "bad_features"));
  for (auto it = out.lower_bound("g."); it != out.end() && it->first.starts_with("g.");) {
    const auto at = it++;
    const std::string_view stored = std::string_view(at->first).substr(2), present = codegen::present_gene_name(stored);
    if (present == stored) continue;
    auto renamed = out.extract(at);
    renamed.key() = fmt::format("g.{}", present);
    out.insert(std::move(renamed));
  }
  return out;
}

KernelClass classify(const codegen::Kernel& kernel) {
  KernelClass out;
  out.pattern = codegen::info(kernel.anchor).name;
  out.kinds = kinds_of(kernel);
  const auto rounded = [](std::int64_t n) { return std::lround(log2_of(static_cast<double>(n))); };
  out.bucket = fmt::format("{} o{} i{}", name(widest_dtype(kernel)), rounded(kernel.outer_extent()),
                           rounded(kernel.inner_extent()));
  out.facts = facts_of(kernel);
  return out;
}

Featurizer::Subject::~Subject() = default;

Featurizer::Featurizer(codegen::Kernel kernel, codegen::Device device) : class_(classify(kernel)) {
  bytes_ = codegen::cost(kernel).bytes;
  points_ = static_cast<double>(kernel.outer_extent()) * static_cast<double>(kernel.inner_extent());
  auto subject = std::make_shared<Subject>(std::move(kernel), std::move(device), nullptr);
  subject->schedule = codegen::schedule_of(subject->kernel, subject->device);
  subject_ = std::move(subject);
}

const std::array<std::string_view, Featurizer::derived>& Featurizer::derived_names() {
  static constexpr std::array<std::string_view, derived> names{
      "d.log_cached",  "d.log_bytes_a_thread", "d.log_points_a_thread", "d.log_chunks_a_thread",
      "d.log_vectors", "d.vary_is_last",       "d.registers",           "d.log_shared",
      "d.log_blocks",  "d.log_trips",          "d.log_flight",          "d.resident_threads",
      "d.log_waves",   "d.last_wave"};
  return names;
}

std::array<double, Featurizer::derived> Featurizer::derive(const codegen::Genome& genome) const {
  std::array<double, derived> out;
  out.fill(unknown);
  auto& [cached, bytes_each, points_each, chunks_each, vectors, vary_is_last, registers, shared_bytes, blocks, trips,
         flight, resident_threads, log_waves, last_wave] = out;
  const codegen::Device& device = subject_->device;
  cached = log2_of(bytes_ / static_cast<double>(std::max<std::int64_t>(1, device.l2_bytes)));
  // What a schedule leaves unknown stays so.
  const codegen::Outline plan = subject_->schedule->outline(genome);
  const auto logarithm = [](double value) { return std::isnan(value) ? unknown : log2_of(value); };
  if (device.target->on_host) {
    bytes_each = log2_of(bytes_ / plan.threads);
    points_each = log2_of(points_ / plan.threads);
    chunks_each = logarithm(plan.chunks);
    vectors = logarithm(plan.vectors);
    vary_is_last = plan.vary_is_last;
    return out;
  }
  registers = plan.registers;
  shared_bytes = logarithm(1.0 + plan.shared_bytes);
  blocks = logarithm(plan.blocks);
  trips = logarithm(plan.trips);
  flight = logarithm(plan.flight_bytes);
  // Blocks that fit at once, by registers, threads and shared memory: the waves follow.
  if (std::isnan(plan.threads) || std::isnan(plan.blocks)) return out;
  const double rounded = std::ceil(plan.registers / 8) * 8;  // as they are handed out
  const double by_registers = std::isnan(plan.registers) ? 32.0 : 65536.0 / (std::max(24.0, rounded) * plan.threads);
  const double shared = (std::isnan(plan.shared_bytes) ? 0 : plan.shared_bytes) + 1024;
  const double resident = std::max(1.0, std::floor(std::min({32.0, 2048 / plan.threads, by_registers,
                                                             static_cast<double>(device.shared_bytes) / shared})));
  resident_threads = resident * plan.threads;
  const double waves = plan.blocks / (resident * std::max(1, device.sms));
  log_waves = log2_of(waves);
  last_wave = waves / std::ceil(std::max(waves, 1e-6));
  return out;
}

Features Featurizer::of(const codegen::Genome& genome) const {
  Features out;
  for (const auto& [name, value] : genome) out["g." + name] = gene_feature(value);
  const auto values = derive(genome);
  for (std::size_t i = 0; i < derived; ++i) {
    if (!std::isnan(values[i])) out.emplace(derived_names()[i], values[i]);
  }
  return out;
}

Describer::Describer(std::shared_ptr<const Featurizer> features)
    : features_(std::move(features)), all_(features_->kernel_class().facts) {}

const Features& Describer::of(const codegen::Genome& genome, const std::array<double, Featurizer::derived>& derived) {
  if (derived_.empty()) {
    for (const auto& [name, value] : genome) genes_.push_back(&all_["g." + name]);
    for (const std::string_view name : Featurizer::derived_names())
      derived_.push_back(&all_.emplace(name, Featurizer::unknown).first->second);
  }
  std::size_t at = 0;
  for (const auto& [name, value] : genome) *genes_[at++] = gene_feature(value);
  for (std::size_t i = 0; i < derived.size(); ++i) *derived_[i] = derived[i];
  return all_;
}

}  // namespace planish::model
