#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/dtype.h"
#include "judge/aims.h"
#include "judge/occupancy.h"
#include "judge/parts.h"

/// What holds a right candidate back. Every rule estimates which part of the time its issue costs; the one that costs
/// most, and that some gene can do something about, is the verdict.
namespace planish::judge {
namespace {

// Cycles from asking for a line of DRAM to having it under load, as time: what must be in flight is this times the
// bandwidth (Little's law).
constexpr double memory_latency_us = 0.7;
constexpr double launch_us = 2.0;        // from one kernel to the next in a stream
constexpr double thread_start_us = 1.5;  // waking one more OpenMP thread, and waiting for it

struct Finding {
  std::string issue, message;
  double gain = 0;  ///< part of the present time
  Aim aim = Aim::more_in_flight;
  bool movable = true;  ///< no gene is known to help otherwise
  bool guess = false;   ///< nothing measured names it: only where no other issue explains much
};

class Bottleneck {
 public:
  explicit Bottleneck(const Question& question)
      : q_(question), e_(question.evaluation), gpu_(!question.device.target->on_host) {}

  Verdict verdict() {
    Verdict out;
    out.kind = Kind::bottleneck;
    if (!e_.bench || !(e_.bench->median_ms > 0)) {
      out.kind = Kind::none;
      out.issue = "not_timed";
      out.message = "nothing was timed";
      return out;
    }
    measure();
    if (e_.outcome != Outcome::given_up && fraction_ >= 0.95) {
      out.kind = Kind::none;
      // The roofline counts what the graph has. Who does less, or finds it in a cache, is not bound by it.
      const bool beyond = fraction_ > 1.1;
      out.issue = beyond ? "beyond_roofline" : "speed_of_light";
      out.message =
          fmt::format("{:.0f} % of the {} roofline: {}", 100 * fraction_, e_.roofline->bound,
                      beyond ? "it does less work than the graph has, or its data stay in a cache, and what is "
                               "left to gain is not known"
                             : "nothing is left to gain here");
      out.evidence = std::move(facts_);
      return out;
    }
    if (gpu_) {
      spills();
      residency();
      waves();
    } else {
      cpu();
    }
    traffic();
    rate();
    launches();
    choose(out);
    return out;
  }

 private:
  void fact(const char* name, double value, const char* unit = "") { facts_.push_back({name, value, unit}); }
  void find(std::string issue, double gain, Aim aim, std::string message, bool movable = true) {
    findings_.push_back({std::move(issue), std::move(message), std::clamp(gain, 0.0, headroom_), aim, movable});
  }
  std::int64_t gene(codegen::GeneName name, std::int64_t otherwise) const {
    return codegen::gene(q_.genome, name, otherwise);
  }
  std::int64_t largest_choice(codegen::GeneName name) const {
    const codegen::Gene* const found = codegen::find_gene(q_.genes, name.text);
    return found == nullptr || found->choices.empty() ? 0 : found->choices.back();
  }

  void measure() {
    ms_ = e_.bench->median_ms;
    fact("median", ms_, "ms");
    if (e_.roofline && e_.roofline->bound_ms > 0) {
      const Roofline& r = *e_.roofline;
      fraction_ = r.bound_ms / ms_;
      memory_bound_ = r.bound == "memory";
      needed_ = r.bytes;
      fact("roofline", r.bound_ms, "ms");
      fact("roofline_fraction", fraction_);
      if (r.bytes > 0) fact("achieved_bandwidth", r.bytes / ms_ / 1e6, "GB/s");
      if (r.flops > 0) fact("achieved_rate", r.flops / ms_ / 1e6, "GFLOP/s");
      // The device's own bandwidth, as the evaluator measured it, is in the bound.
      bandwidth_ = memory_bound_ && r.bytes > 0 ? r.bytes / r.bound_ms / 1e6 : q_.device.bandwidth_gbs;
      headroom_ = std::clamp(1 - fraction_, 0.0, 1.0);
    } else {
      bandwidth_ = q_.device.bandwidth_gbs;
      headroom_ = 0.5;  // not known
    }
    // The launch with the most threads is the one that the time goes to.
    for (const Launch& launch : q_.launches) {
      if (main_ == nullptr || launch.blocks * launch.threads > main_->blocks * main_->threads) main_ = &launch;
    }
    if (e_.compile && !e_.compile->kernels.empty()) {
      std::size_t at = 0;
      if (main_ != nullptr && main_->kernel >= 0 &&
          static_cast<std::size_t>(main_->kernel) < e_.compile->kernels.size())
        at = static_cast<std::size_t>(main_->kernel);
      kernel_ = &e_.compile->kernels[at];
    }
  }

