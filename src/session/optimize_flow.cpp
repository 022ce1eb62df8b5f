#include "session/optimize_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/work_scope.h"
#include "coder/process_coder.h"
#include "evaluate/codec.h"
#include "evaluate/device.h"
#include "evaluate/outcome_of.h"
#include "evaluate/solution.h"
#include "program/solution.h"
#include "search/run.h"
#include "session/degenerate.h"
#include "session/earlier_run.h"
#include "session/evidence.h"
#include "session/host_bound.h"
#include "session/judge_advisor.h"
#include "session/model_seats.h"
#include "session/model_words.h"
#include "session/planner.h"
#include "session/preparing_time.h"
#include "session/recording.h"
#include "session/region_evaluator.h"
#include "session/replay.h"
#include "session/said_once.h"
#include "session/search_report.h"
#include "session/search_setup.h"
#include "session/seeded_domain.h"
#include "session/standing.h"
#include "session/strategy_choice.h"
#include "session/time_plan.h"
#include "session/tuning_database.h"
#include "session/turns.h"
#include "session/whole.h"
#include "session/why_not.h"

namespace planish::session {
namespace {

/// It has this key in the store.
constexpr const char* whole = whole_task;
constexpr const char* more_time = "allow more with --max-time";

/// To be read with a result whose code nobody of ours has written.
Note foreign_code_note() {
  return {.kind = "foreign_code",
          .about = {},
          .text =
              "what ships is solution.py, Python that a coder wrote: it was proved and timed in the sandbox alone, "
              "for these shapes, and falls back on nothing; read it before you import it"};
}

ResultDocument::Fault fault_of(const Error& error) {
  return {std::string(error.kind.name()), error.message};
}

class Flow {
 public:
  Flow(const OptimizeRequest& request, OptimizeWorld& world)
      : request_(request), world_(world), time_(world.clock, request.max_seconds) {}

  Result<ResultDocument> run() {
    if (auto opened = open(); !opened) {
      if (opened.error().kind == "out_of_time") {
        opened.error().message = fmt::format("the {:.0f} s of --max-time were over before {} was captured: {}",
                                             request_.max_seconds, request_.task.string(), opened.error().message);
        opened.error().hint = more_time;
      }
      return std::unexpected(std::move(opened.error()));
    }
    auto done = after_open();
    (void)world_.evaluator.close(opened_.session);
    if (!done && store_) {
      run_record_.state = "failed";
      run_record_.finished = world_.clock.wall_seconds();
      (void)store_->finish_run(run_record_, "");
    }
    if (!done && done.error().kind == "out_of_time") done.error().hint = more_time;
    if (!done && recording_) {
      std::string& hint = done.error().hint;
      hint += fmt::format("{}planish optimize --resume {} goes on with what was measured", hint.empty() ? "" : "; ",
                          request_.run);
    }
    if (!done) return std::unexpected(std::move(done.error()));
    return std::move(result_);
  }

 private:
  bool cancelled() const { return world_.cancel.cancelled(); }
  bool replays() const { return world_.tape != nullptr && world_.tape->replays(); }
  bool ends_with_search() const { return request_.search_only || replays(); }

  /// What begins now, and what a person reads of it. Its time goes under the name. `estimate`: seconds it may take, 0
  /// where nobody can say.
  void enter(Phase phase, const std::string& text, double estimate = 0) {
    leave();
    result_.seconds_in.emplace_back(name(phase), -time_.used());
    inside_ = true;
    // Calls end with an interrupt before and after the search: what was found in it is worth its proof.
    if (phase != Phase::capture && !cancelled()) world_.evaluator.end_when_interrupted(phase != Phase::search);
    world_.progress.phase(phase, text, estimate);
  }
  void leave() {
    if (std::exchange(inside_, false)) result_.seconds_in.back().second += time_.used();
  }
  double took(Phase phase) const {
    const auto found = std::ranges::find(result_.seconds_in, name(phase), &std::pair<std::string, double>::first);
    return found == result_.seconds_in.end() ? 0 : found->second;
  }

  /// The scope of a question that may take so long (infinity: any time).
  static WorkScope within(double seconds) { return WorkScope(std::isfinite(seconds) ? std::max(seconds, 1e-3) : 0); }

  /// What the time was over for is noted, and is no error: the run goes on to its end with what it has.
  template <typename T>
  bool out_of_time(const Result<T>& result) {
    if (result || result.error().kind != "out_of_time" || !time_.limited()) return false;
    if (result_.out_of_time.empty()) {
      result_.out_of_time = result_.seconds_in.back().first;
      world_.progress.note(
          fmt::format("note: the {:.0f} s of --max-time are over ({})", request_.max_seconds, result.error().message));
    }
    return true;
  }

  Status open() {
    enter(Phase::capture, fmt::format("capturing {}", request_.task.filename().string()));
    const WorkScope scope = within(time_.left());
    OpenRequest ask;
    ask.task = request_.task.string();
    ask.target = request_.target;
    ask.accuracy = request_.accuracy;
    ask.ahead = !request_.search_only;
    if (ask.ahead) ask.baselines = request_.baselines;
    PLANISH_TRY(opened_, world_.evaluator.open(ask));
    return {};
  }

  Status after_open() {
    leave();
    PLANISH_CHECK(begin_record());
    PLANISH_TRY(plan_, world_.planner.plan(opened_.graph, opened_.device));
    auto ended = search_and_claim();
    if (!ended && ended.error().kind == "interrupted") ended = keep_what_is_proved();
    PLANISH_CHECK(ended);
    return finish();
  }

