#include <fmt/core.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <thread>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/work_scope.h"
#include "evaluate/task_evaluator.h"

namespace planish {
namespace {

/// Those of a task that will be proved and claimed: two oracles, two runners and the baselines'.
constexpr unsigned python_processes = 5;

/// What the task did to the oracle, as the task's fault: the file is named, and what it was doing.
std::unexpected<Error> blame_task(Error error, const std::string& task, const std::string& stage,
                                  double limit_seconds) {
  const std::string doing = stage.empty() ? "opening it" : stage;
  std::string how;
  if (error.kind == "hang") {
    error.kind = "task_hangs";
    how = fmt::format("{}: {} did not end within {:g} s", task, doing, limit_seconds);
    error.hint = "run it by hand to see where it stays; --task-timeout SECONDS allows more";
  } else if (error.kind == "exit") {
    error.kind = "task_exited";
    how = fmt::format("{}: {} ended the process", task, doing);
    error.hint = "take out what exits; a task file only defines Model and get_inputs";
  } else if (error.kind == "crash") {
    error.kind = "task_crashed";
    how = fmt::format("{}: {} crashed the process", task, doing);
    error.hint = "run it by hand to see where it crashes";
  } else if (error.kind == "killed") {
    how = fmt::format("{}: {} ended when its process was stopped or killed", task, doing);
  } else if (error.kind == "out_of_memory" && error.about.empty()) {
    how = fmt::format("{}: {} took more memory than there is", task, doing);
    error.hint = "use smaller inputs";
  } else if (error.about.empty()) {
    error.message = fmt::format("{}: {}", task, error.message);
    if (error.hint.empty()) error.hint = "run again with --verbose to see where";
    return std::unexpected(std::move(error));
  } else {
    return std::unexpected(std::move(error));
  }
  return wrap(std::move(error), std::move(how));
}

}  // namespace

bool TaskEvaluator::compiles(const std::vector<std::string>& modes) {
  return std::ranges::any_of(modes, [](const std::string& mode) { return mode != "eager"; });
}

TaskEvaluator::TaskEvaluator(worker::Toolbox tools, Limits limits, std::shared_ptr<DeviceHost> device,
                             OpenRequest request)
    : tools_(std::move(tools)), limits_(limits), device_(std::move(device)), request_(std::move(request)) {
  std::uint64_t seed = request_.seeds;
  if (seed == 0) (void)!::getrandom(&seed, sizeof seed, 0);
  seeds_.seed(seed);
  if (request_.task_timeout > 0) limits_.open = request_.task_timeout;
  if (request_.blobs.empty()) request_.blobs = (tools_.cache_dir / "blobs").string();
}

TaskEvaluator::~TaskEvaluator() = default;

void TaskEvaluator::make_ready() {
  const auto lock = take_stage();
  if (!lock.has_value()) return;
  // Whoever tries one thing after another on a task needs guests, and no other oracle.
  if (!request_.keep) device_->spares.prepare(compiles(request_.baselines));
  device_->runners.warm_up_torch(request_.ahead ? 2 : 1);
}

std::uint64_t TaskEvaluator::fresh_seed() {
  std::scoped_lock lock(seed_mutex_);
  // torch's generators take 63 bits without complaint.
  return seeds_() >> 1U;
}

void TaskEvaluator::start_what_proves(bool oracle) {
  if (!request_.ahead) return;
  device_->runners.warm_up_torch(2);  // the check's, and the proof's
  device_->spares.prepare(compiles(request_.baselines), oracle);
}

bool TaskEvaluator::keeps_twins() const {
  return backend::named(device_->facts.target).on_host;
}

Status TaskEvaluator::start_oracle() {
  // It becomes the task's once it holds the task: what waits for the device in between may give up.
  PLANISH_TRY(auto oracle, device_->spares.oracle());
  // Beside the capture, which times nothing, others that will be wanted import torch. Where cores are few they would
  // only take them from the oracle, and for nothing where the task cannot be captured: there the proof's follow behind
  // it.
  device_->runners.warm_up_torch(1);
  const bool at_once = std::thread::hardware_concurrency() >= python_processes;
  if (at_once) start_what_proves(!keeps_twins());
  report_work("starting Python and importing PyTorch");
  const std::int64_t since = FileStamps::now();
  PLANISH_TRY(auto hello, off_device([&] { return oracle.hello(device_->facts.target, limits_.start); }));
  if (keeps_twins() && !request_.keep) device_->spares.keep_twin(oracle);
  const TimePoint begin = real_clock().now();
  auto opened = oracle.open(request_.task, request_.accuracy, request_.blobs, limits_.open);
  open_seconds_ = seconds_since(begin);
  if (!opened.has_value()) return blame_task(std::move(opened).error(), request_.task, oracle.stage(), limits_.open);
  start_what_proves(true);  // where there is no twin, a new one as well
  worker::TaskReply& task = *opened;
  files_ = FileStamps(task.files, since);
  variants_ = task.variants;
  reply_.graph = std::move(task.graph);
  reply_.task_name = task.name;
  reply_.task_sha256 = task.source_sha256;
  reply_.parameters = task.parameters;
  reply_.input_bytes = task.input_bytes;
  reply_.torch = hello.torch;
  reply_.python = hello.python;
  reply_.dsls = std::move(hello.dsls);
  oracle_.emplace(std::move(oracle));
  return {};
}

void TaskEvaluator::hide(const std::vector<std::string>& paths) {
  if (tools_.hidden->add(paths)) device_->runners.discard_waiting();
}

Result<OpenReply> TaskEvaluator::open() {
  PLANISH_TRY(const auto lock, take_stage());
  hide(request_.hidden);
  PLANISH_CHECK(make_directories(request_.blobs));
  // A cache that is full or read-only is known now, not after minutes.
  const std::string probe = fmt::format("{}/.probe-{}", request_.blobs, ::getpid());
  PLANISH_CHECK(write_file(probe, std::string(4096, 'x')));
  ::unlink(probe.c_str());
  PLANISH_CHECK(start_oracle());
  begin_baselines();
  PLANISH_TRY(graph_, ir::parse_graph(reply_.graph));
  reply_.blobs = request_.blobs;
  reply_.device = device_->facts;
  Region& whole = regions_["task"];
  whole.request.region = "task";
  std::scoped_lock names(names_mutex_);
  names_.insert("task");
  return reply_;
}

bool TaskEvaluator::can_be_kept() const {
  if (!oracle_.has_value() || !oracle_->alive() || !files_.unchanged()) return false;
  // Seeds that somebody chose are to be drawn from their beginning.
  return request_.keep || (request_.seeds == 0 && !touched_ && regions_.size() == 1);
}

bool TaskEvaluator::can_be_kept(const OpenRequest& request) const {
  return request.keep == request_.keep && (request.keep || request.seeds == 0) && request.task == request_.task &&
         request.accuracy == request_.accuracy &&
         (request.target == request_.target || request.target == device_->facts.target) &&
         (request.blobs.empty() || request.blobs == request_.blobs) && can_be_kept();
}

Result<OpenReply> TaskEvaluator::open_again(const OpenRequest& request) {
  if (request.task_timeout > 0) limits_.open = request.task_timeout;
  PLANISH_TRY(const auto lock, take_stage());
  hide(request.hidden);
  return reply_;
}

Status TaskEvaluator::revive_oracle() {
  if (oracle_.has_value() && oracle_->alive()) return {};
  oracle_.reset();
  for (auto& [name, region] : regions_) region.data.clear();
  PLANISH_CHECK(start_oracle());
  for (auto& [name, region] : regions_) {
    if (name == "task") continue;
    auto known =
        oracle_->region(name, region.request.nodes, region.request.inputs, region.request.outputs, limits_.oracle);
    if (known.has_value()) continue;
    oracle_.reset();  // one that lacks a region is none
    return std::unexpected(std::move(known).error());
  }
  return {};
}

Status TaskEvaluator::check_region(const std::string& name) {
  std::scoped_lock names(names_mutex_);
  if (names_.contains(name)) return {};
  return fail("no_region", fmt::format("there is no region `{}`", name), "describe it with `region` first");
}

Result<TaskEvaluator::Region*> TaskEvaluator::find_region(const std::string& name) {
  PLANISH_CHECK(check_region(name));
  return &regions_.at(name);
}

Result<RegionReply> TaskEvaluator::region(const RegionRequest& request) {
  PLANISH_TRY(const auto lock, take_stage());
  PLANISH_CHECK(revive_oracle());
  Region& region = regions_[request.region];
  if (request.region != "task" && !region.described) {
    if (auto made = oracle_->region(request.region, request.nodes, request.inputs, request.outputs, limits_.oracle);
        !made.has_value()) {
      regions_.erase(request.region);
      return std::unexpected(std::move(made).error());
    }
  }
  region.request = request;
  {
    std::scoped_lock names(names_mutex_);
    names_.insert(request.region);
  }
  make_room(region);
  if (const Region& whole = regions_.at("task"); !region.described && whole.described && is_whole(request)) {
    region.reply = whole.reply;
    region.knows_regimes = region.described = true;
  }
  if (!request.describe) return region.reply;
  return described(region);
}

Status TaskEvaluator::know_regimes(Region& region) {
  if (region.knows_regimes) return {};
  PLANISH_CHECK(add_regimes(*oracle_, region.request.region, region.reply));
  region.knows_regimes = true;
  return {};
}

Result<RegionReply> TaskEvaluator::described(Region& region) {
  PLANISH_CHECK(know_regimes(region));
  if (!region.described) {
    PLANISH_CHECK(add_trivial_outputs(*oracle_, region.request.region, region.reply));
    region.described = true;
  }
  return region.reply;
}

Status TaskEvaluator::add_regimes(worker::Oracle& oracle, const std::string& region, RegionReply& reply) const {
  PLANISH_TRY(auto found, oracle.regimes(region, limits_.oracle));
  reply.regimes = std::move(found.regimes);
  // `task` goes without saying, and first.
  std::erase(reply.regimes, "task");
  reply.regimes.insert(reply.regimes.begin(), "task");
  reply.skipped = std::move(found.skipped);
  return {};
}

Status TaskEvaluator::add_trivial_outputs(worker::Oracle& oracle, const std::string& region, RegionReply& reply) const {
  PLANISH_TRY(auto found, oracle.mutation_check(region, limits_.oracle));
  reply.degenerate = std::move(found.degenerate);
  reply.notes = std::move(found.notes);
  return {};
}

Result<RegionReply> TaskEvaluator::description_of(worker::Oracle& oracle, const std::string& region) const {
  RegionReply out;
  PLANISH_CHECK(add_regimes(oracle, region, out));
  PLANISH_CHECK(add_trivial_outputs(oracle, region, out));
  return out;
}

bool TaskEvaluator::is_whole(const RegionRequest& request) const {
  std::vector<int> inputs, outputs;
  for (const ir::GraphInput& input : graph_.inputs) inputs.push_back(input.value);
  for (const ir::GraphOutput& output : graph_.outputs) outputs.push_back(output.value);
  return request.nodes.size() == graph_.nodes.size() && std::ranges::is_permutation(request.inputs, inputs) &&
         std::ranges::is_permutation(request.outputs, outputs);
}

Status TaskEvaluator::ensure_data(Region& region, std::size_t count) {
  while (region.data.size() < count) {
    Data data;
    data.name = fmt::format("{}.{}", region.request.region, region.data.size());
    data.seed = fresh_seed();
    const TimePoint start = real_clock().now();
    PLANISH_TRY(data.set, oracle_->make(region.request.region, data.name, data.seed, "task", limits_.oracle));
    if (region.data.empty()) region.new_data_seconds = seconds_since(start);
    if (!data.set.skipped.empty())
      return fail("infrastructure", "the task's own data were refused: " + data.set.skipped);
    const auto outputs =
        std::ranges::count_if(data.set.buffers, [](const auto& buffer) { return buffer.role == "output"; });
    region.outputs = static_cast<int>(outputs);
    region.checked.clear();
    for (const auto& buffer : data.set.buffers) {
      if (buffer.role != "output") continue;
      int number = static_cast<int>(region.checked.size());
      if (buffer.name.starts_with("out"))
        std::from_chars(buffer.name.data() + 3, buffer.name.data() + buffer.name.size(), number);
      region.checked.push_back(number);
    }
    region.inputs = static_cast<int>(data.set.buffers.size()) - region.outputs;
    region.data.push_back(std::move(data));
  }
  return {};
}

void TaskEvaluator::make_room(const Region& region) {
  if (device_->facts.memory_bytes <= 0) return;
  double others = 0;
  for (const auto& [name, other] : regions_) {
    if (&other == &region) continue;
    for (const Data& data : other.data) others += static_cast<double>(data.set.bytes() + data.set.expected_bytes());
  }
  constexpr double needed = 8;  // what the region makes of its bytes, the fp64 run itself included
  if (others + needed * region.request.bytes <= static_cast<double>(device_->facts.memory_bytes)) return;
  drop_data(&region);
}

void TaskEvaluator::drop_data(const Region* kept) {
  for (auto& [name, region] : regions_) {
    if (&region == kept) continue;
    for (const Data& data : region.data) (void)oracle_->drop(data.name, limits_.oracle);
    region.data.clear();
  }
}

void TaskEvaluator::let_go() {
  const auto lock = take_stage();
  if (lock.has_value() && oracle_.has_value() && oracle_->alive()) drop_data(nullptr);
}

std::size_t TaskEvaluator::timed_sets(const Region& region) const {
  const double bytes = std::max(1.0, static_cast<double>(region.data.front().set.bytes()));
  const double l2 = static_cast<double>(device_->facts.l2_bytes);
  // Two at least, so that addresses and contents change; four are enough for anything the cache could keep.
  double wanted = std::clamp(std::ceil(4 * l2 / bytes), 2.0, 4.0);
  // Expectations are kept beside the data: what a set costs is about three times its buffers.
  const double room = 0.4 * static_cast<double>(device_->facts.memory_bytes);
  while (wanted > 1 && wanted * bytes > room) wanted -= 1;
  return static_cast<std::size_t>(wanted);
}

}  // namespace planish
