#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "copies.h"
#include "driver.h"
#include "result.h"

struct prt_program;

namespace planish::rt {

/// Submits all launches of a program at once, as a CUDA graph: an executable one for each stream, of which a call
/// patches the kernel arguments that differ from the call before. Nothing is allocated or waited for. Copies that are
/// launches (copies.h) are nodes as well.
///
/// Whether that takes the host less time than launching one kernel after the other depends on the machine, the driver
/// and the number of kernels: `measure` takes turns over the first calls, which do their work either way, and keeps the
/// faster. A stream that is being captured, a call while another holds the graphs, or a driver that refuses gets
/// plain launches.
///
/// Belongs to one program; any number of threads may call `run`.
class Replay {
 public:
  enum class Way : std::uint8_t { measuring, launches, graph };

  /// Null where launches are all there is: on the CPU, for a program of one launch or with steps that are none, with
  /// an old driver, or where PLANISH_GRAPH (0, 1, auto; auto is what holds without it) says 0. `program` outlives it.
  static std::unique_ptr<Replay> make(const prt_program& program);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// All steps, asynchronously. The context is current.
  Status run(prt_program* program, void* const* pointers, cu::Stream stream);

  struct Report {
    Way way = Way::launches;
    double launches_us = 0, graph_us = 0;  ///< median host time a call, where it was measured
    std::string reason;                    ///< why launches were settled on without measuring; empty otherwise
  };
  Report report() const;

 private:
  struct Graph;
  /// A launch of the program's: one of its steps, or copies together.
  struct Unit {
    const Step* step = nullptr;
    const JointCopies* copies = nullptr;
  };

  Replay(const prt_program& program, std::vector<Unit> units, Way way);
  /// Empty where some step is no launch.
  static std::vector<Unit> units_of(const prt_program& program);
  /// Calls body(node, words, count) with what the unit is launched with, which lives no longer.
  template <typename Body>
  static Status with_node(const prt_program& program, const Unit& unit, void* const* pointers, std::uint64_t base,
                          const Body& body);
  /// False where the driver refuses: then nothing was submitted, and `reason_` says why.
  Result<bool> launch_graph(prt_program* program, void* const* pointers, cu::Stream stream);
  Result<Graph*> graph_for(prt_program* program, void* const* pointers, std::uint64_t base, cu::Stream stream);
  bool refused(cu::Code code, const char* what);
  Status measured(prt_program* program, void* const* pointers, cu::Stream stream);
  bool capturing(cu::Stream stream) const;

  const prt_program& program_;
  const std::vector<Unit> units_;
  std::atomic<Way> way_;
  mutable std::mutex mutex_;  ///< of everything below
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::vector<double> launches_us_, graph_us_;
  int calls_ = 0;
  std::string reason_;
};

}  // namespace planish::rt
