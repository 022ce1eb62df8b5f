#include "worker/replies.h"

#include <fmt/core.h>

#include <cmath>

namespace planish::worker {
namespace {
using Need = ObjectReader::Need;

Result<OutputErrors> read_errors(const Json& json, const std::string& where) {
  OutputErrors errors;
  ObjectReader reader(json, "protocol", where);
  reader.lenient();
  reader.number("fro", errors.fro, Need::optional);
  reader.number("max", errors.max, Need::optional);
  reader.number("gate_fro", errors.gate_fro, Need::optional);
  reader.number("gate_max", errors.gate_max, Need::optional);
  reader.number("eager_fro", errors.eager_fro, Need::optional);
  reader.number("eager_max", errors.eager_max, Need::optional);
  reader.number("ratio", errors.ratio, Need::optional);
  reader.number("eps", errors.eps, Need::optional);
  reader.text("statistic", errors.statistic, Need::optional);
  reader.integer("zero_signs", errors.zero_signs, Need::optional);
  if (const Json* slope = reader.get("slope", Need::optional); slope != nullptr && slope->is_number())
    errors.slope = slope->get<double>();
  if (const Json* json_worst = reader.get("worst", Need::optional); json_worst != nullptr && json_worst->is_object()) {
    WorstElement worst;
    ObjectReader inner(*json_worst, "protocol", where + ".worst");
    inner.lenient();
    inner.integers("index", worst.index, Need::optional);
    inner.number("expected", worst.expected, Need::optional);
    inner.number("actual", worst.actual, Need::optional);
    inner.number("eager", worst.eager, Need::optional);
    PLANISH_CHECK(inner.finish());
    errors.worst = std::move(worst);
  }
  PLANISH_CHECK(reader.finish());
  return errors;
}

}  // namespace

Result<HelloReply> read_hello(const Json& json) {
  HelloReply hello;
  ObjectReader reader(json, "protocol", "hello");
  reader.lenient();
  reader.text("kind", hello.kind, Need::optional);
  reader.text("torch", hello.torch, Need::optional);
  reader.text("python", hello.python, Need::optional);
  reader.texts("dsls", hello.dsls, Need::optional);
  if (const Json* device = reader.get("device", Need::optional); device != nullptr && device->is_object()) {
    ObjectReader inner(*device, "protocol", "hello.device");
    inner.lenient();
    inner.text("kind", hello.device_kind, Need::optional);
    inner.text("name", hello.device_name, Need::optional);
    inner.text("arch", hello.arch, Need::optional);
    inner.text("uuid", hello.uuid, Need::optional);
    inner.integer("sms", hello.sms, Need::optional);
    inner.integer("l2_bytes", hello.l2_bytes, Need::optional);
    inner.integer("shared_bytes_optin", hello.shared_bytes, Need::optional);
    inner.integer("shared_bytes", hello.shared_bytes, Need::optional);
    inner.integer("memory", hello.memory_bytes, Need::optional);
    inner.integer("memory_bytes", hello.memory_bytes, Need::optional);
    inner.integer("cores", hello.cores, Need::optional);
    PLANISH_CHECK(inner.finish());
  }
  PLANISH_CHECK(reader.finish());
  return hello;
}

Result<CheckReply> read_check(const Json& json) {
  CheckReply check;
  ObjectReader reader(json, "protocol", "check");
  reader.lenient();
  reader.boolean("ok", check.ok);
  if (const Json* problem = reader.get("problem", Need::optional); problem != nullptr && problem->is_string()) {
    check.problem = problem->get<std::string>();
  }
  if (const Json* reference = reader.get("reference", Need::optional); reference != nullptr && reference->is_string()) {
    check.reference = reference->get<std::string>();
  }
  if (const Json* message = reader.get("message", Need::optional); message != nullptr && message->is_string()) {
    check.message = message->get<std::string>();
  }
  reader.text("digest", check.digest, Need::optional);
  if (const Json* outputs = reader.array("outputs", Need::optional); outputs != nullptr) {
    for (std::size_t i = 0; i < outputs->size(); ++i) {
      PLANISH_TRY(auto errors, read_errors((*outputs)[i], fmt::format("check.outputs[{}]", i)));
      check.outputs.push_back(std::move(errors));
    }
  }
  if (check.ok && !check.problem.empty()) reader.problem("ok, and yet a problem");
  PLANISH_CHECK(reader.finish());
  return check;
}

Result<Timing> read_timing(const Json& json) {
  Timing timing;
  ObjectReader reader(json, "protocol", "time");
  reader.lenient();
  reader.numbers("samples_ms", timing.samples_ms);
  reader.number("median_ms", timing.median_ms);
  reader.number("lo_ms", timing.lo_ms);
  reader.number("hi_ms", timing.hi_ms);
  reader.number("host_us", timing.host_us, Need::optional);
  reader.number("latency_ms", timing.latency_ms, Need::optional);
  reader.number("latency_lo_ms", timing.latency_lo_ms, Need::optional);
  reader.number("latency_hi_ms", timing.latency_hi_ms, Need::optional);
  reader.number("kept_ms", timing.kept_ms, Need::optional);
  reader.number("kept_lo_ms", timing.kept_lo_ms, Need::optional);
  reader.number("kept_hi_ms", timing.kept_hi_ms, Need::optional);
  reader.number("busy", timing.busy, Need::optional);
  for (double sample : timing.samples_ms) {
    if (!std::isfinite(sample) || sample < 0) reader.problem("a sample is no time");
  }
  if (timing.samples_ms.empty()) reader.problem("no samples");
  PLANISH_CHECK(reader.finish());
  return timing;
}

Result<RegimesReply> read_regimes(const Json& json) {
  RegimesReply reply;
  ObjectReader reader(json, "protocol", "regimes");
  reader.lenient();
  reader.texts("regimes", reply.regimes);
  if (const Json* skipped = reader.object("skipped", Need::optional); skipped != nullptr) {
    for (const auto& [regime, reason] : skipped->items()) {
      reply.skipped[regime] = reason.is_string() ? reason.get<std::string>() : dump_json(reason);
    }
  }
  PLANISH_CHECK(reader.finish());
  return reply;
}

Result<SharedBuffer> read_buffer(const Json& json, UniqueFd fd, const std::string& where) {
  SharedBuffer buffer;
  ObjectReader reader(json, "protocol", where);
  reader.lenient();
  reader.text("name", buffer.name, Need::optional);
  reader.text("role", buffer.role, Need::optional);
  reader.text("dtype", buffer.dtype);
  reader.integers("shape", buffer.shape);
  reader.integers("strides", buffer.strides);
  reader.integer("bytes", buffer.bytes);
  reader.integer("offset", buffer.offset);
  reader.integer("map_bytes", buffer.map_bytes);
  reader.text("device", buffer.device);
  reader.boolean("writable", buffer.writable, Need::optional);
  PLANISH_CHECK(reader.finish());
  buffer.fd = std::move(fd);
  return buffer;
}

Json write_buffer(const SharedBuffer& buffer) {
  return Json{{"dtype", buffer.dtype},   {"shape", buffer.shape},      {"strides", buffer.strides},
              {"bytes", buffer.bytes},   {"offset", buffer.offset},    {"map_bytes", buffer.map_bytes},
              {"device", buffer.device}, {"writable", buffer.writable}};
}

}  // namespace planish::worker