  double total_threads() const {
    return main_ != nullptr ? static_cast<double>(main_->blocks) * static_cast<double>(main_->threads) : 0;
  }

  void spills() {
    if (kernel_ == nullptr) return;
    if (kernel_->registers > 0) fact("registers", static_cast<double>(kernel_->registers), "registers");
    const std::int64_t spilled = kernel_->spill_bytes, local = kernel_->local_bytes;
    if (spilled == 0 && local == 0) return;
    const double bytes = static_cast<double>(spilled > 0 ? spilled : local);
    fact(spilled > 0 ? "spilled" : "local", bytes, "bytes a thread");
    // Spilled values mostly stay in the caches, which move about four times what memory does.
    const double cost = total_threads() > 0 ? bytes * total_threads() / (4 * bandwidth_ * 1e6) / ms_ : 0.1;
    if (spilled > 0) {
      find("spills", std::max(cost, 0.02), Aim::more_registers,
           fmt::format("{} bytes a thread are spilled: {} registers do not hold what is live", spilled,
                       kernel_->registers));
    } else {
      find("local_memory", std::max(cost, 0.02), Aim::more_registers,
           fmt::format("{} bytes a thread lie in local memory: an array is indexed by what the compiler does not know",
                       local));
    }
  }

  void residency() {
    BlockNeeds needs;
    needs.threads = main_ != nullptr ? main_->threads : gene("threads", 0);
    needs.registers = kernel_ != nullptr ? kernel_->registers : 0;
    needs.shared_bytes =
        (kernel_ != nullptr ? kernel_->shared_bytes : 0) + (main_ != nullptr ? main_->dynamic_shared : 0);
    if (needs.threads == 0 || needs.registers == 0) return;
    occupancy_ = occupancy(backend::architecture(q_.device.arch), needs);
    if (occupancy_.blocks == 0) return;
    fact("occupancy", occupancy_.fraction);
    fact("blocks_a_multiprocessor", occupancy_.blocks);
    if (needs.shared_bytes > 0) fact("shared", static_cast<double>(needs.shared_bytes), "bytes a block");
    double resident = static_cast<double>(occupancy_.blocks) * static_cast<double>(needs.threads);
    if (main_ != nullptr && q_.device.sms > 0)
      resident = std::min(
          resident, std::ceil(static_cast<double>(main_->blocks) / q_.device.sms) * static_cast<double>(needs.threads));
    double gain = 0;
    if (memory_bound_) {
      const double vector = static_cast<double>(gene("vector", 4)), unroll = static_cast<double>(gene("unroll", 1));
      double flying = resident * vector * unroll;
      // Stages are filled by the copy engine, not by threads that wait.
      if (main_ != nullptr && gene("stages", 0) > 0)
        flying = std::max(flying, static_cast<double>(occupancy_.blocks) * static_cast<double>(main_->dynamic_shared));
      const double wanted = bandwidth_ * 1e3 * memory_latency_us / std::max(1, q_.device.sms);
      fact("bytes_in_flight", flying, "bytes a multiprocessor");
      fact("bytes_in_flight_wanted", wanted, "bytes a multiprocessor");
      gain = std::exp(-1.6 * flying / wanted);
    } else {
      // Eight warps a scheduler hide what arithmetic waits for.
      gain = std::max(0.0, 0.5 - occupancy_.fraction);
    }
    if (occupancy_.fraction < 0.5 && occupancy_.limiter == "registers") {
      find(
          "occupancy_registers", gain, Aim::fewer_registers,
          fmt::format("{} registers a thread leave room for {} warps a multiprocessor: too little is under way at once",
                      needs.registers, occupancy_.warps));
    } else if (occupancy_.fraction < 0.5 && occupancy_.limiter == "shared") {
      find("occupancy_shared", gain, Aim::less_shared,
           fmt::format("{} bytes of shared memory a block leave room for {} warps a multiprocessor", needs.shared_bytes,
                       occupancy_.warps));
    } else if (memory_bound_) {
      find("bytes_in_flight", gain, Aim::more_in_flight, "too few bytes are under way to cover the latency of memory");
    }
  }

