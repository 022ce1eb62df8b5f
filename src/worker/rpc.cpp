#include "worker/rpc.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "base/work_scope.h"
#include "worker/printable.h"

namespace planish::worker {
namespace {

/// What a child was asked for, as a person reads it.
std::string work_of(const std::string& method) {
  return method == "hello" ? "to start" : fmt::format("to answer `{}`", method);
}

}  // namespace

Result<std::unique_ptr<Child>> Child::start(std::string name, const SpawnOptions& options) {
  auto process = Subprocess::spawn(options);
  if (!process.has_value()) return wrap(std::move(process).error(), fmt::format("cannot start the {}", name));
  return std::unique_ptr<Child>(new Child(std::move(name), std::move(*process)));
}

Result<std::unique_ptr<Child>> Child::twin(double timeout_seconds) {
  PLANISH_TRY(auto ends, Subprocess::Ends::make());
  const std::array<int, 2> theirs{ends.theirs[0].get(), ends.theirs[1].get()};
  PLANISH_TRY(const Reply reply, call("twin", Json::object(), theirs, timeout_seconds));
  int pid = 0;
  ObjectReader reader(reply.result, "protocol", "twin");
  reader.integer("pid", pid);
  PLANISH_CHECK(reader.finish());
  ends.theirs = {};
  PLANISH_TRY(auto process, Subprocess::adopt(pid, std::move(ends)));
  return std::unique_ptr<Child>(new Child(name_, std::move(process)));
}

Child::Child(std::string name, Subprocess process)
    : name_(std::move(name)), process_(std::move(process)), family_(process_.pid()), kills_before_(oom_kills_.read()) {}

template <typename Work>
auto Child::within(double timeout_seconds, const std::string& method, Work&& work) {
  using Outcome = decltype(work(TimePoint(), std::declval<bool&>()));
  if (!alive_) return Outcome(fail("exit", fmt::format("the {} is gone", name_)));
  reported_ = false;
  const double left = work_seconds_left();
  if (left <= 0)
    return Outcome(fail("out_of_time", fmt::format("no time was left for the {} {}", name_, work_of(method))));
  bool connection_lost = false;
  Outcome outcome = work(deadline_in(std::min(timeout_seconds, left)), connection_lost);
  if (!connection_lost) {
    if (!stage_.empty()) report_work(std::string_view());  // what it said that it does is done
    kills_before_ = oom_kills_.read();
    return outcome;
  }
  Error inner = std::move(outcome).error();
  // It was not given the time that it may take: no fault of its own.
  if (inner.kind == "timeout" && left < timeout_seconds) inner.kind = "out_of_time";
  return Outcome(lost(std::move(inner), method, std::min(timeout_seconds, left)));
}

Result<Child::Reply> Child::call(const std::string& method, Json params, std::span<const int> fds,
                                 double timeout_seconds) {
  return within(timeout_seconds, method, [&](TimePoint deadline, bool& connection_lost) {
    return exchange(method, std::move(params), fds, deadline, connection_lost);
  });
}

namespace {

/// What runs in a child shares its socket and could answer requests before they are made: the number must not be
/// guessable.
std::int64_t unpredictable_id() {
  std::uint64_t bits = 0;
  while (getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) {
  }
  return static_cast<std::int64_t>(bits >> 1U);
}

/// A child's words, as far as anybody reads them. Of what is long both ends say something.
std::string shown(std::string text) {
  constexpr std::size_t most = 8000;
  if (text.size() > most) {
    const std::size_t cut = text.size() - most;
    text = fmt::format("{}\n… {} bytes left out …\n{}", text.substr(0, most / 2), cut,
                       text.substr(text.size() - most / 2));
  }
  return printable(text);
}

}  // namespace

Result<std::string> Child::receive(TimePoint deadline) {
  const CancelToken* cancel = cancel_.has_value() ? &*cancel_ : nullptr;
  constexpr double awake = 0.01;  // seconds, of a processor
  const double look_every = std::min(1.0, stop_limit_ / 4);
  TimePoint look = deadline_in(look_every), asleep_since = real_clock().now();
  double used = 0, stopped = 0;
  bool ready = true;
  while (true) {
    auto line =
        process_.channel().receive(std::min(deadline, deadline_in(memory_limit_ > 0 ? 0.05 : look_every)), cancel);
    if (line.has_value() || line.error().kind != "timeout") return line;
    if (memory_limit_ > 0 && process_.resident_bytes() > memory_limit_)
      return fail("out_of_memory", fmt::format("used more than {} MiB", memory_limit_ >> 20U));
    const bool looks = seconds_until(look) <= 0;
    if (looks) look = deadline_in(look_every);
    // Counted by looks: who is stopped together with us, and goes on with us, was not left alone.
    if (looks) stopped = family_.first_is_stopped() ? stopped + look_every : 0;
    if (stopped >= stop_limit_)
      return fail("stopped", fmt::format("the {} (process {}) was stopped by a signal (SIGSTOP or job control)", name_,
                                         process_.pid()));
    if (sleep_limit_ > 0 && looks) {
      const Family::Use use = family_.use();
      const double asleep = seconds_since(asleep_since);
      // Once ready to run is what wakes up for a moment and, on a busy machine, waits for a core; twice in a row works.
      const bool works = !use.waits && ready;
      ready = !use.waits;
      if (works || use.processes <= alone_ || use.seconds - used > awake * std::max(asleep, 1.0)) {
        asleep_since = real_clock().now();
        used = use.seconds;
      } else if (asleep > sleep_limit_) {
        return fail("hang", fmt::format("its {} processes slept for {:.0f} s", use.processes, asleep));
      }
    }
    if (seconds_until(deadline) <= 0) return line;
  }
}

Status Child::send(std::int64_t id, const std::string& method, Json params, std::span<const int> fds,
                   TimePoint deadline) {
  family_.go_on();
  stage_.clear();
  Json request{{"id", id}, {"method", method}, {"params", std::move(params)}};
  if (!fds.empty()) request["fds"] = fds.size();
  // A child that died while we send may have left its reason in the socket: read on.
  auto sent = process_.channel().send(dump_json(request), fds, deadline);
  return sent.has_value() || sent.error().kind == "closed" ? Status() : sent;
}

Result<Child::Reply> Child::exchange(const std::string& method, Json params, std::span<const int> fds,
                                     TimePoint deadline, bool& connection_lost) {
  const std::int64_t id = unpredictable_id();
  if (auto sent = send(id, method, std::move(params), fds, deadline); !sent.has_value()) {
    connection_lost = true;
    return std::unexpected(std::move(sent).error());
  }
  PLANISH_TRY(auto reply, answer(id, false, deadline, connection_lost));
  return std::move(*reply);
}

Status Child::prepare(const std::string& method, Json params, double timeout_seconds) {
  return within(timeout_seconds, method, [&](TimePoint deadline, bool& connection_lost) -> Status {
    prepared_ = unpredictable_id();
    if (auto sent = send(prepared_, method, std::move(params), {}, deadline); !sent.has_value()) {
      connection_lost = true;
      return sent;
    }
    PLANISH_TRY(const auto reply, answer(prepared_, true, deadline, connection_lost));
    if (reply.has_value()) {
      connection_lost = true;
      return fail("bad_message", fmt::format("answer of the {}: it came before it was rung for", name_));
    }
    hold();
    return {};
  });
}

void Child::hold() {
  if (!alive_) return;
  family_.stop();
  family_.stop_others();
  family_.settle();
}

Result<Child::Answered> Child::ring(double timeout_seconds) {
  return within(timeout_seconds, "call", [&](TimePoint deadline, bool& connection_lost) -> Result<Answered> {
    // Drawn now, so that nobody can have answered before.
    const std::string word = fmt::format("{:x}", unpredictable_id());
    const auto broken = [&](Error error) {
      connection_lost = true;
      return std::unexpected(std::move(error));
    };
    const double worked = family_.worked_since();
    const TimePoint start = real_clock().now();
    family_.go_on();
    if (auto sent = process_.channel().send_raw(word + "\n"); !sent.has_value() && sent.error().kind != "closed")
      return broken(std::move(sent).error());
    auto line = receive(deadline);
    family_.stop();
    double seconds = seconds_since(start);
    // What is new since ran on until now, and may have worked.
    if (family_.stop_others()) seconds = seconds_since(start);
    family_.settle();
    if (!line.has_value()) {
      family_.go_on();  // whoever watches over it is to see how it ended
      return broken(std::move(line).error());
    }
    if (!line->starts_with(word + " "))
      return broken(Error{"bad_message", fmt::format("the {} answered what it was not rung for", name_), {}, {}});
    return Answered{line->substr(word.size() + 1), process_.channel().sender(), seconds, worked};
  });
}

Result<Child::Reply> Child::finish(double timeout_seconds) {
  family_.go_on();
  return within(timeout_seconds, "call", [&](TimePoint deadline, bool& connection_lost) -> Result<Reply> {
    PLANISH_TRY(auto reply, answer(prepared_, false, deadline, connection_lost));
    return std::move(*reply);
  });
}

Result<std::optional<Child::Reply>> Child::answer(std::int64_t id, bool may_be_ready, TimePoint deadline,
                                                  bool& connection_lost) {
  // An error of the connection, as opposed to one that the child reports.
  const auto broken = [&connection_lost](Error error) {
    connection_lost = true;
    return std::unexpected(std::move(error));
  };
  while (true) {
    auto line = receive(deadline);
    if (!line.has_value()) return broken(std::move(line).error());
    auto parsed = parse_json(*line, "bad_message", "answer of the " + name_);
    if (!parsed.has_value()) return broken(std::move(parsed).error());
    const Json& message = *parsed;
    const auto malformed = [&](std::string_view what) {
      return broken(Error{"bad_message", fmt::format("answer of the {}: {}", name_, what), {line->substr(0, 500)}, {}});
    };
    if (!message.is_object()) return malformed("not an object");
    std::vector<UniqueFd> received;
    if (const auto count = message.find("fds"); count != message.end()) {
      if (!count->is_number_unsigned() || count->get<std::uint64_t>() > Channel::max_waiting_fds)
        return malformed("bad `fds`");
      auto taken = process_.channel().take_fds(count->get<std::size_t>());
      if (!taken.has_value()) return broken(std::move(taken).error());
      received = std::move(*taken);
    }
    if (message.contains("event")) {
      // Whoever says something all the time would be listened to for ever, whatever the deadline.
      if (seconds_until(deadline) <= 0) return broken(Error{"timeout", "the deadline passed", {}, {}});
      if (message["event"] == "fault") {
        Fault fault;
        ObjectReader reader(message, "bad_message", "fault");
        reader.lenient();
        reader.integer("signal", fault.signal, ObjectReader::Need::optional);
        reader.text("address", fault.address, ObjectReader::Need::optional);
        reader.text("where", fault.where, ObjectReader::Need::optional);
        fault_ = std::move(fault);
      } else if (message["event"] == "stage" && message.contains("stage") && message["stage"].is_string()) {
        const std::string stage = printable(message["stage"].get<std::string>().substr(0, 200));
        const auto told = message.find("seconds");
        const double seconds = told != message.end() && told->is_number() ? told->get<double>() : 0;
        if (stage != std::exchange(stage_, stage)) report_work({.text = stage_, .seconds = seconds});
      } else if (message["event"] == "sandbox" && !asked_ && sandbox_.empty() && message.contains("sandbox")) {
        sandbox_ = dump_json(message["sandbox"]);
      } else if (message["event"] == "ready" && may_be_ready) {
        return std::optional<Reply>();
      }
      continue;
    }
    // Not asked of events: the descriptors of the answer behind one may have been read together with it.
    if (process_.channel().waiting_fds() > 0) return malformed("descriptors that it does not name");
    if (!message.contains("id") || message["id"] != id) return malformed("not the answer to this request");
    if (!asked_ && sleep_limit_ > 0) alone_ = family_.use().processes;
    asked_ = true;
    if (const auto error = message.find("error"); error != message.end()) {
      std::string kind, message_of_it, trace;
      ObjectReader reader(*error, "bad_message", "error");
      reader.lenient();
      reader.text("kind", kind);
      reader.text("message", message_of_it);
      Error reported = error_in(*error);
      reported.causes.clear();
      if (error->is_object() && error->contains("trace") && (*error)["trace"].is_string())
        trace = (*error)["trace"].get<std::string>();
      if (!reader.finish().has_value()) return malformed("its error has no kind and message");
      if (!trace.empty()) reported.causes.push_back(std::move(trace));
      reported.message = shown(std::move(reported.message));
      reported.hint = shown(std::move(reported.hint));
      reported.about = shown(std::move(reported.about));
      for (std::string& cause : reported.causes) cause = shown(std::move(cause));
      reported_ = true;
      return std::unexpected(std::move(reported));
    }
    const auto result = message.find("result");
    if (result == message.end() || !result->is_object()) return malformed("neither result nor error");
    return std::optional(Reply{*result, std::move(received)});
  }
}

std::unexpected<Error> Child::lost(Error error, const std::string& method, double timeout_seconds) {
  alive_ = false;
  Error result;
  if (error.kind == "closed" || error.kind == "io") {
    // The socket closes before the process can be reaped.
    auto status = process_.wait(deadline_in(5));
    if (!status.has_value()) {
      result = {
          "protocol", fmt::format("the {} closed its socket during `{}` and went on running", name_, method), {}, {}};
    } else if (fault_.has_value() && fault_->where == "memory") {
      result = {"out_of_memory", fmt::format("the {} used more memory than it may during `{}`", name_, method), {}, {}};
    } else if (fault_.has_value() && fault_->where == "disk") {
      result = {"out_of_memory", fmt::format("the {} wrote more than 32 GiB during `{}`", name_, method), {}, {}};
    } else if (fault_.has_value()) {
      // Its handler reports the signal and then exits by itself.
      result = {"crash",
                fmt::format("the {} died of signal {} during `{}` (address {}, {})", name_, fault_->signal, method,
                            fault_->address, fault_->where),
                {},
                {}};
    } else if (status->signal == SIGKILL && oom_kills_.read() > kills_before_) {
      result = {"out_of_memory",
                fmt::format("the kernel killed the {} during `{}` for lack of memory", name_, method),
                {},
                "free memory or use smaller inputs"};
    } else if (status->signal == SIGKILL) {
      result = {"killed",
                fmt::format("the {} was killed by signal 9 during `{}`; the kernel counts no kill for lack of memory, "
                            "and {:.1f} GiB are available",
                            name_, method, static_cast<double>(available_memory()) / (1U << 30U)),
                {},
                "a job manager's limit or a person ended it: see the system log"};
    } else if (status->signal != 0) {
      result = {"crash", fmt::format("the {} died of {} during `{}`", name_, status->text(), method), {}, {}};
    } else {
      result = {"exit", fmt::format("the {} ended with {} during `{}`", name_, status->text(), method), {}, {}};
    }
  } else if (error.kind == "out_of_time") {
    result = {"out_of_time",
              fmt::format("time ran out for the {} {}{}", name_, work_of(method),
                          stage_.empty() ? std::string() : fmt::format(" ({})", stage_)),
              {},
              {}};
    process_.kill();
    (void)process_.wait(deadline_in(5));
    return std::unexpected(std::move(result));
  } else if (error.kind == "timeout") {
    result = {"hang",
              fmt::format("the {} did not answer `{}` within {:.1f} s and was ended", name_, method, timeout_seconds),
              {},
              {}};
  } else if (error.kind == "stopped") {
    result = {
        "killed",
        fmt::format("{} during `{}`, did not go on within {:.0f} s and was ended", error.message, method, stop_limit_),
        {},
        "find out who stopped it (a job manager, a debugger, `kill -STOP`), and run the command again"};
  } else if (error.kind == "hang") {
    result = {"hang",
              fmt::format("{} during `{}` and waited for each other", error.message, method),
              {},
              "a process that is forked once torch has used threads waits for ever: use threads, or start processes "
              "before the first operator, or by spawn"};
  } else if (error.kind == "out_of_memory" || error.kind == "cancelled") {
    result = {error.kind, fmt::format("the {} was ended during `{}`: {}", name_, method, error.message), {}, {}};
  } else {
    result = {"protocol", error.message, std::move(error.causes), {}};
  }
  process_.kill();
  (void)process_.wait(deadline_in(5));
  if (std::string tail = printable(process_.output_tail()); !tail.empty()) {
    constexpr std::size_t shown = 4000;
    result.causes.push_back(tail.size() > shown ? tail.substr(tail.size() - shown) : tail);
  }
  return std::unexpected(std::move(result));
}

}  // namespace planish::worker