  Status search_and_claim() {
    time_.compiles(compiled_modes());
    if (auto checked = check_captured(); !checked && !out_of_time(checked)) return checked;
    leave();
    time_.took(took(Phase::capture), whole_.evaluation.test ? whole_.evaluation.test->seconds : took(Phase::check) / 2);
    if (auto searched = search_regions(); !searched && !out_of_time(searched)) return searched;
    if (search_) way_rows_ = report_search(*search_, result_);
    if (ends_with_search()) {
      result_.outcome = cancelled() ? "interrupted" : "searched";
      result_.reason = hopeless_;
      return {};
    }
    if (cancelled() && !search_) return fail("interrupted", "interrupted before the search");
    if (auto composed = compose(); !composed && !out_of_time(composed)) return composed;
    return ship_and_claim();
  }

  /// Interrupted before the search, or after it, where only a proof or times were still waited for: as where --max-time
  /// ends, what is proved stays and claims nothing, and a baseline takes the place of what is not.
  Status keep_what_is_proved() {
    result_.outcome = "interrupted";
    result_.reason = fmt::format("{} (--resume {} goes on)",
                                 interrupted_words(result_.seconds_in.back().first, proved_.has_value()), request_.run);
    result_.times.clear();
    compare_times(result_);
    if (!proved_) {
      shipped_ = ship_request();
      shipped_.baseline = "eager";
      ships_baseline("eager");
    } else {
      std::tie(shipped_, evidence_.verification) = *proved_;
      result_.form = shipped_.solution.empty() ? "program" : "solution";
      if (!shipped_.solution.empty()) notes_.push_back(foreign_code_note());
    }
    PLANISH_CHECK(world_.shipper.ship(shipped_));
    describe_shipped();
    return {};
  }

  Status begin_record() {
    result_.run = request_.run;
    result_.task = opened_.task_name;
    result_.task_path = request_.task.string();
    result_.task_sha256 = opened_.task_sha256;
    result_.target = opened_.device.target;
    result_.device = opened_.device;
    folder_ = request_.out.empty()
                  ? request_.base / "planish-out" / fmt::format("{}-{}", opened_.task_name, request_.run)
                  : request_.out;
    // A folder that cannot be written is known now, not after the search; a store that cannot is left as it was, and so
    // is the disk.
    std::error_code ignored;
    const bool own_folder = !request_.resume && !std::filesystem::exists(folder_, ignored);
    if (!request_.resume) PLANISH_CHECK(make_directories(folder_));
    auto store = world_.open_store();
    if (!store) {
      if (own_folder) std::filesystem::remove(folder_, ignored);
      return std::unexpected(std::move(store.error()));
    }
    store_ = std::make_unique<store::Store>(std::move(*store));
    run_record_.id = request_.run;
    if (request_.resume) {
      PLANISH_TRY(run_record_, store_->run(request_.run));
      if (run_record_.task_sha256 != opened_.task_sha256) {
        return fail("task_changed", fmt::format("{} has changed since run {}", request_.task.string(), request_.run),
                    "start a new run without --resume");
      }
      if (request_.out.empty() && !run_record_.out_folder.empty()) folder_ = run_record_.out_folder;
      PLANISH_CHECK(take_rates());
    } else {
      run_record_.task = opened_.task_name;
      run_record_.task_path = request_.task.string();
      run_record_.task_sha256 = opened_.task_sha256;
      run_record_.target = opened_.device.target;
      run_record_.device = opened_.device.name;
      run_record_.started = world_.clock.wall_seconds();
    }
    if (request_.resume) PLANISH_CHECK(make_directories(folder_));
    run_record_.settings = settings_text(request_);
    PLANISH_TRY(run_record_.graph, store_->put(opened_.graph));
    run_record_.device_facts = dump_json(codec::write(opened_.device));
    run_record_.out_folder = folder_.string();
    run_record_.state = "running";
    run_record_.finished = 0;
    PLANISH_CHECK(store_->begin_run(run_record_));
    recording_ =
        std::make_unique<Recording>(*store_, request_.run, opened_.device.target, world_.progress, world_.clock);
    if (request_.resume) PLANISH_CHECK(recording_->load_history());
    return {};
  }

  /// A resumed run goes on with the rates that it began with: measured again they differ a little, and with them the
  /// bounds that its decisions follow, which could then not be derived again from one set of them.
  Status take_rates() {
    if (run_record_.device_facts.empty()) return {};
    PLANISH_TRY(const DeviceFacts before, device_facts_of(run_record_));
    DeviceFacts& now = opened_.device;
    if (before.target != now.target || before.name != now.name || before.uuid != now.uuid) return {};
    now.bandwidth_gbs = before.bandwidth_gbs;
    now.peak_gflops = before.peak_gflops;
    now.tensor_gflops = before.tensor_gflops;
    result_.device = now;
    return {};
  }

  /// A program of aten steps: what a resumed run has measured is not measured again.
  Result<Evaluation> evaluate_aten(const std::string& region, const std::string& key, const std::string& program,
                                   bool full) {
    if (auto known = recording_->recall(key, sha256_hex(program), full)) {
      PLANISH_CHECK(recording_->keep(region, key, program, *known, true));
      return *known;
    }
    return evaluate(region, key, program, full);
  }

  /// Evaluates anew. Programs to be shipped always are: their compiled kernels must be in the cache of this machine.
  /// `again`: one that this run has screened already, which would be a duplicate.
  Result<Evaluation> evaluate(const std::string& region, const std::string& key, const std::string& program, bool full,
                              bool again = false) {
    EvaluateRequest request{opened_.session, region, program, full ? "full" : "screen", true, 0};
    request.again = again;
    PLANISH_TRY(auto evaluation, world_.evaluator.evaluate(request));
    PLANISH_CHECK(recording_->keep(region, key, program, evaluation, false));
    if (!evaluation.again_after.empty())
      world_.progress.note(fmt::format("note: {} was evaluated twice, with new processes, since {}",
                                       region == whole ? "the whole" : region, evaluation.again_after));
    if (region == whole && evaluation.ok()) is_verified();
    return evaluation;
  }