  void waves() {
    if (main_ == nullptr || q_.device.sms <= 0) return;
    const double blocks = static_cast<double>(main_->blocks), sms = q_.device.sms;
    fact("blocks", blocks);
    if (blocks < sms) {
      find("grid_too_small", 1 - blocks / sms, Aim::more_blocks,
           fmt::format("{:.0f} blocks leave {:.0f} of {:.0f} multiprocessors without work", blocks, sms - blocks, sms));
      return;
    }
    const double slots = sms * std::max(1, occupancy_.blocks);
    const double waves = blocks / slots;
    fact("waves", waves);
    // Fewer blocks than places: the multiprocessor with one block more than the others decides.
    const double rounds = waves < 1 ? blocks / sms : waves;
    const double used = rounds / std::ceil(rounds);
    if (used < 0.95 && rounds < 20) {
      fact("last_wave_used", used);
      find("tail_wave", 1 - used, Aim::even_waves,
           fmt::format("{:.2f} waves of blocks: part of the device waits for the last one", waves));
    }
  }

  double output_bytes() const {
    double total = 0;
    for (std::size_t i = 0; i < q_.output_shapes.size() && i < q_.output_dtypes.size(); ++i) {
      const auto dtype = dtype_from_name(q_.output_dtypes[i]);
      double bytes = dtype ? size_of(*dtype) : 0;
      for (const std::int64_t extent : q_.output_shapes[i]) bytes *= static_cast<double>(extent);
      total += bytes;
    }
    return total;
  }

  /// Bytes that the time stands for at full bandwidth, against those that are needed: which detour explains them?
  void traffic() {
    if (!memory_bound_ || needed_ <= 0) return;
    const double moved = bandwidth_ * 1e6 * ms_;
    fact("bytes_needed", needed_, "bytes");
    fact("bytes_the_time_is_worth", moved, "bytes");
    const double written = std::min(output_bytes(), needed_), read = needed_ - written;
    const auto detour = [&](double extra) {
      return moved >= 0.85 * (needed_ + extra) ? extra / (needed_ + extra) : 0.0;
    };
    if (gpu_ && written > 0 && largest_choice("residency") > 0 && gene("residency", 0) == 0) {
      find("read_again", detour(read), Aim::less_traffic, "rows are read once for every sweep instead of being kept");
    }
    if (gpu_ && largest_choice("tile") > 0 && gene("tile", 0) == 0) {
      find("uncoalesced", headroom_ * 0.8, Aim::less_traffic,
           "neighbouring threads read far-apart elements: whole sectors move for single ones");
    }
    if (!gpu_ && written > 0 && largest_choice("nt") > 0 && gene("nt", 0) == 0 &&
        needed_ > static_cast<double>(q_.device.l2_bytes)) {
      find("write_allocate", detour(written), Aim::less_traffic,
           "ordinary stores read each line before they write it: the outputs cross the bus twice");
    }
  }

  void rate() {
    const std::int64_t widest = largest_choice("vector"), vector = gene("vector", 0);
    if (gpu_ && memory_bound_ && vector > 0 && vector < std::min<std::int64_t>(widest, 16)) {
      find("narrow_access", vector >= 8 ? 0.04 : 0.1, Aim::wider_access,
           fmt::format("accesses of {} bytes take {} requests where one would do", vector, 16 / vector));
    }
    if (!memory_bound_ && e_.roofline) {
      find("arithmetic", headroom_ * 0.6, Aim::less_arithmetic, "instructions, not memory, take the time");
    }
    // Bytes that go well beyond the memory bound are not explained by arithmetic that the bound does not see either.
    if (memory_bound_) {
      find("below_roofline", headroom_ * 0.25, gpu_ ? Aim::more_in_flight : Aim::less_arithmetic,
           fmt::format("{:.0f} % of the bandwidth is reached, and nothing measured says why", 100 * fraction_));
      findings_.back().guess = true;
    }
    if (!e_.roofline) {
      find("too_slow", headroom_ * 0.5, gpu_ ? Aim::more_in_flight : Aim::more_blocks,
           "far slower than what is known; it was not timed to the end");
    }
  }

