#include "environment/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"

namespace planish::environment {
namespace {

constexpr std::string_view task_path = "/v1/tasks/";
constexpr std::string_view grade_path = "/v1/grade", grades_path = "/v1/grades/", tasks_path = "/v1/tasks",
                           health_path = "/healthz", metrics_path = "/metrics";
constexpr int schema_version = 1;
constexpr std::size_t most_id = 64;

Json error_document(const Error& error) {
  return {{"schema_version", schema_version},
          {"error", {{"kind", error.kind}, {"message", error.message}, {"hint", error.hint}}}};
}

http::Response refusal(int status, ErrorKind kind, std::string message, std::string hint = {}) {
  return {status, dump_json(error_document({kind, std::move(message), {}, std::move(hint)})), "application/json", {}};
}

int status_of(ErrorKind kind) {
  struct Row {
    ErrorKind kind;
    int status;
  };
  constexpr Row statuses[] = {{"bad_request", 400}, {"task_sources_off", 403}, {"no_such_task", 404},
                              {"id_taken", 409},    {"queue_full", 429},       {"stopping", 503}};
  const auto* found = std::ranges::find(statuses, kind, &Row::kind);
  return found == std::end(statuses) ? 500 : found->status;
}

/// Takes as long whatever is wrong with it.
bool same_token(std::string_view given, std::string_view token) {
  const std::string a = sha256_hex(given), b = sha256_hex(token);
  unsigned difference = 0;
  for (std::size_t i = 0; i < b.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

/// A Host header, with or without its port. Without one (HTTP/1.0) it is no browser's.
bool names_this_machine(std::string_view host) {
  if (host.empty()) return true;
  const bool v6 = host.starts_with('[');
  const std::size_t end = v6 ? host.find(']') : host.find(':');
  const std::string name(v6 ? host.substr(1, end - 1) : host.substr(0, end));
  const auto loopback = http::is_loopback(name);
  return loopback.has_value() && *loopback;
}

bool good_id(std::string_view id) {
  return !id.empty() && id.size() <= most_id && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

Json document_of(const Report& report) {
  Json out = {{"schema_version", schema_version},
              {"id", report.id},
              {"task", report.task},
              {"status", name(report.stage)},
              {"attempts", report.attempts}};
  if (report.stage == Stage::queued) out["ahead"] = report.ahead;
  if (!report.grade) return out;
  const Grade& grade = *report.grade;
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  out.update({{"form", grade.form ? Json(name(*grade.form)) : Json()},
              {"format_ok", grade.format_ok},
              {"compiled", grade.compiled},
              {"correct", grade.correct},
              {"speedup", number(grade.speedup)},
              {"speedup_interval", grade.speedup_lo ? Json{*grade.speedup_lo, *grade.speedup_hi} : Json()},
              {"baseline", grade.baseline.empty() ? Json() : Json(grade.baseline)},
              {"reward", number(grade.reward)},
              {"outcome", grade.outcome},
              {"message", grade.message},
              {"seconds", {{"queued", report.queued_seconds}, {"judged", report.judged_seconds}}},
              {"error", nullptr},
              {"verdict", grade.verdict.empty() ? Json() : json_or_discarded(grade.verdict)}});
  if (grade.error) out["error"] = error_document(*grade.error)["error"];
  return out;
}

}  // namespace

std::optional<http::Response> Service::gate(const http::Head& head) const {
  // A page in a browser says where it comes from, or, where its own name leads here, calls this endpoint by that name.
  if (!head.origin.empty())
    return refusal(403, "foreign_origin", "web pages are not served", "ask without an Origin header");
  if (options_.loopback && !names_this_machine(head.host)) {
    return refusal(403, "foreign_origin", "this endpoint has another name",
                   "ask for it as localhost, 127.0.0.1 or [::1]");
  }
  if (!options_.token.empty() && head.path != health_path) {
    constexpr std::string_view scheme = "Bearer ";
    const std::string_view given = head.authorization;
    if (!given.starts_with(scheme) || !same_token(given.substr(scheme.size()), options_.token)) {
      auto out = refusal(401, "unauthorized", "the token is missing or wrong", "send `Authorization: Bearer TOKEN`");
      out.headers.emplace_back("WWW-Authenticate", "Bearer");
      return out;
    }
  }
  if (head.path == grade_path) {
    if (head.method != "POST") return refusal(405, "bad_method", "a completion is sent with POST");
    // A page in a browser cannot send this type to another origin unasked.
    if (!head.content_type.starts_with("application/json"))
      return refusal(415, "bad_type", "the body is not said to be JSON", "send `Content-Type: application/json`");
    if (head.chunked || head.content_length < 0)
      return refusal(411, "no_length", "the body's length is not announced", "send Content-Length");
    if (head.content_length > static_cast<std::int64_t>(options_.most_bytes)) {
      return refusal(413, "too_long",
                     fmt::format("the body has {} bytes, {} may be", head.content_length, options_.most_bytes));
    }
    return std::nullopt;
  }
  const bool known = head.path == tasks_path || head.path.starts_with(task_path) || head.path == health_path ||
                     head.path == metrics_path || head.path.starts_with(grades_path);
  if (!known) return refusal(404, "no_such_path", "there is nothing here", "docs/environment.md lists the paths");
  if (head.method != "GET") return refusal(405, "bad_method", "this is read with GET");
  if (head.chunked || head.content_length != 0) return refusal(400, "bad_request", "a GET has no body here");
  return std::nullopt;
}

void Service::handle(http::Request request, const std::shared_ptr<http::Reply>& reply) {
  const http::Head& head = request.head;
  if (head.path == grade_path) return grade(request.body, reply);
  if (head.path == health_path) {
    const bool stopping = board_.closed();
    reply->answer(
        {stopping ? 503 : 200, stopping ? R"({"status":"stopping"})" : R"({"status":"ok"})", "application/json", {}});
  } else if (head.path == metrics_path) {
    reply->answer({200, board_.metrics(), "text/plain; version=0.0.4", {}});
  } else if (head.path == tasks_path) {
    Json names = Json::array();
    for (const auto& [task, path] : options_.tasks) names.push_back(task);
    reply->answer({200, dump_json({{"schema_version", schema_version}, {"tasks", names}}), "application/json", {}});
  } else if (head.path.starts_with(task_path)) {
    reply->answer(task(head.path.substr(task_path.size())));
  } else {
    double wait = 0;
    const std::string& text = head.query_wait;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), wait);
    if (!text.empty() && (read.ec != std::errc() || read.ptr != text.data() + text.size() || !(wait >= 0)))
      return reply->answer(refusal(400, "bad_request", "`wait` is no number of seconds"));
    answer_later(head.path.substr(grades_path.size()), wait, reply);
  }
}

http::Response Service::task(const std::string& name_of_it) const {
  const auto found = options_.tasks.find(name_of_it);
  if (found == options_.tasks.end()) return refusal(404, "no_such_task", "there is no such task here");
  const auto source = read_file(found->second);
  if (!source) return refusal(500, source.error().kind, "the task's file cannot be read");
  return {200,
          dump_json({{"schema_version", schema_version}, {"task", name_of_it}, {"source", *source}}),
          "application/json",
          {}};
}

void Service::grade(const std::string& body, const std::shared_ptr<http::Reply>& reply) {
  double wait = options_.most_wait;
  auto submission = submission_in(body, wait);
  auto id =
      submission ? board_.submit(std::move(*submission)) : Result<std::string>(std::unexpected(submission.error()));
  if (!id) {
    http::Response out{status_of(id.error().kind), dump_json(error_document(id.error())), "application/json", {}};
    if (out.status == 429 || out.status == 503)
      out.headers.emplace_back("Retry-After", std::to_string(board_.retry_seconds()));
    return reply->answer(std::move(out));
  }
  answer_later(*id, wait, reply);
}

Result<Submission> Service::submission_in(const std::string& body, double& wait) const {
  PLANISH_TRY(const Json json, parse_json(body, "bad_request", "the body"));
  Submission out;
  std::string source;
  ObjectReader reader(json, "bad_request", "the body");
  reader.text("task", out.task, ObjectReader::Need::optional);
  reader.text("task_source", source, ObjectReader::Need::optional);
  reader.text("completion", out.completion);
  reader.text("id", out.id, ObjectReader::Need::optional);
  reader.number("wait", wait, ObjectReader::Need::optional);
  if (out.task.empty() == source.empty()) reader.problem("one of `task` and `task_source` is needed");
  if (!(wait >= 0)) reader.problem("`wait` is a number of seconds");
  if (json.contains("id") && !good_id(out.id))
    reader.problem(fmt::format("`id` has 1 to {} letters, digits, - and _", most_id));
  PLANISH_CHECK(reader.finish());
  if (source.empty()) {
    const auto found = options_.tasks.find(out.task);
    if (found == options_.tasks.end()) {
      return fail("no_such_task", fmt::format("there is no task `{}` here", out.task),
                  fmt::format("GET {} lists them", tasks_path));
    }
    out.task_path = found->second;
    return out;
  }
  if (!options_.task_sources) {
    return fail("task_sources_off", "tasks cannot be sent to this endpoint: their code runs with its user's rights",
                "name one of its own, or start it with --task-sources");
  }
  out.task = "source-" + sha256_hex(source).substr(0, 16);
  out.task_path = options_.folder / (out.task + ".py");
  std::error_code ignored;
  if (!std::filesystem::exists(out.task_path, ignored)) PLANISH_CHECK(write_file(out.task_path, source));
  return out;
}

void Service::answer_later(const std::string& id, double wait, const std::shared_ptr<http::Reply>& reply) {
  const TimePoint deadline = deadline_in(std::min(wait, options_.most_wait));
  const bool known = board_.watch(id, deadline, [reply](const Report& report) {
    reply->answer({report.grade ? 200 : 202, dump_json(document_of(report)), "application/json", {}});
  });
  if (!known)
    reply->answer(refusal(404, "no_such_grade", "nothing is known under this id", "old grades are forgotten"));
}

}  // namespace planish::environment