  /// There is a program of the whole that passes: when the first did is part of the result.
  void is_verified() {
    if (!std::exchange(verified_, true)) result_.seconds_first_verified = time_.used();
  }

  /// The first program of every run: the captured graph as aten steps. Every task has it to fall back on. One fresh
  /// seed screens it; should it be what ships, what is shipped goes through the whole contract like any other.
  Status check_captured() {
    enter(Phase::check, fmt::format("checking the captured program on {}", opened_.device.name));
    const WorkScope scope = within(time_.for_search());
    PLANISH_TRY(auto about,
                world_.evaluator.region({opened_.session, whole, {}, {}, {}, plan_->bytes(), plan_->flops()}));
    degenerate_ = about.degenerate;
    notes_ = about.notes;
    PLANISH_TRY(whole_.program, plan_->aten_program());
    if (whole_.program.empty()) {
      if (!has_seats()) hopeless_ = fmt::format("nothing to search: {}", no_graph_words());
      return {};
    }
    PLANISH_TRY(whole_.evaluation, evaluate_aten(whole, whole, whole_.program, false));
    checked_ = true;
    if (whole_.evaluation.ok()) {
      is_verified();
    } else {
      world_.progress.note(fmt::format("note: the captured program does not pass as it is ({}): {}",
                                       name(whole_.evaluation.outcome), whole_.evaluation.message));
    }
    return {};
  }

  std::string no_graph_words() const {
    return fmt::format(
        "the task has no graph ({}), so that only a solution of the whole can replace it (--coder, --models, or one of "
        "your own: planish verify)",
        plan_->no_graph());
  }

  /// Makes a region ready to be searched, and files what a replay must know of it.
  Status prepare(const PlannedRegion& region) {
    PLANISH_CHECK(tuning_->add_region(region));
    ResultDocument::Region row;
    row.id = region.id;
    row.key = region.key;
    row.summary = region.summary;
    row.count = region.count;
    result_.regions.push_back(std::move(row));
    store::RegionRecord kept{region.id, region.key, region.count, genes_text(region.domain->genes())};
    if (region.alternative && !region.library_call) {
      // Described and measured if it is ever searched; it is compared with what it would replace, not with PyTorch.
      kept.searched = true;
      kept.bound_ms = roofline_of(opened_.device, region.bytes, region.flops, 0).bound_ms;
      setup_->add(region, 0, kept.bound_ms);
    } else if (!cancelled()) {
      auto known = world_.evaluator.region(
          {opened_.session, region.id, region.nodes, region.inputs, region.outputs, region.bytes, region.flops, false});
      if (known) {
        kept.searched = true;
        if (region.whole && whole_.evaluation.ok() && whole_.evaluation.bench) {
          // The captured program is this region's form in PyTorch: checked and timed a moment ago.
          kept.fallback_ms = whole_.evaluation.bench->median_ms;
          kept.bound_ms = whole_.evaluation.roofline ? whole_.evaluation.roofline->bound_ms : 0;
        } else if (region.aten_program.empty()) {
          // Nothing stands in its place.
        } else if (preparing_.measures(time_.used(), region.id, world_.tape)) {
          PLANISH_TRY(auto aten, evaluate_aten(region.id, region.key, region.aten_program, false));
          if (aten.ok() && aten.bench) kept.fallback_ms = at_most_its_part(aten.bench->median_ms, region.count);
          if (aten.roofline) kept.bound_ms = aten.roofline->bound_ms;
        } else {
          kept.bound_ms = roofline_of(opened_.device, region.bytes, region.flops, 0).bound_ms;
        }
        setup_->add(region, kept.fallback_ms, kept.bound_ms);
      } else if (known.error().kind == "interrupted") {
        return std::unexpected(std::move(known.error()));
      } else {
        left_.add(known.error().message, region.id);  // it costs its own speed-up, not the run
      }
    }
    return store_->add_region(request_.run, kept);
  }

  bool has_seats() const { return !request_.coders.empty() || (world_.models != nullptr && model_seats(request_) > 0); }

  /// What coders may replace at once, where some are there: everything.
  Status prepare_whole() {
    if (!has_seats() || cancelled()) return {};
    const auto region = plan_->whole();
    if (!region) return {};
    ResultDocument::Region row;
    row.id = region->id;
    row.key = region->key;
    row.summary = region->summary;
    row.count = 1;
    result_.regions.push_back(std::move(row));
    store::RegionRecord kept{region->id, region->key, 1, genes_text(region->domain->genes())};
    kept.searched = true;
    kept.bound_ms = roofline_of(opened_.device, region->bytes, region->flops, 0).bound_ms;
    if (whole_.evaluation.ok() && whole_.evaluation.bench) kept.fallback_ms = whole_.evaluation.bench->median_ms;
    setup_->add_whole(*region, kept.fallback_ms, kept.bound_ms);
    return store_->add_region(request_.run, kept);
  }

  /// A region takes no longer than the whole that holds it `count` times: what says otherwise was disturbed. The budget
  /// follows these times, and people read them.
  double at_most_its_part(double ms, int count) const {
    const double whole_ms = whole_.evaluation.ok() && whole_.evaluation.bench ? whole_.evaluation.bench->median_ms : 0;
    return whole_ms > 0 ? std::min(ms, whole_ms / std::max(count, 1)) : ms;
  }

