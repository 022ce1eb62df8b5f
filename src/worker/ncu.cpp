#include "worker/ncu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

namespace planish::worker {
namespace {

namespace fs = std::filesystem;

/// ncu's names change little from one GPU to the next; ours not at all. What the words of verdicts need, and no more:
/// every metric may cost another pass over the kernel.
struct Metric {
  std::string_view name, ncu, unit;
};
constexpr std::array metrics{
    Metric{"time", "gpu__time_duration.sum", "ns"},
    Metric{"sm_throughput", "sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"},
    Metric{"memory_throughput", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "%"},
    Metric{"dram_throughput", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%"},
    Metric{"dram_read", "dram__bytes_read.sum", "bytes"},
    Metric{"dram_write", "dram__bytes_write.sum", "bytes"},
    Metric{"l1_hit_rate", "l1tex__t_sector_hit_rate.pct", "%"},
    Metric{"l2_hit_rate", "lts__t_sector_hit_rate.pct", "%"},
    Metric{"warps_active", "sm__warps_active.avg.pct_of_peak_sustained_active", "%"},
    Metric{"issue_active", "smsp__issue_active.avg.pct_of_peak_sustained_active", "%"},
    Metric{"instructions", "smsp__inst_executed.sum", ""},
    Metric{"tensor_active", "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", "%"},
    Metric{"shared_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", ""},
    Metric{"stall_memory", "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", ""},
    Metric{"stall_barrier", "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", ""},
};

std::unexpected<Error> no_counters(std::string what) {
  return fail("no_counters", std::move(what));
}

bool can_run(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

/// The fields of a line of CSV; quotes may hold commas.
std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      out.back() += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      out.emplace_back();
    } else if (c != '\r') {
      out.back() += c;
    }
  }
  return out;
}

std::optional<double> number_of(std::string text) {
  std::erase(text, ',');  // of thousands
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The metric that ncu does not know; empty where it complains of none of ours.
std::string_view unknown_metric(std::string_view output) {
  constexpr std::string_view said = "Failed to find metric";
  const auto at = output.find(said);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = output.substr(at + said.size(), 200);
  const auto found = std::ranges::find_if(metrics, [&](const Metric& metric) { return rest.contains(metric.ncu); });
  return found == metrics.end() ? std::string_view() : found->ncu;
}

}  // namespace

double KernelCounters::value(std::string_view name) const {
  const auto found = std::ranges::find(counters, name, &Counter::name);
  return found == counters.end() ? 0 : found->value;
}

Result<fs::path> find_ncu() {
  const char* hint = "install Nsight Compute, or name its ncu with PLANISH_NCU";
  if (const char* given = std::getenv("PLANISH_NCU"); given != nullptr && *given != '\0') {
    if (can_run(given)) return fs::path(given);
    return fail("no_ncu", fmt::format("PLANISH_NCU names {}, which cannot be run", given), hint);
  }
  const char* path = std::getenv("PATH");
  std::string_view folders = path != nullptr ? path : "";
  while (!folders.empty()) {
    const auto end = std::min(folders.find(':'), folders.size());
    if (const fs::path file = fs::path(folders.substr(0, end)) / "ncu"; end > 0 && can_run(file)) return file;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  std::vector<fs::path> places{"/usr/local/cuda/bin/ncu"};
  std::error_code ignored;
  for (const auto& version : fs::directory_iterator("/opt/nvidia/nsight-compute", ignored))
    places.push_back(version.path() / "ncu");
  std::ranges::sort(places, std::greater{});
  for (const fs::path& file : places) {
    if (can_run(file)) return file;
  }
  return fail("no_ncu", "there is no ncu on this machine", hint);
}

Result<std::vector<KernelCounters>> parse_ncu(std::string_view output) {
  std::vector<std::string> columns;
  std::vector<KernelCounters> out;
  while (!output.empty()) {
    const auto end = std::min(output.find('\n'), output.size());
    const std::string_view line = output.substr(0, end);
    output.remove_prefix(std::min(end + 1, output.size()));
    if (columns.empty()) {
      if (!line.starts_with("\"ID\",")) continue;
      columns = fields_of(line);
      continue;
    }
    const std::vector<std::string> row = fields_of(line);
    // The row of units has no number; what the profiled program prints after the table has no columns.
    if (row.size() != columns.size() || row[0].empty() || !number_of(row[0])) continue;
    KernelCounters launch;
    for (const auto& [column, field] : {std::pair{"Kernel Name", &launch.kernel}, std::pair{"Grid Size", &launch.grid},
                                        std::pair{"Block Size", &launch.block}}) {
      const auto at = std::ranges::find(columns, column);
      if (at != columns.end()) *field = row[static_cast<std::size_t>(at - columns.begin())];
    }
    for (const Metric& metric : metrics) {
      const auto at = std::ranges::find(columns, metric.ncu);
      if (at == columns.end()) continue;
      const auto value = number_of(row[static_cast<std::size_t>(at - columns.begin())]);
      if (value) launch.counters.push_back({std::string(metric.name), *value, std::string(metric.unit)});
    }
    out.push_back(std::move(launch));
  }
  if (columns.empty()) return no_counters("ncu printed no table");
  if (out.empty()) return no_counters("ncu saw no launch of these kernels");
  return out;
}

Result<std::vector<KernelCounters>> run_ncu(const NcuRequest& request) {
  std::vector<std::string_view> wanted;
  for (const Metric& metric : metrics) wanted.push_back(metric.ncu);
  while (!wanted.empty()) {
    SpawnOptions options = request.program;
    options.command = {request.ncu.string(),
                       "--csv",
                       "--page",
                       "raw",
                       "--print-units",
                       "base",
                       "--clock-control",
                       "none",
                       "--target-processes",
                       "all",
                       "--metrics",
                       fmt::format("{}", fmt::join(wanted, ",")),
                       "--kernel-name",
                       fmt::format("regex:^({})$", fmt::join(request.kernels, "|"))};
    options.command.insert(options.command.end(), request.program.command.begin(), request.program.command.end());
    options.whole_output = true;
    PLANISH_TRY(const auto ran, run_command(std::move(options), request.timeout_seconds));
    if (ran.output.contains("ERR_NVGPUCTRPERM"))
      return no_counters(
          "the driver lets only administrators read counters here (ERR_NVGPUCTRPERM): run as root, or load the driver "
          "with NVreg_RestrictProfilingToAdminUsers=0");
    if (const auto unknown = unknown_metric(ran.output); !unknown.empty()) {
      if (std::erase(wanted, unknown) > 0) continue;
    }
    auto parsed = parse_ncu(ran.output);
    if (parsed || ran.status.ok()) return parsed;
    constexpr std::size_t most = 400;
    const std::string tail = ran.output.size() > most ? ran.output.substr(ran.output.size() - most) : ran.output;
    return no_counters(fmt::format("ncu ended with {}: {}", ran.status.text(), tail));
  }
  return no_counters("this ncu knows none of the metrics that are asked for");
}

}  // namespace planish::worker