  void cpu() {
    const std::int64_t threads = gene("threads", 0), most = largest_choice("threads");
    if (threads <= 0) return;
    fact("threads", static_cast<double>(threads));
    const double starting = static_cast<double>(threads - 1) * thread_start_us / 1e3 / ms_;
    if (threads < most) {
      // Cores share the memory bus: a quarter of it or more goes to one.
      const double reached =
          std::max(static_cast<double>(threads) / static_cast<double>(most), memory_bound_ ? fraction_ : 0);
      const double more = thread_start_us * static_cast<double>(most - threads) / 1e3 / ms_;
      find("too_few_threads", 1 - reached - more, Aim::more_blocks,
           fmt::format("{} of {} cores are used", threads, most));
    } else if (threads > 1 && starting > 0.1) {
      find("threads_cost", starting, Aim::less_coordination,
           fmt::format("starting {} threads costs {:.0f} % of the time", threads, 100 * starting));
    }
    if (const auto bits = gene("bits", 0); bits > 0 && bits < largest_choice("bits") && !memory_bound_) {
      find("narrow_vectors", headroom_ * 0.5, Aim::less_arithmetic, fmt::format("vectors of {} bits", bits));
    }
  }

  void launches() {
    const auto count = static_cast<double>(q_.launches.size());
    if (gpu_ && count > 0) {
      const double share = count * launch_us / 1e3 / ms_;
      if (share > 0.2)
        find("launch_latency", share * 0.5, Aim::less_coordination,
             fmt::format("{:.0f} launch{} of about {} us in {:.3g} ms", count, count == 1 ? "" : "es", launch_us, ms_),
             false);
    }
    // Where the host is the device its time is the candidate's own.
    if (gpu_ && e_.bench->host_us > 1e3 * ms_) {
      fact("host", e_.bench->host_us, "us");
      find("host_submission", 1 - 1e3 * ms_ / e_.bench->host_us, Aim::less_coordination,
           "the host needs longer to submit a run than the device to do it", false);
    }
  }

  void choose(Verdict& out) {
    std::ranges::stable_sort(findings_, std::ranges::greater{},
                             [](const Finding& f) { return f.guess ? 0.2 * f.gain : f.gain; });
    const Finding* chosen = nullptr;
    for (const Finding& finding : findings_) {
      auto moves = finding.movable ? moves_for(finding.aim, finding.gain, q_.genome, q_.genes) : std::vector<Move>{};
      if (chosen == nullptr || (out.moves.empty() && !moves.empty() && finding.gain > 0)) {
        chosen = &finding;
        out.moves = std::move(moves);
      }
      if (!out.moves.empty()) break;
    }
    out.evidence = std::move(facts_);
    if (chosen == nullptr) {
      out.kind = Kind::none;
      out.issue = "unexplained";
      out.message = "nothing that was measured says what holds it back";
      return;
    }
    out.issue = chosen->issue;
    out.message = chosen->message;
    out.evidence.push_back({"expected_gain", chosen->gain, ""});
  }

  const Question& q_;
  const Evaluation& e_;
  bool gpu_;
  bool memory_bound_ = true;
  double ms_ = 0, fraction_ = 0, headroom_ = 1, bandwidth_ = 0, needed_ = 0;
  const Launch* main_ = nullptr;
  const KernelReport* kernel_ = nullptr;
  Occupancy occupancy_;
  std::vector<Fact> facts_;
  std::vector<Finding> findings_;
};

}  // namespace

Verdict judge_bottleneck(const Question& question) {
  return Bottleneck(question).verdict();
}

}  // namespace planish::judge