  Status search_regions() {
    tuning_ = std::make_unique<TuningDatabase>(*store_, request_.run, opened_.device.name, run_record_.started,
                                               request_.cold);
    recording_->teach(tuning_.get());
    setup_ = std::make_unique<SearchSetup>(*tuning_);
    // Without the other ways to cut the task, of which no person has heard yet.
    const auto own = std::ranges::count(plan_->regions(), false, &PlannedRegion::alternative);
    enter(Phase::prepare, own == 0 ? std::string("finding no region that kernels could be written for")
                                   : fmt::format("measuring PyTorch's form of {} region{}", own, own == 1 ? "" : "s"));
    const WorkScope scope = within(time_.for_search());
    if (time_.limited()) preparing_.limit(time_.used(), time_.for_search());
    for (const PlannedRegion& region : plan_->regions()) PLANISH_CHECK(prepare(region));
    if (const std::string note = preparing_.note(); !note.empty()) world_.progress.note(note);
    for (const std::string& line : left_.lines("region", "is left as it is", "are left as they are"))
      world_.progress.note("note: " + line);
    setup_->add_fusions(plan_->fusions());
    PLANISH_CHECK(prepare_whole());
    result_.searched.guesses = setup_->guesses().taken;
    result_.searched.guesses_completed = setup_->guesses().completed;
    result_.searched.guesses_left_out = setup_->guesses().left_out;
    if (setup_->empty() || cancelled() || !hopeless_.empty()) return {};
    PLANISH_CHECK(look_ahead());
    if (!hopeless_.empty()) return {};
    search::SearchOptions how;
    how.strategy = request_.strategy;
    how.draws = request_.draws;
    for (const std::string& command : request_.coders)
      how.seats.push_back(coder::process_seat(command, {{"sh", "-c", command}, request_.base}));
    if (world_.models != nullptr) {
      models_ = std::make_unique<ModelSeats>(request_, *world_.models, opened_, *store_, world_.tape);
      for (coder::Seat& seat : models_->seats()) how.seats.push_back(std::move(seat));
      how.model_seats = model_seats(request_);
    }
    if (world_.tape != nullptr) {
      how.heard = [tape = world_.tape](const search::SeatEvent& event) { tape->heard(event); };
      if (replays()) {
        PLANISH_TRY(how.schedule, world_.tape->schedule());
      }
    }
    if (request_.resume) {
      PLANISH_TRY(const auto records, store_->evaluations(request_.run, false));
      PLANISH_TRY(how.recorded, recorded_turns(*store_, request_.run, setup_->specs(), records));
    }
    const search::Schedule* schedule = how.schedule;
    search_ = setup_->make(request_.seed, std::move(how));
    const auto regions = std::ranges::count(search_->specs(), false, &search::RegionSpec::alternative);
    search::RunOptions options;
    options.budget = request_.budget;
    // What is left of the whole bounds the search and its finals, whatever the budget.
    const double room = recording_->seconds_used() + time_.for_search();
    if (time_.limited() && (options.budget.seconds <= 0 || options.budget.seconds > room)) {
      options.budget.seconds = std::max(room, 1e-3);
      world_.progress.note(fmt::format("note: --max-time leaves {:.0f} s for the search", time_.for_search()));
    }
    enter(Phase::search,
          regions == 0 ? std::string("searching for a solution of the whole")
                       : fmt::format("searching {} region{}", regions, regions == 1 ? "" : "s"),
          std::max(options.budget.seconds - recording_->seconds_used(), 0.0));
    name_regions();
    say_what_follows();
    RegionEvaluator evaluator(
        world_.evaluator, opened_.session, *plan_, [this] { return time_.for_last_answers(); }, world_.progress);
    options.window = SearchSetup::window(opened_.device);
    options.seconds_used = recording_->seconds_used();
    options.cancel = world_.cancel;
    options.target = opened_.device.target;
    const JudgeAdvisor advisor(device_of(opened_.device));
    options.advisor = &advisor;
    options.schedule = schedule;
    recording_->search_begins(options.budget.seconds);
    search::History* history = recording_->has_history() ? recording_.get() : nullptr;
    const auto ran = search::run_search(*search_, evaluator, history, *recording_, world_.clock, options);
    if (models_) models_->report(result_.searched.models);
    if (!search_->differs().empty())
      return fail("replay_differs", fmt::format("the run does not go as it was recorded: {}", search_->differs()),
                  "program, task, settings and planish.toml must be those of the recording; or record again");
    if (!ran) return std::unexpected(ran.error());
    if (world_.tape != nullptr) {
      world_.tape->ended(ran->polls, ran->finals, ran->stopped == search::Stopped::out_of_time);
      PLANISH_CHECK(world_.tape->trouble());
    }
    world_.progress.left(-1);
    return {};
  }

  /// Lines of progress call regions by their ids: what they stand for, once.
  void name_regions() {
    constexpr std::size_t most = 8;
    std::size_t named = 0;
    for (const PlannedRegion& region : plan_->regions()) {
      if (region.alternative || region.summary.empty()) continue;
      if (++named <= most) world_.progress.note(fmt::format("  {} is {}", region.id, region.summary));
    }
    if (named > most) world_.progress.note(fmt::format("  and {} more", named - most));
  }

  /// A search of seconds ends in a run of a minute: whoever waits knows before why.
  void say_what_follows() {
    const auto modes = compiled_modes();
    if (ends_with_search() || modes == 0) return;
    world_.progress.note(
        fmt::format("  what it finds is timed beside eager and {} mode{} of torch.compile, whose compilation takes its "
                    "own time (--baselines names fewer)",
                    modes, modes == 1 ? "" : "s"));
  }

