#include "replay.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "launch.h"
#include "program.h"

namespace planish::rt {
namespace {

constexpr int warm_up = 4;          ///< calls before the first that counts
constexpr std::size_t samples = 9;  ///< of either way
constexpr std::size_t most_streams = 4;
/// A graph has to win by this much: its launches of one stream wait for each other even where their kernels need not.
constexpr double clearly = 0.9;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Microseconds {
 public:
  double passed() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

bool driver_has_graphs(const cu::Driver& d) {
  return d.graph_create != nullptr && d.graph_destroy != nullptr && d.graph_add_kernel != nullptr &&
         d.graph_set_attribute != nullptr && d.graph_instantiate != nullptr && d.graph_patch != nullptr &&
         d.graph_launch != nullptr && d.graph_exec_destroy != nullptr && d.stream_capturing != nullptr &&
         d.capture_mode != nullptr;
}

cu::KernelNode node_of(const prt_program& program, const Step& step, Arguments& arguments) {
  cu::KernelNode out{};
  out.function = program.kernels[static_cast<std::size_t>(step.kernel)].function;
  for (std::size_t i = 0; i < 3; ++i) {
    out.grid[i] = step.grid[i];
    out.block[i] = step.block[i];
  }
  out.shared_bytes = step.shared;
  out.params = arguments.params;
  return out;
}

/// Building a graph may allocate on the device. In this mode that disturbs no capture that another thread is making.
class Relaxed {
 public:
  explicit Relaxed(const cu::Driver& driver) : driver_(driver) { driver_.capture_mode(&mode_); }
  ~Relaxed() { driver_.capture_mode(&mode_); }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  const cu::Driver& driver_;
  int mode_ = cu::capture_relaxed;
};

}  // namespace

/// One executable graph and the addresses that each of its nodes was last given.
struct Replay::Graph {
  cu::Stream stream = nullptr;
  cu::Graph graph = nullptr;
  cu::GraphExec exec = nullptr;
  std::vector<cu::GraphNode> nodes;
  std::vector<std::vector<std::uint64_t>> addresses;
  const cu::Driver* driver = nullptr;

  ~Graph() {
    if (exec != nullptr) driver->graph_exec_destroy(exec);
    if (graph != nullptr) driver->graph_destroy(graph);
  }
};

std::unique_ptr<Replay> Replay::make(const prt_program& program) {
  const char* wish = std::getenv("PLANISH_GRAPH");
  const std::string_view text = wish == nullptr ? "auto" : wish;
  if (text == "0" || program.driver == nullptr || !driver_has_graphs(*program.driver)) return nullptr;
  std::vector<Unit> units = units_of(program);
  if (units.size() < 2) return nullptr;
  return std::unique_ptr<Replay>(new Replay(program, std::move(units), text == "1" ? Way::graph : Way::measuring));
}

std::vector<Replay::Unit> Replay::units_of(const prt_program& program) {
  std::vector<Unit> out;
  const auto& steps = program.document.steps;
  auto joint = program.joint_copies.begin();
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (joint != program.joint_copies.end() && static_cast<std::size_t>(joint->first) == s) {
      out.push_back({nullptr, &*joint});
      s += static_cast<std::size_t>(joint->count) - 1;
      ++joint;
    } else if (steps[s].kind == StepKind::copy && program.runs[s].count == 0) {
      continue;  // of nothing
    } else if (steps[s].kind == StepKind::launch) {
      out.push_back({&steps[s], nullptr});
    } else {
      return {};
    }
  }
  return out;
}

template <typename Body>
Status Replay::with_node(const prt_program& program, const Unit& unit, void* const* pointers, std::uint64_t base,
                         const Body& body) {
  if (unit.copies != nullptr) {
    CopyLaunch copies;
    PRT_CHECK(copies.gather(program, *unit.copies, pointers, base));
    body(copies.node(), copies.words(), copies.count());
  } else {
    Arguments arguments;
    PRT_CHECK(arguments.gather(program, *unit.step, pointers, base));
    body(node_of(program, *unit.step, arguments), arguments.addresses, unit.step->args.size());
  }
  return {};
}

Replay::Replay(const prt_program& program, std::vector<Unit> units, Way way)
    : program_(program), units_(std::move(units)), way_(way) {}
Replay::~Replay() = default;

Status Replay::run(prt_program* program, void* const* pointers, cu::Stream stream) {
  const int n = static_cast<int>(program->document.steps.size());
  const Way way = way_.load(std::memory_order_relaxed);
  if (way == Way::launches) return run_cuda(program, pointers, 0, n, stream);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || capturing(stream)) return run_cuda(program, pointers, 0, n, stream);
  if (way == Way::measuring) return measured(program, pointers, stream);
  PRT_TRY(const bool done, launch_graph(program, pointers, stream));
  return done ? Status{} : run_cuda(program, pointers, 0, n, stream);
}

bool Replay::capturing(cu::Stream stream) const {
  int status = 0;
  return program_.driver->stream_capturing(stream, &status) != cu::success || status != 0;
}

