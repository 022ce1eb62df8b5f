#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "poison.h"
#include "program.h"
#include "statistics.h"

namespace planish::rt {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr int warm_ups = 3;

/// Runs measured programs and says what a run took. One implementation a kind of device.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  /// Runs set `set` once, untimed, to its end; wall seconds.
  virtual Result<double> warm(int set) = 0;
  /// Called once after the warm-ups, with what one run took.
  virtual Status calibrate(double run_seconds, std::int64_t* batch) = 0;
  /// Appends `n` samples in ms to `out`; set `first` + i for the i-th, modulo the number of sets. Adds host submission
  /// seconds.
  virtual Status measure(std::int64_t first, std::int64_t n, double* out, double* host_seconds) = 0;
};

class CpuStopwatch final : public Stopwatch {
 public:
  CpuStopwatch(prt_program* program, const TimingRequest& request) : program_(program), request_(request) {}

  Result<double> warm(int set) override {
    const auto start = Clock::now();
    PRT_CHECK(run(set));
    return seconds_since(start);
  }
  Status calibrate(double, std::int64_t* batch) override {
    if (request_.flush_bytes > 0) scratch_.assign(static_cast<std::size_t>(request_.flush_bytes), 0);
    *batch = 1;
    return {};
  }
  Status measure(std::int64_t first, std::int64_t n, double* out, double* host_seconds) override {
    for (std::int64_t i = 0; i < n; ++i) {
      const int set = static_cast<int>((first + i) % request_.sets);
      poison_cpu(output_spans(*program_, request_.pointers[set]), &random_);
      if (!scratch_.empty()) std::memset(scratch_.data(), ++pattern_, scratch_.size());
      asm volatile("" : : "r"(scratch_.data()) : "memory");
      const auto start = Clock::now();
      PRT_CHECK(run(set));
      const double took = seconds_since(start);
      out[i] = took * 1e3;
      *host_seconds += took;
    }
    return {};
  }

 private:
  Status run(int set) {
    return run_cpu(program_, request_.pointers[set], 0, static_cast<int>(program_->document.steps.size()));
  }

  prt_program* program_;
  TimingRequest request_;
  std::vector<unsigned char> scratch_;
  unsigned char pattern_ = 0;
  std::uint64_t random_ = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()) | 1U;
};

/// Each sample is queued as flush, event, steps, event. The flush keeps the GPU busy until all of the steps are queued,
/// so that what is between the events is the GPU's time alone, however long the host takes to submit.
class CudaStopwatch final : public Stopwatch {
 public:
  CudaStopwatch(prt_program* program, const TimingRequest& request)
      : program_(program), d_(*program->driver), request_(request) {}
  ~CudaStopwatch() override {
    if (stream_ != nullptr) d_.stream_synchronize(stream_);
    for (const cu::Event event : events_) d_.event_destroy(event);
    if (scratch_ != 0) d_.mem_free(scratch_);
    if (stream_ != nullptr) d_.stream_destroy(stream_);
  }

  Status open() {
    PRT_CHECK(cu::check(d_.stream_create(&stream_, cu::stream_non_blocking), "cuStreamCreate", "launch_failed"));
    // A stream of its own: nothing that the caller queues elsewhere may come in between, so it has to be done before.
    PRT_CHECK(cu::check(d_.ctx_synchronize(), "cuCtxSynchronize", "launch_failed"));
    events_.resize(2 * max_batch);
    for (cu::Event& event : events_) {
      if (const auto code = d_.event_create(&event, cu::event_default); code != cu::success) {
        event = nullptr;
        return cu::check(code, "cuEventCreate", "launch_failed");
      }
    }
    if (request_.flush_bytes > 0) {
      PRT_CHECK(cu::check(d_.mem_alloc(&scratch_, static_cast<std::size_t>(request_.flush_bytes)),
                          "allocating the cache flush", "out_of_memory"));
    }
    return {};
  }

  Result<double> warm(int set) override {
    const auto start = Clock::now();
    PRT_CHECK(run(set));
    submit_seconds_ = seconds_since(start);  // of the last warm-up: the first ones load and allocate
    PRT_CHECK(cu::check(d_.stream_synchronize(stream_), "running the program", "launch_failed"));
    return seconds_since(start);
  }

  Status calibrate(double run_seconds, std::int64_t* batch) override {
    *batch = std::clamp<std::int64_t>(static_cast<std::int64_t>(0.05 / std::max(run_seconds, 1e-6)), 1, max_batch);
    if (scratch_ == 0) return {};
    PRT_CHECK(flush(1));
    PRT_CHECK(record(0));
    PRT_CHECK(flush(4));
    PRT_CHECK(record(1));
    PRT_TRY(const double four_flushes_ms, elapsed(0));
    const double flush_seconds = std::max(four_flushes_ms / 4e3, 1e-6);
    const double lead = 2 * submit_seconds_ + 20e-6;
    flushes_ = std::clamp(static_cast<int>(lead / flush_seconds) + 1, 1, 64);
    // The driver's queue holds about a thousand entries; a full one would make the host wait inside a submission.
    const auto outputs = static_cast<std::int64_t>(output_spans(*program_, request_.pointers[0]).size());
    const auto entries = static_cast<std::int64_t>(program_->document.steps.size()) + outputs + flushes_ + 2;
    *batch = std::clamp<std::int64_t>(512 / entries, 1, *batch);
    return {};
  }