  int compiled_modes() const {
    const auto eager = std::ranges::count(request_.baselines, "eager");
    return static_cast<int>(request_.baselines.size()) - static_cast<int>(eager);
  }

  /// PyTorch's steps that no region replaces may cost more than the whole does in eager: then nothing can be won, and
  /// the search is left out. Eager is timed for that, where there are such steps.
  Status look_ahead() {
    const int kept = plan_->kept_steps();
    if (has_seats()) return {};  // a coder may replace those as well
    if (kept == 0 || !whole_.evaluation.bench || request_.search_only || recording_->has_history()) return {};
    Standing standing;
    const double whole_ms = whole_.evaluation.bench->median_ms;
    standing.whole.saw(whole_ms, whole_ms);
    standing.kept_steps = kept;
    for (const search::RegionSpec& spec : setup_->specs()) {
      if (spec.alternative) continue;
      if (spec.fallback_ms == search::no_time) return {};
      standing.regions_ms += spec.fallback_ms * spec.count;
    }
    PLANISH_CHECK(time_eager(standing));
    // Whatever else the machine did meanwhile is in one of the two: both again, one right after the other.
    for (int more = 0; more < 2 && !cannot_win(standing).empty(); ++more) {
      PLANISH_TRY(const auto again, evaluate(whole, whole, whole_.program, false, true));
      if (again.ok() && again.bench) standing.whole.saw(again.bench->median_ms, again.bench->median_ms);
      PLANISH_CHECK(time_eager(standing));
    }
    const std::string verdict = cannot_win(standing);
    if (verdict.empty()) return {};
    if (const std::string busy = unsteady(standing); !busy.empty()) {
      world_.progress.note(fmt::format("note: {}; whether the search can win shows when it has ended", busy));
      return {};
    }
    hopeless_ = verdict;
    world_.progress.note("note: " + hopeless_);
    return {};
  }

  /// Eager's time, beside what is known of it.
  Status time_eager(Standing& standing) {
    PLANISH_TRY(const auto eager, eager_shortly());
    if (!eager) return {};
    standing.eager.saw(eager->median_ms, std::max(eager->median_ms, eager->hi_ms));
    return {};
  }

  /// Eager alone, for half a second; nothing where it could not be timed.
  Result<std::optional<ClaimTime>> eager_shortly() {
    ClaimRequest claim;
    claim.session = opened_.session;
    claim.modes = {"eager"};
    claim.min_runs = 5;
    claim.max_seconds = 0.5;
    claim.more = true;
    PLANISH_TRY(const auto timed, world_.evaluator.claim(claim));
    const ClaimTime* eager = timed.find("eager");
    return eager == nullptr || eager->error ? std::nullopt : std::optional(*eager);
  }

  /// Puts together what the search found. Where the time is over before that is proved, what was there before stays.
  Status compose() {
    if (!search_) return {};
    const WorkScope scope = within(time_.for_composing());
    auto composed = composer().compose();
    report_whole(whole_, way_rows_, result_);
    return composed;
  }

  WholeComposer composer() {
    WholeComposer::Run run;
    run.evaluate = [this](const std::string& program, bool full) { return evaluate(whole, whole, program, full); };
    run.begins = [this] {
      if (result_.seconds_in.back().first != name(Phase::compose)) enter(Phase::compose, "checking the whole program");
    };
    run.cancelled = [this] { return cancelled(); };
    run.note = [this](const std::string& text) { world_.progress.note("note: " + text); };
    run.left = [this] { return time_.for_proof(); };
    run.patience = std::max(run.patience, request_.budget.seconds);
    run.seconds_a_kernel = recording_->seconds_a_compilation() / std::max(opened_.device.cores, 1);
    return WholeComposer(whole_, *plan_, *search_, *setup_, std::move(run));
  }

  ShipRequest ship_request() const {
    ShipRequest ship;
    ship.graph = opened_.graph;
    ship.task = request_.task;
    ship.folder = folder_ / "shipped";
    ship.blobs = opened_.blobs;
    ship.torch = opened_.torch;
    ship.evidence = "{}";
    return ship;
  }

  ShipRequest ship_of_program() const {
    ShipRequest ship = ship_request();
    if (auto solution = program::solution_of(whole_.program)) {
      ship.solution = std::move(*solution);
      return ship;
    }
    ship.program = whole_.program;
    if (!whole_.evaluation.compile) return ship;
    for (const KernelReport& kernel : whole_.evaluation.compile->kernels) ship.binaries.push_back(kernel.sha256);
    return ship;
  }

  /// Ships, then proves what lies there in fresh processes.
  Result<VerifyReply> ship_and_verify(ShipRequest ship) {
    shipped_ = std::move(ship);
    PLANISH_CHECK(world_.shipper.ship(shipped_));
    const WorkScope scope = within(claims_ ? time_.left() : time_.for_proof());
    // A baseline is PyTorch's program, and the folder was written a moment ago: nobody else's code is in it.
    VerifyRequest request;
    request.session = opened_.session;
    request.path = shipped_.folder.string();
    request.own_code = !shipped_.baseline.empty();
    if (shipped_.baseline == "eager") {  // its errors are the gate: other data have nothing to say of it
      request.level = "screen";
      request.seeds = 1;
    }
    request.time = request.beside = !shipped_.solution.empty();  // it is timed where it is held, and nowhere else
    request.memory_check = request_.memory_check && shipped_.baseline.empty();
    return world_.evaluator.verify(request);
  }

