#include "session/tape.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>

#include "base/file.h"
#include "base/json.h"
#include "evaluate/codec.h"

namespace planish::session {
namespace {

constexpr int tape_version = 1;
constexpr std::array<std::string_view, 3> event_names{"proposal", "failed", "finished"};

Error corrupt(std::string message) {
  return {"cassette_corrupt", std::move(message), {}, "record the run again"};
}

}  // namespace

Result<std::unique_ptr<Tape>> Tape::record(const std::filesystem::path& folder, const std::string& settings) {
  PLANISH_CHECK(make_directories(folder));
  std::unique_ptr<Tape> out(new Tape(folder / "run.jsonl"));
  out->file_ = UniqueFd(::open(out->path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
  if (!out->file_ && errno == EEXIST)
    return fail("cassette_exists", fmt::format("{} holds a recording", folder.string()), "record into another folder");
  if (!out->file_) return std::unexpected(file_error(errno, "create", out->path_));
  out->settings_ = settings;
  PLANISH_TRY(const Json json, parse_json(settings, "internal", "settings"));
  out->write(dump_json({{"planish_run", tape_version}, {"settings", json}}));
  PLANISH_CHECK(out->trouble());
  return out;
}

Result<std::unique_ptr<Tape>> Tape::replay(const std::filesystem::path& folder) {
  std::unique_ptr<Tape> out(new Tape(folder / "run.jsonl"));
  PLANISH_CHECK(out->read());
  return out;
}

Status Tape::read() {
  PLANISH_TRY(const std::string text, read_file(path_));
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos && number > 1) break;  // cut short
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    const std::string where = fmt::format("{}, line {}", path_.string(), number);
    auto json = parse_json(line, "cassette_corrupt", where);
    if (!json || !json->is_object()) return std::unexpected(corrupt(where + " is no entry of a recording"));
    ObjectReader reader(*json, "cassette_corrupt", where);
    if (number == 1) {
      std::int64_t format = 0;
      reader.integer("planish_run", format);
      const Json* settings = reader.object("settings");
      reader.lenient();
      PLANISH_CHECK(reader.finish());
      if (format != tape_version)
        return fail(
            "cassette_version",
            fmt::format("{}: recordings of version {} are not read (this is {})", path_.string(), format, tape_version),
            "record it again");
      settings_ = dump_json(*settings);
      continue;
    }
    if (json->contains("heard")) {
      search::SeatEvent event;
      std::int64_t region = 0, seat = 0;
      std::string what;
      reader.text("heard", what);
      reader.integer("poll", event.poll);
      reader.integer("region", region);
      reader.integer("seat", seat);
      const auto name = std::ranges::find(event_names, what);
      if (name == event_names.end() || region < 0 || seat < 0) reader.problem("no coder is heard so");
      PLANISH_CHECK(reader.finish());
      event.region = static_cast<std::size_t>(region);
      event.seat = static_cast<std::size_t>(seat);
      event.what = static_cast<search::SeatEvent::What>(name - event_names.begin());
      schedule_.events.push_back(event);
    } else if (json->contains("polls")) {
      reader.integer("polls", schedule_.polls);
      reader.integer("finals", schedule_.finals);
      reader.boolean("out_of_time", out_of_time_);
      PLANISH_CHECK(reader.finish());
      ended_ = true;
    } else {
      std::string op, key;
      std::int64_t occurrence = 0;
      Kept kept;
      reader.text("op", op);
      reader.text("key", key);
      reader.integer("occurrence", occurrence);
      reader.get("at", ObjectReader::Need::optional);  // for people
      reader.get("took", ObjectReader::Need::optional);
      const Json* reply = reader.get("reply", ObjectReader::Need::optional);
      const Json* error = reader.get("error", ObjectReader::Need::optional);
      PLANISH_CHECK(reader.finish());
      if (reply != nullptr) kept.reply = dump_json(*reply);
      if (error != nullptr) kept.error = codec::read_error(*error);
      kept_[{op + " " + key, occurrence}] = std::move(kept);
    }
  }
  if (settings_.empty()) return std::unexpected(corrupt(path_.string() + " is empty"));
  return {};
}

void Tape::write(const std::string& line) {
  const std::scoped_lock lock(mutex_);
  const std::string whole = line + "\n";
  std::string_view rest = whole;
  while (!rest.empty() && trouble_) {
    const ssize_t n = ::write(file_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      trouble_ = std::unexpected(file_error(errno, "write", path_));
    } else {
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
  }
}

Result<std::string> Tape::pass(const std::string& op, const std::string& key,
                               const std::function<Result<std::string>()>& inner) {
  std::int64_t occurrence = 0;
  {
    const std::scoped_lock lock(mutex_);
    occurrence = asked_[op + " " + key]++;
  }
  if (replays()) {
    const auto found = kept_.find({op + " " + key, occurrence});
    if (found == kept_.end() && out_of_time_) return fail("out_of_time", "the time was over when it was recorded");
    if (found == kept_.end())
      return fail("cassette_miss",
                  fmt::format("{} has no answer to {} {} (for the {}. time)", path_.string(), op, key.substr(0, 80),
                              occurrence + 1),
                  "program, task, settings and planish.toml must be those of the recording; or record again");
    if (found->second.error) return std::unexpected(*found->second.error);
    return found->second.reply;
  }
  const TimePoint asked = real_clock().now();
  auto reply = inner();
  const auto seconds = [](Duration duration) { return std::chrono::duration<double>(duration).count(); };
  Json line = {{"op", op},
               {"key", key},
               {"occurrence", occurrence},
               {"at", seconds(asked - began_)},
               {"took", seconds(real_clock().now() - asked)}};
  if (reply) {
    PLANISH_TRY(line["reply"], parse_json(*reply, "internal", "what is recorded"));
  } else {
    line["error"] = codec::write(reply.error());
  }
  write(dump_json(line));
  PLANISH_CHECK(trouble());
  return reply;
}

void Tape::heard(const search::SeatEvent& event) {
  if (replays()) return;
  write(dump_json({{"heard", event_names[static_cast<std::size_t>(event.what)]},
                   {"poll", event.poll},
                   {"region", event.region},
                   {"seat", event.seat}}));
}

void Tape::ended(std::int64_t polls, std::int64_t finals, bool out_of_time) {
  if (!replays()) write(dump_json({{"polls", polls}, {"finals", finals}, {"out_of_time", out_of_time}}));
}

Result<const search::Schedule*> Tape::schedule() const {
  if (!ended_) return std::unexpected(corrupt(path_.string() + ": the run that was recorded did not come to its end"));
  return &schedule_;
}

Status Tape::trouble() const {
  const std::scoped_lock lock(mutex_);
  return trouble_;
}

}  // namespace planish::session