Status Replay::measured(prt_program* program, void* const* pointers, cu::Stream stream) {
  const int n = static_cast<int>(program->document.steps.size());
  const bool counts = calls_++ >= warm_up;
  if (calls_ % 2 == 0) {
    const Microseconds clock;
    PRT_CHECK(run_cuda(program, pointers, 0, n, stream));
    if (counts) launches_us_.push_back(clock.passed());
  } else {
    const Microseconds clock;
    PRT_TRY(const bool done, launch_graph(program, pointers, stream));
    if (!done) return run_cuda(program, pointers, 0, n, stream);
    if (counts) graph_us_.push_back(clock.passed());
  }
  if (launches_us_.size() >= samples && graph_us_.size() >= samples) {
    const bool wins = median(graph_us_) < clearly * median(launches_us_);
    way_.store(wins ? Way::graph : Way::launches, std::memory_order_relaxed);
  }
  return {};
}

bool Replay::refused(cu::Code code, const char* what) {
  if (code == cu::success) return false;
  const Status status = cu::check(code, what, "launch_failed");
  reason_ = status ? what : status.error().message;
  way_.store(Way::launches, std::memory_order_relaxed);
  return true;
}

Result<bool> Replay::launch_graph(prt_program* program, void* const* pointers, cu::Stream stream) {
  PRT_TRY(const std::uint64_t base, workspace(program, pointers, stream));
  const cu::Driver& d = *program->driver;
  PRT_TRY(Graph * graph, graph_for(program, pointers, base, stream));
  if (graph == nullptr) return false;
  bool patched = true;
  for (std::size_t k = 0; k < units_.size() && patched; ++k) {
    std::vector<std::uint64_t>& last = graph->addresses[k];
    const auto patch = [&](const cu::KernelNode& node, const std::uint64_t* words, std::size_t count) {
      const std::size_t bytes = count * sizeof(std::uint64_t);
      if (bytes == 0 || std::memcmp(last.data(), words, bytes) == 0) return;
      patched = !refused(d.graph_patch(graph->exec, graph->nodes[k], &node), "patching a graph");
      if (patched) std::memcpy(last.data(), words, bytes);
    };
    PRT_CHECK(with_node(*program, units_[k], pointers, base, patch));
  }
  if (!patched) return false;
  return !refused(d.graph_launch(graph->exec, stream), "launching a graph");
}

Result<Replay::Graph*> Replay::graph_for(prt_program* program, void* const* pointers, std::uint64_t base,
                                         cu::Stream stream) {
  for (const auto& graph : graphs_) {
    if (graph->stream == stream) return graph.get();
  }
  if (graphs_.size() >= most_streams) return nullptr;
  const cu::Driver& d = *program->driver;
  const Relaxed relaxed(d);
  auto made = std::make_unique<Graph>();
  made->driver = &d;
  made->stream = stream;
  if (refused(d.graph_create(&made->graph, 0), "making a graph")) return nullptr;
  bool whole = true, behind_step = false;
  for (const Unit& unit : units_) {
    const auto add = [&](const cu::KernelNode& node, const std::uint64_t* words, std::size_t count) {
      const cu::GraphNode before = made->nodes.empty() ? nullptr : made->nodes.back();
      cu::GraphNode added = nullptr;
      const bool first = made->nodes.empty();
      // A launch behind copies waits for them in full, as the first of a call does for what is before it.
      const bool early = unit.step != nullptr && overlaps(*unit.step, !behind_step) && d.graph_add_edges != nullptr;
      behind_step = unit.step != nullptr;
      // One after the other: temporaries of different steps may share memory.
      whole = !refused(d.graph_add_kernel(&added, made->graph, &before, first || early ? 0 : 1, &node),
                       "adding a kernel to a graph");
      if (!whole) return;
      if (early) {
        cu::GraphEdge edge;
        edge.from_port = cu::port_programmatic;
        edge.type = cu::edge_programmatic;
        whole = !refused(d.graph_add_edges(made->graph, &before, &added, &edge, 1), "chaining kernels of a graph");
        if (!whole) return;
      }
      const Attributes attributes = unit.step != nullptr ? Attributes(*unit.step) : Attributes();
      for (unsigned int i = 0; i < attributes.count && whole; ++i) {
        const cu::LaunchAttribute& one = attributes.list[i];
        whole = !refused(d.graph_set_attribute(added, one.id, &one.value), "an attribute of a graph's kernel");
      }
      made->nodes.push_back(added);
      made->addresses.emplace_back(words, words + count);
    };
    PRT_CHECK(with_node(*program, unit, pointers, base, add));
    if (!whole) return nullptr;
  }
  if (refused(d.graph_instantiate(&made->exec, made->graph, 0), "instantiating a graph")) return nullptr;
  graphs_.push_back(std::move(made));
  return graphs_.back().get();
}

Replay::Report Replay::report() const {
  const std::lock_guard lock(mutex_);
  return {way_.load(std::memory_order_relaxed), median(launches_us_), median(graph_us_), reason_};
}

}  // namespace planish::rt