  /// Verification draws more data than the check of the whole, so it may be the first to meet a bias of approximations
  /// (a mean of many equal rounding errors), or an element that rounded factors bring further from what is right than
  /// eager's do. The whole in its exact form is given the same chance, once, and so is one that rounds no factors.
  Status verify_in_exact_forms() {
    for (const bool rounds : {true, false}) {
      const VerifyReply& failed = evidence_.verification;
      const bool inexact = failed.outcome == Outcome::wrong || failed.outcome == Outcome::nan;
      if (failed.verified || !inexact || failed.fell_back() || !search_) return {};
      PLANISH_TRY(const bool other, rounds ? composer().without_approximations() : composer().without_rounding());
      if (!other) continue;
      report_whole(whole_, way_rows_, result_);
      world_.progress.note(fmt::format("note: {}: what was shipped does not verify otherwise",
                                       rounds ? "nothing is approximated" : "no factors are rounded"));
      PLANISH_TRY(evidence_.verification, ship_and_verify(ship_of_program()));
    }
    return {};
  }

  /// Ships the program and proves it.
  Status prove() {
    enter(Phase::ship, "shipping, and verifying what is shipped in fresh processes", time_.proof_estimate());
    PLANISH_TRY(evidence_.verification, ship_and_verify(ship_of_program()));
    return verify_in_exact_forms();
  }

  Status ship_and_claim() {
    std::string claim_path;
    if (!hopeless_.empty()) {
      result_.reason = hopeless_;
    } else if (whole_.evaluation.ok()) {
      auto proved = prove();
      if (!proved && !out_of_time(proved)) return proved;
      if (!proved) {
        result_.reason = "the time was over before the proof of what was found had ended";
      } else if (evidence_.verification.fell_back()) {
        const ProgramCalls& calls = *evidence_.verification.program;
        result_.reason =
            fmt::format("the shipped module ran its program in {} of {} calls, the original in the others: {}",
                        calls.ran, calls.calls, calls.reason);
      } else if (evidence_.verification.verified) {
        claim_path = shipped_.folder.string();
        proved_.emplace(shipped_, evidence_.verification);
      } else {
        result_.reason = fmt::format("the shipped module did not pass verification ({}): {}",
                                     name(evidence_.verification.outcome), evidence_.verification.message);
      }
    } else if (whole_.program.empty() && !plan_->no_graph().empty()) {
      result_.reason = fmt::format("no solution passed, and {}", no_graph_words());
    } else if (!checked_) {
      result_.reason = "no program had been checked by then";
    } else {
      result_.reason =
          fmt::format("no program passed ({}): {}", name(whole_.evaluation.outcome), whole_.evaluation.message);
    }
    // A solution never shares a process with what it is compared with, nor with what is trusted.
    const bool solution = !claim_path.empty() && !shipped_.solution.empty();
    PLANISH_CHECK(time_beside_baselines(solution ? std::string() : claim_path));
    if (solution) take_times_of_solution();
    bool faster = compare_times(result_);
    if (result_.reason.empty() && !solution) PLANISH_CHECK(judge_precision_by_region());
    if (result_.reason.empty() && !degenerate_.empty()) result_.reason = degenerate_words(degenerate_);
    // Proved, and nothing to compare it with: it stays, and claims nothing.
    const bool untimed = !result_.out_of_time.empty() && !claim_path.empty() && !compared();
    if (result_.reason.empty() && !faster && !untimed) {
      PLANISH_TRY(faster, beats_what_is_right());
      if (!faster) result_.reason = why_not_faster(result_, recording_->failed_finals());
    }
    if (result_.reason.empty()) {
      result_.outcome = "improved";
      result_.form = solution ? "solution" : "program";
      if (solution) {
        notes_.push_back(foreign_code_note());
      } else {
        PLANISH_CHECK(explain_program());
      }
    } else {
      result_.outcome = "no_improvement";
      PLANISH_CHECK(ship_baseline());
    }
    if (cancelled() || !result_.out_of_time.empty()) result_.outcome = "interrupted";
    if (!result_.out_of_time.empty()) {
      result_.until_then = std::move(result_.reason);
      const std::string more = result_.until_then.empty() ? "" : "; " + result_.until_then;
      result_.reason = fmt::format("the {:.0f} s of --max-time were over in phase {} (--resume {} goes on){}",
                                   request_.max_seconds, result_.out_of_time, request_.run, more);
    }
    describe_shipped();
    return {};
  }

  void describe_shipped() {
    result_.shipped = shipped_.folder.string();
    result_.accuracy = summarise(request_.accuracy, evidence_.verification.cases);
    result_.accuracy->verified = evidence_.verification.verified;
    result_.accuracy->skipped = evidence_.verification.skipped;
    result_.accuracy->degenerate = degenerate_;
    result_.accuracy->notes = notes_;
    if (auto note = permitted_rounding(*result_.accuracy)) result_.accuracy->notes.push_back(std::move(*note));
    result_.roofline = whole_.evaluation.roofline;
  }

  /// What passes on the whole, because what follows hides it, may fail where the program's kernels are judged.
  Status judge_precision_by_region() {
    if (std::ranges::none_of(degenerate_, is_lower_precision)) return {};
    std::vector<RegionReply> judged;
    for (const PlannedRegion& region : plan_->regions()) {
      const auto row = std::ranges::find(result_.regions, region.id, &ResultDocument::Region::id);
      if (row == result_.regions.end() || !row->used) continue;
      PLANISH_TRY(judged.emplace_back(),
                  world_.evaluator.region({opened_.session, region.id, region.nodes, region.inputs, region.outputs,
                                           region.bytes, region.flops}));
    }
    std::ranges::move(settled_by_regions(degenerate_, judged), std::back_inserter(notes_));
    return {};
  }

