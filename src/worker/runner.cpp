#include "worker/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "backend/backend.h"
#include "program/checked.h"
#include "worker/replies.h"
#include "worker/rpc.h"

namespace planish::worker {
namespace {

/// The kinds that a runner may use of itself. Those that would spare a candidate are for Child to give.
constexpr std::array<ErrorKind, 9> own_kinds{"bad_program",   "bad_argument",    "load_failed",
                                             "launch_failed", "illegal_address", "out_of_memory",
                                             "no_device",     "device_lost",     "input_write"};

/// What a runner says is short: samples of a timing, facts of kernels, errors.
constexpr std::size_t most_of_a_line = std::size_t{8} << 20U;

template <typename T>
Result<T> checked(const Child& child, Result<T> reply) {
  if (!reply.has_value() && child.reported() && std::ranges::find(own_kinds, reply.error().kind) == own_kinds.end()) {
    if (reply.error().kind != "unknown")
      reply.error().message = fmt::format("{}: {}", reply.error().kind.name(), reply.error().message);
    reply.error().kind = "runner_error";
  }
  return reply;
}

}  // namespace

Runner::Runner(std::unique_ptr<Child> child, Kind kind) : child_(std::move(child)), kind_(kind) {}
Runner::Runner(Runner&&) noexcept = default;
Runner& Runner::operator=(Runner&&) noexcept = default;
Runner::~Runner() = default;

Result<Runner> Runner::start(const Toolbox& tools, Kind kind, const std::string& device, std::size_t max_rss,
                             bool own_code_only) {
  if (kind == Kind::torch) {
    PLANISH_TRY(auto scratch, OwnedFolder::create(guest_folder_prefix));
    GuestSettings guest{scratch.path(), device, max_rss, own_code_only};
    guest.own_tmp = !own_code_only;
    std::vector<std::string> arguments{"--device", device};
    if (own_code_only) arguments.emplace_back("--compiles");
    PLANISH_TRY(auto runner, start(tools.guest_module("planish.runner", arguments, guest), kind));
    runner.scratch_ = std::move(scratch);
    constexpr double longest_sleep = 20;
    if (!own_code_only) runner.child_->set_sleep_limit(longest_sleep);
    return runner;
  }
  SpawnOptions options = tools.program(tools.runner);
  options.command.insert(options.command.end(), {"--device", device, "--no-network"});
  // A GPU's program brings no host code to hold (docs/sandbox.md).
  if (backend::named(device.substr(0, device.find(':'))).on_host)
    options.command.insert(options.command.end(), {"--sandbox", "--readable", tools.cache_dir.string()});
  if (max_rss > 0) options.command.insert(options.command.end(), {"--max-rss", std::to_string(max_rss)});
  PLANISH_TRY(auto runner, start(options, kind));
  if (max_rss > 0) runner.set_memory_limit(max_rss);
  return runner;
}

Result<Runner> Runner::start(const SpawnOptions& options, Kind kind) {
  PLANISH_TRY(auto child, Child::start(kind == Kind::native ? "runner" : "torch runner", options));
  child->set_line_limit(most_of_a_line);
  return Runner(std::move(child), kind);
}

Result<HelloReply> Runner::hello(const std::string& device, double timeout_seconds) {
  PLANISH_TRY(auto reply, checked(*child_, child_->call("hello", Json{{"device", device}}, {}, timeout_seconds)));
  return read_hello(reply.result);
}

Result<LoadReply> Runner::load(const program::Program& program, const std::vector<std::string>& binaries,
                               const std::string& blobs, double timeout_seconds) {
  PLANISH_TRY(
      auto reply,
      checked(
          *child_,
          child_->call("load", Json{{"program", program::document(program)}, {"binaries", binaries}, {"blobs", blobs}},
                       {}, timeout_seconds)));
  LoadReply result;
  ObjectReader reader(reply.result, "protocol", "load");
  reader.lenient();
  reader.integer("handle", result.handle);
  if (const Json* kernels = reader.array("kernels", ObjectReader::Need::optional); kernels != nullptr) {
    for (const Json& item : *kernels) {
      KernelInfo info;
      ObjectReader inner(item, "protocol", "load.kernels");
      inner.lenient();
      inner.integer("registers", info.registers, ObjectReader::Need::optional);
      inner.integer("local_bytes", info.local_bytes, ObjectReader::Need::optional);
      inner.integer("shared_bytes", info.shared_bytes, ObjectReader::Need::optional);
      inner.integer("max_threads", info.max_threads, ObjectReader::Need::optional);
      PLANISH_CHECK(inner.finish());
      result.kernels.push_back(info);
    }
  }
  PLANISH_CHECK(reader.finish());
  return result;
}

Result<LoadedModule> Runner::load_module(const std::string& path, const std::string& task, const std::string& graph,
                                         double timeout_seconds, ModuleUse use, Variation variation) {
  PLANISH_TRY(auto document, parse_json(graph, "bad_graph", "graph"));
  Json params{{"path", path}, {"task", task}, {"graph", std::move(document)}, {"state", true}};
  if (use == ModuleUse::rehearse) params["rehearse"] = true;
  if (use == ModuleUse::reference) params["reference"] = true;
  if (variation.has_value()) params["variation"] = *variation;
  PLANISH_TRY(auto reply, checked(*child_, child_->call("load_module", std::move(params), {}, timeout_seconds)));
  LoadedModule module;
  std::string state;
  ObjectReader reader(reply.result, "protocol", "load_module");
  reader.lenient();
  reader.integer("handle", module.handle);
  reader.text("state", state);
  PLANISH_CHECK(reader.finish());
  if (state == "by_order") module.state = ModuleState::by_order;
  if (state == "own") module.state = ModuleState::own;
  return module;
}

Status Runner::bind(std::int64_t handle, const std::string& data, const std::vector<Binding>& bindings,
                    double timeout_seconds) {
  Json buffers = Json::array();
  std::vector<int> fds;
  for (const Binding& binding : bindings) {
    const SharedBuffer& buffer = *binding.buffer;
    Json item = write_buffer(buffer);
    item["buffer"] = binding.index;
    item["name"] = buffer.name;
    item["role"] = buffer.role;
    item["writable"] = buffer.role == "output";
    buffers.push_back(std::move(item));
    fds.push_back(buffer.fd.get());
  }
  PLANISH_CHECK(
      checked(*child_, child_->call("bind", Json{{"handle", handle}, {"data", data}, {"buffers", std::move(buffers)}},
                                    fds, timeout_seconds)));
  return {};
}

Result<double> Runner::run(std::int64_t handle, const std::string& data, double timeout_seconds, int threads) {
  Json request{{"handle", handle}, {"data", data}};
  if (threads > 0) request["threads"] = threads;
  PLANISH_TRY(auto reply, checked(*child_, child_->call("run", request, {}, timeout_seconds)));
  double ms = 0;
  ObjectReader reader(reply.result, "protocol", "run");
  reader.lenient();
  reader.number("ms", ms);
  PLANISH_CHECK(reader.finish());
  return ms;
}

Result<std::string> Runner::run_as(std::int64_t handle, const std::string& data, std::string_view caller,
                                   double timeout_seconds) {
  PLANISH_TRY(auto reply,
              checked(*child_, child_->call("run", Json{{"handle", handle}, {"data", data}, {"caller", caller}}, {},
                                            timeout_seconds)));
  std::string raised;
  ObjectReader reader(reply.result, "protocol", "run");
  reader.lenient();
  reader.text("raised", raised, ObjectReader::Need::optional);
  PLANISH_CHECK(reader.finish());
  return raised;
}

Result<int> Runner::run_often(std::int64_t handle, const std::string& data, int calls, double seconds,
                              double timeout_seconds) {
  PLANISH_TRY(
      auto reply,
      checked(*child_,
              child_->call("run", Json{{"handle", handle}, {"data", data}, {"calls", calls}, {"seconds", seconds}}, {},
                           seconds + timeout_seconds)));
  int done = 1;
  ObjectReader reader(reply.result, "protocol", "run");
  reader.lenient();
  reader.integer("calls", done, ObjectReader::Need::optional);
  PLANISH_CHECK(reader.finish());
  return std::clamp(done, 1, calls);
}

Result<std::vector<std::string>> Runner::wind(std::int64_t handle, int calls, double timeout_seconds) {
  PLANISH_TRY(auto reply,
              checked(*child_, child_->call("wind", Json{{"handle", handle}, {"calls", calls}}, {}, timeout_seconds)));
  std::vector<std::string> moved;
  ObjectReader reader(reply.result, "protocol", "wind");
  reader.lenient();
  if (const Json* words = reader.array("moved", ObjectReader::Need::optional); words != nullptr) {
    for (const Json& item : *words) {
      if (item.is_string()) moved.push_back(item.get<std::string>());
    }
  }
  PLANISH_CHECK(reader.finish());
  return moved;
}

Result<Timing> Runner::time(std::int64_t handle, const TimeRequest& request, double timeout_seconds) {
  PLANISH_TRY(auto reply, checked(*child_, child_->call("time",
                                                        Json{{"handle", handle},
                                                             {"data", request.data},
                                                             {"min_runs", request.min_runs},
                                                             {"max_runs", request.max_runs},
                                                             {"max_seconds", request.max_seconds},
                                                             {"interval", request.interval},
                                                             {"flush_bytes", request.flush_bytes}},
                                                        {}, timeout_seconds)));
  return read_timing(reply.result);
}

Status Runner::prepare_call(std::int64_t handle, const std::string& data, CallKind kind, double timeout_seconds) {
  Json params{{"handle", handle}, {"data", data}};
  if (kind.empty) params["empty"] = true;
  if (kind.store) params["store"] = true;
  return checked(*child_, child_->prepare("call", std::move(params), timeout_seconds));
}

Result<RungCall> Runner::call_now(double timeout_seconds) {
  PLANISH_TRY(const auto answered, child_->ring(timeout_seconds));
  RungCall call;
  call.ms = 1000 * answered.seconds;
  call.process = answered.process;
  call.results = answered.line;
  call.worked_ms = 1000 * answered.worked;
  return call;
}

Status Runner::finish_call(double timeout_seconds) {
  PLANISH_CHECK(checked(*child_, child_->finish(timeout_seconds)));
  return {};
}

void Runner::hold() {
  child_->hold();
}
double Runner::worked_while_stopped_ms() const {
  return 1000 * child_->worked_while_stopped();
}

Status Runner::unbind(const std::string& data, double timeout_seconds) {
  PLANISH_CHECK(checked(*child_, child_->call("unbind", Json{{"data", data}}, {}, timeout_seconds)));
  return {};
}

Status Runner::unload(std::int64_t handle, double timeout_seconds) {
  PLANISH_CHECK(checked(*child_, child_->call("unload", Json{{"handle", handle}}, {}, timeout_seconds)));
  return {};
}

Result<KernelBenchReply> Runner::kernelbench(const std::string& task, const std::string& path,
                                             const std::string& precision, double timeout_seconds) {
  PLANISH_TRY(auto reply, checked(*child_, child_->call("kernelbench",
                                                        Json{{"task", task}, {"path", path}, {"precision", precision}},
                                                        {}, timeout_seconds)));
  KernelBenchReply verdict;
  ObjectReader reader(reply.result, "protocol", "kernelbench");
  reader.lenient();
  reader.boolean("compiled", verdict.compiled);
  reader.boolean("correct", verdict.correct);
  reader.text("message", verdict.message);
  reader.integer("trials", verdict.trials);
  if (const Json* metadata = reader.object("metadata"); metadata != nullptr) verdict.metadata = dump_json(*metadata);
  PLANISH_CHECK(reader.finish());
  return verdict;
}

Result<ProgramRanReply> Runner::program_ran(std::int64_t handle, double timeout_seconds) {
  PLANISH_TRY(auto reply, checked(*child_, child_->call("program_ran", Json{{"handle", handle}}, {}, timeout_seconds)));
  ProgramRanReply out;
  ObjectReader reader(reply.result, "protocol", "program_ran");
  reader.lenient();
  reader.integer("calls", out.calls);
  reader.text("reason", out.reason);
  const Json* ran = reader.get("ran");
  PLANISH_CHECK(reader.finish());
  if (ran->is_number_integer()) out.ran = ran->get<int>();
  return out;
}

bool Runner::running() {
  return child_->running();
}
bool Runner::alive() const {
  return child_->alive();
}
const std::optional<Fault>& Runner::fault() const {
  return child_->fault();
}
const std::string& Runner::sandbox() const {
  return child_->sandbox();
}
void Runner::set_memory_limit(std::size_t bytes) {
  child_->set_memory_limit(bytes);
}
void Runner::kill() {
  child_->kill();
}

}  // namespace planish::worker
