#include "worker/oracle.h"

#include <fmt/core.h>

#include <charconv>

#include "worker/note_json.h"
#include "worker/replies.h"
#include "worker/rpc.h"

namespace planish::worker {
namespace {
using Need = ObjectReader::Need;

/// A number where the text is one, so that `1e-4` arrives as the wire has it.
Json accuracy_json(const std::string& accuracy) {
  double value = 0;
  const auto [end, code] = std::from_chars(accuracy.data(), accuracy.data() + accuracy.size(), value);
  if (code == std::errc() && end == accuracy.data() + accuracy.size()) return value;
  return accuracy;
}

}  // namespace

Oracle::Oracle(std::unique_ptr<Child> child) : child_(std::move(child)) {}
Oracle::Oracle(Oracle&&) noexcept = default;
Oracle& Oracle::operator=(Oracle&&) noexcept = default;
Oracle::~Oracle() = default;

Result<Oracle> Oracle::start(const Toolbox& tools) {
  return start(tools.capture_module("planish.oracle"));
}

Result<Oracle> Oracle::start(SpawnOptions options) {
  // Between two timed calls it writes new contents. Threads that spin for milliseconds after that would take the cores
  // from whoever is called next.
  options.env.emplace_back("OMP_WAIT_POLICY", "passive");
  PLANISH_TRY(auto child, Child::start("oracle", options));
  return Oracle(std::move(child));
}

Result<Oracle> Oracle::twin(double timeout_seconds) {
  PLANISH_TRY(auto child, child_->twin(timeout_seconds));
  return Oracle(std::move(child));
}

Result<HelloReply> Oracle::hello(const std::string& device, double timeout_seconds) {
  PLANISH_TRY(auto reply, child_->call("hello", Json{{"device", device}}, {}, timeout_seconds));
  return read_hello(reply.result);
}

Result<TaskReply> Oracle::open(const std::string& task, const std::string& accuracy, const std::string& blobs,
                               double timeout_seconds, int variant) {
  Json params{{"task", task}, {"accuracy", accuracy_json(accuracy)}, {"blobs", blobs}};
  if (variant > 0) params["variant"] = variant;
  PLANISH_TRY(auto reply, child_->call("open", std::move(params), {}, timeout_seconds));
  TaskReply result;
  ObjectReader reader(reply.result, "protocol", "open");
  reader.lenient();
  if (const Json* graph = reader.object("graph"); graph != nullptr) result.graph = dump_json(*graph);
  if (const Json* facts = reader.object("task"); facts != nullptr) {
    ObjectReader inner(*facts, "protocol", "open.task");
    inner.lenient();
    inner.text("name", result.name);
    inner.text("source_sha256", result.source_sha256, Need::optional);
    inner.integer("parameters", result.parameters, Need::optional);
    inner.integer("input_bytes", result.input_bytes, Need::optional);
    inner.boolean("variants", result.variants, Need::optional);
    inner.texts("files", result.files, Need::optional);
    PLANISH_CHECK(inner.finish());
  }
  PLANISH_CHECK(reader.finish());
  return result;
}

Status Oracle::region(const std::string& region, const std::vector<int>& nodes, const std::vector<int>& inputs,
                      const std::vector<int>& outputs, double timeout_seconds) {
  PLANISH_CHECK(child_->call("region",
                             Json{{"region", region}, {"nodes", nodes}, {"inputs", inputs}, {"outputs", outputs}}, {},
                             timeout_seconds));
  return {};
}

Result<DataSet> Oracle::make(const std::string& region, const std::string& data, std::uint64_t seed,
                             const std::string& regime, double timeout_seconds, bool own_parameters,
                             Variation variation) {
  Json params{{"region", region}, {"data", data}, {"seed", seed}, {"regime", regime}};
  if (own_parameters) params["own_parameters"] = true;
  if (variation.has_value()) params["own_parameters"] = *variation;
  PLANISH_TRY(auto reply, child_->call("make", std::move(params), {}, timeout_seconds));
  DataSet set;
  set.name = data;
  ObjectReader reader(reply.result, "protocol", "make");
  reader.lenient();
  reader.text("skipped", set.skipped, Need::optional);
  const Json* buffers = reader.array("buffers", set.skipped.empty() ? Need::required : Need::optional);
  PLANISH_CHECK(reader.finish());
  if (!set.skipped.empty()) return set;
  if (buffers->size() != reply.fds.size()) {
    return fail("protocol", fmt::format("make: {} buffers and {} descriptors", buffers->size(), reply.fds.size()));
  }
  for (std::size_t i = 0; i < buffers->size(); ++i) {
    PLANISH_TRY(auto buffer, read_buffer((*buffers)[i], std::move(reply.fds[i]), fmt::format("make.buffers[{}]", i)));
    set.buffers.push_back(std::move(buffer));
  }
  return set;
}

Result<std::string> Oracle::refresh(const std::string& data, std::uint64_t seed, const std::string& regime,
                                    double timeout_seconds) {
  PLANISH_TRY(auto reply,
              child_->call("refresh", Json{{"data", data}, {"seed", seed}, {"regime", regime}}, {}, timeout_seconds));
  std::string skipped;
  ObjectReader reader(reply.result, "protocol", "refresh");
  reader.lenient();
  reader.text("skipped", skipped, Need::optional);
  PLANISH_CHECK(reader.finish());
  return skipped;
}

Status Oracle::poison(const std::string& data, double timeout_seconds) {
  PLANISH_CHECK(child_->call("poison", Json{{"data", data}}, {}, timeout_seconds));
  return {};
}

Result<CheckReply> Oracle::check(const std::string& data, const std::string& stage, double timeout_seconds,
                                 bool digest) {
  Json params{{"data", data}, {"stage", stage}};
  if (digest) params["digest"] = true;
  PLANISH_TRY(auto reply, child_->call("check", std::move(params), {}, timeout_seconds));
  return read_check(reply.result);
}

namespace {

/// A truth, or nothing where none is known.
Result<std::optional<bool>> same_of(const Child::Reply& reply, const char* method) {
  ObjectReader reader(reply.result, "protocol", method);
  const Json* same = reader.get("same");
  PLANISH_CHECK(reader.finish());
  return same->is_boolean() ? std::optional<bool>(same->get<bool>()) : std::nullopt;
}

}  // namespace

Result<std::optional<bool>> Oracle::repeat(const std::string& data, double timeout_seconds) {
  PLANISH_TRY(auto reply, child_->call("repeat", Json{{"data", data}}, {}, timeout_seconds));
  return same_of(reply, "repeat");
}

Result<std::optional<bool>> Oracle::other_mode(const std::string& data, double timeout_seconds) {
  PLANISH_TRY(auto reply, child_->call("other_mode", Json{{"data", data}}, {}, timeout_seconds));
  return same_of(reply, "other_mode");
}

Result<MutationReply> Oracle::mutation_check(const std::string& region, double timeout_seconds) {
  PLANISH_TRY(auto reply, child_->call("mutation_check", Json{{"region", region}}, {}, timeout_seconds));
  MutationReply found;
  ObjectReader reader(reply.result, "protocol", "mutation_check");
  reader.lenient();
  reader.texts("degenerate", found.degenerate);
  reader.texts("tried", found.tried, Need::optional);
  PLANISH_TRY(found.notes, read_notes(reader.get("notes", Need::optional)));
  PLANISH_CHECK(reader.finish());
  return found;
}

Result<RegimesReply> Oracle::regimes(const std::string& region, double timeout_seconds) {
  PLANISH_TRY(auto reply, child_->call("regimes", Json{{"region", region}}, {}, timeout_seconds));
  return read_regimes(reply.result);
}

Status Oracle::drop(const std::string& data, double timeout_seconds) {
  PLANISH_CHECK(child_->call("drop", Json{{"data", data}}, {}, timeout_seconds));
  return {};
}

bool Oracle::running() {
  return child_->running();
}
bool Oracle::alive() const {
  return child_->alive();
}
std::string Oracle::stage() const {
  return child_->stage();
}
void Oracle::kill() {
  child_->kill();
}
void Oracle::set_cancel(CancelToken token) {
  child_->set_cancel(std::move(token));
}

}  // namespace planish::worker