  /// What it took in the guest that verified it, beside the baselines' times.
  void take_times_of_solution() {
    const VerifyReply& verified = evidence_.verification;
    if (!verified.times || !verified.times->beside) {
      const std::string why = verified.times ? ": " + verified.times->not_beside : std::string();
      result_.reason = fmt::format("the solution could not be timed beside the task's own{}", why);
      return;
    }
    result_.solution_gain = verified.times->beside->gain;
    ClaimTime time;
    time.name = "shipped";
    const CallTime called = call_time(*verified.times, opened_.device);
    time.median_ms = called.median_ms;
    time.lo_ms = called.lo_ms;
    time.hi_ms = called.hi_ms;
    time.host_us = verified.times->host_us;
    for (const double sample : verified.times->samples_ms) time.samples_ms.push_back(sample + called.shift_ms);
    result_.times.insert(result_.times.begin(), std::move(time));
  }

  Status explain_program() {
    std::set<std::string> used;
    for (const ResultDocument::Region& region : result_.regions) {
      if (region.used) used.insert(region.id);
    }
    PLANISH_TRY(result_.why,
                plan_->explain(used, search_ ? composer().planned_ways() : std::vector<std::size_t>{}, whole_.program));
    return {};
  }

  /// What ships (an empty path: nothing that could be claimed) and the baselines, timed in turn.
  Status time_beside_baselines(const std::string& path) {
    // Whoever interrupts does not want to wait for minutes of max-autotune.
    std::vector<std::string> modes = cancelled() ? std::vector<std::string>{"eager"} : request_.baselines;
    if (std::ranges::find(modes, "eager") == modes.end()) modes.insert(modes.begin(), "eager");
    enter(Phase::claim,
          modes.size() == 1
              ? "timing it beside eager"
              : fmt::format("compiling {} of torch.compile's modes, and timing it beside them", modes.size() - 1),
          cancelled() ? 0 : seconds_of_earlier_run(*store_, run_record_, Phase::claim));
    claims_ = true;
    const WorkScope scope = within(time_.left());
    if (may_need_cuda_graphs(modes, opened_.device)) {
      const auto eager = eager_shortly();
      if (!eager && !out_of_time(eager)) return std::unexpected(eager.error());
      if (eager && *eager) modes = with_cuda_graphs(std::move(modes), opened_.device, **eager);
    }
    ClaimRequest claim;
    claim.session = opened_.session;
    claim.path = path;
    claim.modes = std::move(modes);
    claim.max_seconds = TimePlan::claim_seconds(request_.budget.seconds);
    auto claimed = world_.evaluator.claim(claim);
    if (!claimed && !out_of_time(claimed)) return std::unexpected(std::move(claimed.error()));
    if (!claimed) return {};
    evidence_.claim = std::move(*claimed);
    result_.times = evidence_.claim.times;
    for (const ClaimTime& time : result_.times) {
      if (time.error && time.name != "shipped" && time.error->kind == "wrong_when_timed")
        refuse(time.name, fault_of(*time.error));
      if (time.error) (void)out_of_time(Status(std::unexpected(*time.error)));
    }
    return {};
  }

  /// Whether what ships and a baseline have times, or one is missing for another reason than the end of the time.
  bool compared() const {
    const auto timed = [&](bool shipped) {
      return std::ranges::any_of(result_.times, [&](const ClaimTime& time) {
        return (time.name == "shipped") == shipped && (!time.error || time.error->kind != "out_of_time");
      });
    };
    return timed(true) && timed(false);
  }

  /// A baseline that does not pass the gate itself is no measure, and cannot ship: they are verified, from the fastest,
  /// until one passes or the program beats what is left. Then the program lies in the folder again.
  Result<bool> beats_what_is_right() {
    const ShipRequest program = shipped_;
    auto verification = evidence_.verification;
    bool faster = false;
    while (!faster && refuses_best_baseline()) faster = compare_times(result_);
    if (!faster) return false;
    shipped_ = program;
    PLANISH_CHECK(world_.shipper.ship(shipped_));
    evidence_.verification = std::move(verification);
    return true;
  }

  /// A baseline that computes something else is neither a measure nor what ships.
  void refuse(const std::string& mode, ResultDocument::Fault why) {
    world_.progress.note(
        fmt::format("note: {} is no measure, its own results are wrong ({}): {}", mode, why.kind, why.message));
    result_.refused_baselines.push_back(mode);
    result_.baseline_faults[mode] = std::move(why);
  }

  /// Ships the fastest baseline and verifies it. True, and it counts as refused, where its results are wrong; eager,
  /// whose errors are the gate, is never refused. One that could not be judged stays a measure, but cannot ship.
  bool refuses_best_baseline() {
    const std::string mode = result_.best_baseline;
    if (mode.empty() || mode == "eager" || mode == verified_baseline_ || mode == unjudged_baseline_) return false;
    ShipRequest ship = ship_request();
    ship.baseline = mode;
    auto verification = ship_and_verify(std::move(ship));
    if (verification && verification->verified) {
      verified_baseline_ = mode;
      evidence_.verification = std::move(*verification);
      return false;
    }
    ResultDocument::Fault why =
        verification ? ResultDocument::Fault{std::string(name(verification->outcome)), verification->message}
                     : fault_of(verification.error());
    if (!verification || !is_wrong(verification->outcome)) {
      result_.baseline_faults[mode] = std::move(why);
      unjudged_baseline_ = mode;
      return false;
    }
    refuse(mode, std::move(why));
    return true;
  }