  Status measure(std::int64_t first, std::int64_t n, double* out, double* host_seconds) override {
    for (std::int64_t i = 0; i < n; ++i) {
      const int set = static_cast<int>((first + i) % request_.sets);
      PRT_CHECK(poison_cuda(output_spans(*program_, request_.pointers[set]), d_, stream_));
      if (scratch_ != 0) PRT_CHECK(flush(flushes_));
      PRT_CHECK(record(2 * i));
      const auto start = Clock::now();
      PRT_CHECK(run(set));
      *host_seconds += seconds_since(start);
      PRT_CHECK(record(2 * i + 1));
    }
    PRT_CHECK(cu::check(d_.stream_synchronize(stream_), "running the program", "launch_failed"));
    for (std::int64_t i = 0; i < n; ++i) {
      PRT_TRY(out[i], elapsed(2 * i));
    }
    return {};
  }

 private:
  static constexpr std::int64_t max_batch = 16;

  Status run(int set) {
    return run_cuda(program_, request_.pointers[set], 0, static_cast<int>(program_->document.steps.size()), stream_);
  }
  Status record(std::int64_t event) {
    return cu::check(d_.event_record(events_[static_cast<std::size_t>(event)], stream_), "cuEventRecord",
                     "launch_failed");
  }
  Status flush(int times) {
    for (int i = 0; i < times; ++i) {
      PRT_CHECK(
          cu::check(d_.memset_32(scratch_, ++pattern_, static_cast<std::size_t>(request_.flush_bytes) / 4, stream_),
                    "flushing the cache", "launch_failed"));
    }
    return {};
  }
  /// Between event and event + 1, ms; waits for the latter.
  Result<double> elapsed(std::int64_t event) {
    const auto e = static_cast<std::size_t>(event);
    PRT_CHECK(cu::check(d_.event_synchronize(events_[e + 1]), "running the program", "launch_failed"));
    float ms = 0;
    PRT_CHECK(cu::check(d_.event_elapsed(&ms, events_[e], events_[e + 1]), "cuEventElapsedTime", "launch_failed"));
    return static_cast<double>(ms);
  }

  prt_program* program_;
  const cu::Driver& d_;
  TimingRequest request_;
  cu::Stream stream_ = nullptr;
  cu::DevicePtr scratch_ = 0;
  std::vector<cu::Event> events_;
  std::uint32_t pattern_ = 0;
  int flushes_ = 1;
  double submit_seconds_ = 0;
};

Status sample(Stopwatch& watch, const TimingRequest& request, double* samples_ms, prt_timing* out) {
  const auto start = Clock::now();
  double run_seconds = 0;
  for (int i = 0; i < warm_ups; ++i) {
    PRT_TRY(run_seconds, watch.warm(i % request.sets));
    if (run_seconds > 1) break;
  }
  std::int64_t batch = 1;
  PRT_CHECK(watch.calibrate(run_seconds, &batch));
  std::int64_t done = 0, next_check = request.min_runs;
  double host_seconds = 0;
  Summary summary;
  while (done < request.max_runs) {
    const std::int64_t n = std::min(batch, request.max_runs - done);
    PRT_CHECK(watch.measure(done, n, samples_ms + done, &host_seconds));
    done += n;
    // However slow: what the timed runs wrote is looked at in every set.
    if (done >= request.sets && seconds_since(start) > request.max_seconds) break;
    if (done < next_check) continue;
    summary = summarise({samples_ms, samples_ms + done});
    if (settled(summary, request.interval)) break;
    next_check = done + std::max<std::int64_t>(
                            1, done / 10);  // sorting all of them after every run would cost more than the runs
  }
  summary = summarise({samples_ms, samples_ms + done});
  *out = {done, summary.median, summary.lo, summary.hi, host_seconds * 1e6 / static_cast<double>(done)};
  return {};
}

}  // namespace

Status time_program(prt_program* program, const TimingRequest& request, double* samples_ms, prt_timing* out) {
  if (program->device < 0) {
    CpuStopwatch watch(program, request);
    return sample(watch, request, samples_ms, out);
  }
  const cu::Current current(*program->driver, *program->gpu);
  PRT_CHECK(current.status());
  CudaStopwatch watch(program, request);
  PRT_CHECK(watch.open());
  return sample(watch, request, samples_ms, out);
}

}  // namespace planish::rt
