#include "session/model_seats.h"

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "backend/backend.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "patterns/library.h"
#include "patterns/own.h"
#include "session/measured_patterns.h"
#include "session/strategy_choice.h"

namespace planish::session {
namespace {

/// Bytes of a pattern's source in a prompt.
constexpr std::size_t most_source = 6000;

class LibrarySource : public coder::PatternSource {
 public:
  LibrarySource(std::filesystem::path file, const store::Store& store, bool on_host, Tape* tape)
      : file_(std::move(file)), on_host_(on_host), tape_(tape) {
    // Here, because a store has one thread.
    if (auto measured = measured_patterns(store)) measured_ = std::move(*measured);
  }

  std::vector<std::string> find(std::string_view query, std::size_t k) override {
    if (tape_ == nullptr) return texts_of(looked_up(query, k));
    return texts_of(tape_->pass("patterns", fmt::format("{} {}", k, query), [&] { return looked_up(query, k); }));
  }

 private:
  /// As a JSON list of texts.
  Result<std::string> looked_up(std::string_view query, std::size_t k) {
    const std::scoped_lock lock(mutex_);
    if (!library_) {
      PLANISH_TRY(auto library, patterns::Library::open(file_));
      library.set_measured(measured_);
      library_ = std::move(library);
    }
    patterns::Filter filter;
    // CUTLASS and Triton have nothing that a processor can run.
    if (on_host_) filter.kind = patterns::own_corpus;
    PLANISH_TRY(const auto hits, library_->search(query, filter, static_cast<int>(k)));
    Json out = Json::array();
    for (const patterns::Hit& hit : hits) out.push_back(patterns::as_material(hit.pattern, most_source));
    return dump_json(out);
  }

  /// Without a library a prompt has no patterns; that is no reason to ask nobody.
  static std::vector<std::string> texts_of(const Result<std::string>& found) {
    std::vector<std::string> out;
    if (!found) return out;
    const Json json = json_or_discarded(*found);
    for (const Json& one : json) {
      if (one.is_string()) out.push_back(one.get<std::string>());
    }
    return out;
  }

  const std::filesystem::path file_;
  std::vector<patterns::Measured> measured_;
  const bool on_host_;
  Tape* const tape_;
  std::mutex mutex_;
  std::optional<patterns::Library> library_;
};

coder::PromptFacts facts_of(const OpenReply& opened, const std::filesystem::path& task) {
  const DeviceFacts& device = opened.device;
  coder::PromptFacts out;
  // A live module is a folder, and has no constructor that a ModelNew could share. A file that changed since it was
  // captured is another task.
  if (auto text = read_file(task); text && sha256_hex(*text) == opened.task_sha256) out.reference = std::move(*text);
  out.dsls = opened.dsls;
  out.target = &backend::named(device.target);
  if (!out.target->on_host) out.arch = device.arch;
  out.device = fmt::format("{}, {}", device.name, device.arch);
  out.device += out.target->on_host ? fmt::format(": {} cores", device.cores)
                                    : fmt::format(": {} multiprocessors, {} bytes of shared memory a block", device.sms,
                                                  device.shared_bytes);
  if (device.bandwidth_gbs > 0) out.device += fmt::format(", {:.0f} GB/s", device.bandwidth_gbs);
  return out;
}

}  // namespace

std::filesystem::path patterns_file() {
  const char* given = std::getenv("PLANISH_PATTERNS");
  return given != nullptr && *given != '\0' ? std::filesystem::path(given) : patterns::Library::default_file();
}

std::unique_ptr<coder::PatternSource> pattern_source(const std::filesystem::path& file, const store::Store& store,
                                                     bool on_host, Tape* tape) {
  return std::make_unique<LibrarySource>(file, store, on_host, tape);
}

ModelSeats::ModelSeats(const OptimizeRequest& request, llm::OpenModels& models, const OpenReply& opened,
                       const store::Store& store, Tape* tape)
    : request_(request),
      models_(models),
      patterns_(pattern_source(patterns_file(), store, backend::named(opened.device.target).on_host, tape)),
      pool_(std::make_shared<coder::ModelPool>(
          *models.ensemble,
          coder::PoolOptions{facts_of(opened, request.task), static_cast<std::size_t>(model_seats(request)),
                             patterns_.get(), request.model_judge, request.turns})) {}

std::vector<coder::Seat> ModelSeats::seats() const {
  std::vector<coder::Seat> out;
  for (int seat = 1; seat <= model_seats(request_); ++seat)
    out.push_back(coder::model_seat(pool_, seat, request_.approach));
  return out;
}

void ModelSeats::report(ResultDocument::Models& out) const {
  const llm::Amount spent = models_.ledger->spent();
  out.tokens = spent.tokens;
  out.dollars = static_cast<double>(spent.nanodollars) / 1e9;
  out.seats = model_seats(request_);
  out.judge = request_.model_judge;
  out.report = pool_->report();
}

}  // namespace planish::session