  /// Nothing was gained: what ships is the fastest baseline that passes the gate.
  Status ship_baseline() {
    while (refuses_best_baseline()) compare_times(result_);
    std::string mode = result_.best_baseline;
    if (mode.empty() || mode == unjudged_baseline_) mode = "eager";
    if (verified_baseline_ != mode || shipped_.baseline != mode) {
      // PyTorch's own program: where there is not even a verdict on it, the fault is elsewhere.
      ShipRequest ship = ship_request();
      ship.baseline = mode;
      auto verified = ship_and_verify(std::move(ship));
      if (!verified && !out_of_time(verified)) return std::unexpected(std::move(verified.error()));
      evidence_.verification = verified ? std::move(*verified) : VerifyReply{};
    }
    ships_baseline(mode);
    // The program's time stays visible under another name; what is shipped takes the baseline's.
    std::erase_if(result_.times, [](const ClaimTime& t) { return t.name == "shipped" && t.error.has_value(); });
    for (ClaimTime& time : result_.times) {
      if (time.name == "shipped") time.name = "candidate";
    }
    result_.solution_gain.reset();  // it was the candidate's
    const auto chosen = std::ranges::find(result_.times, mode, &ClaimTime::name);
    if (chosen != result_.times.end() && !chosen->error) {
      ClaimTime shipped = *chosen;
      shipped.name = "shipped";
      result_.times.insert(result_.times.begin(), std::move(shipped));
    }
    compare_times(result_);
    return {};
  }

  /// Nothing of the search is in what ships.
  void ships_baseline(const std::string& mode) {
    whole_.program.clear();
    result_.form = "baseline";
    result_.shipped_baseline = mode;
    for (auto& region : result_.regions) region.used = false;
    for (auto& fusion : result_.fusions) fusion.used = false;
  }

  Status finish() {
    result_.evaluations = recording_->counts();
    result_.searched.strategy = strategy_name(request_);
    result_.searched.best = recording_->best();
    if (search_) result_.searched.funnel = search_->funnel();
    if (search_) result_.searched.coders = search_->seats();
    for (const std::string& line : notes_of(result_.searched.models)) world_.progress.note("note: " + line);
    for (const search::SeatReport& seat : result_.searched.coders) {
      if (!seat.trouble.empty()) world_.progress.note(fmt::format("note: coder {}: {}", seat.name, seat.trouble));
    }
    if (result_.outcome != "improved" && cap_let_nothing_through(result_.searched)) {
      result_.reason = fmt::format(
          "{}{}the limit of spending let no call to a model through: raise [spending] in "
          "planish.toml",
          result_.reason, result_.reason.empty() ? "" : "; ");
    }
    result_.searched.compiled = recording_->compiled();
    result_.searched.tested = recording_->tested();
    result_.searched.timed = recording_->timed();
    for (const ClaimTime& time : result_.times) {
      if (time.name == "shipped") result_.host_us_per_call = time.host_us;
    }
    leave();
    result_.seconds_total = time_.used();
    result_.seconds_max = request_.max_seconds;
    if (!ends_with_search()) PLANISH_CHECK(ship_evidence());
    const std::string document = to_json(result_);
    PLANISH_CHECK(write_file(folder_ / "result.json", document));
    run_record_.state = result_.outcome == "interrupted" ? "interrupted" : "finished";
    run_record_.outcome = result_.outcome;
    run_record_.finished = world_.clock.wall_seconds();
    const auto headline = headline_of(result_);
    run_record_.speedup = headline ? headline->speedup : 0;
    return store_->finish_run(run_record_, document);
  }

  /// The same folder once more, now with the evidence, which could not be known before it was timed.
  Status ship_evidence() {
    evidence_.command = request_.command;
    evidence_.settings = settings_text(request_);
    evidence_.torch = opened_.torch;
    evidence_.python = opened_.python;
    evidence_.program = whole_.program;
    evidence_.evaluation = whole_.evaluation;
    shipped_.evidence = evidence_json(result_, evidence_);
    return world_.shipper.ship(shipped_);
  }

  const OptimizeRequest& request_;
  OptimizeWorld& world_;
  TimePlan time_;
  bool verified_ = false;  ///< a program of the whole has passed
  PreparingTime preparing_;
  bool inside_ = false;  ///< a phase: the last of seconds_in counts on
  bool claims_ = false;  ///< in the last phase: nothing needs to be kept for later
  OpenReply opened_;
  std::unique_ptr<store::Store> store_;
  store::RunRecord run_record_;
  std::unique_ptr<Recording> recording_;
  std::unique_ptr<TuningDatabase> tuning_;
  std::unique_ptr<SearchSetup> setup_;  ///< outlives search_
  std::unique_ptr<ModelSeats> models_;  ///< likewise; null without
  std::filesystem::path folder_;
  std::unique_ptr<Plan> plan_;
  SaidOnce left_;  ///< regions that could not be set up
  std::vector<std::string> degenerate_;
  std::vector<Note> notes_;
  std::unique_ptr<search::Search> search_;
  std::map<std::size_t, std::size_t> way_rows_;  ///< by way of the search: its place in the result
  Whole whole_;
  bool checked_ = false;  ///< the captured program: the time may be over before
  Evidence evidence_;
  ShipRequest shipped_;                                        ///< what lies in the shipped folder
  std::optional<std::pair<ShipRequest, VerifyReply>> proved_;  ///< what was found, with its proof
  std::string hopeless_;                                       ///< why no search could win; empty where one may
  std::string verified_baseline_;                              ///< the one that was shipped and passed
  std::string unjudged_baseline_;                              ///< one that could not be run or judged as shipped
  ResultDocument result_;
};

}  // namespace

Result<ResultDocument> optimize(const OptimizeRequest& request, OptimizeWorld& world) {
  return Flow(request, world).run();
}

}  // namespace planish::session
