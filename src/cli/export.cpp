#include "ship/export.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/json.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "cli/verbs.h"
#include "session/result_document.h"
#include "session/run_lock.h"
#include "store/store.h"
#include "worker/toolbox.h"

namespace planish::cli {
using namespace session;

namespace {

namespace fs = std::filesystem;

bool is_shipped(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "ship.json", ignored);
}

/// A shipped folder, the folder that holds one (what `optimize --out` wrote), or a run whose folder is still there.
Result<fs::path> find_shipped(const ExportVerb& options) {
  std::error_code ignored;
  const fs::path named = fs::absolute(options.what, ignored);
  for (const fs::path& folder : {named, named / "shipped"}) {
    if (is_shipped(folder)) return folder.lexically_normal();
  }
  if (fs::exists(named, ignored)) {
    return fail("not_shipped", fmt::format("{} holds no shipped folder", options.what),
                "give the folder that planish optimize wrote, or the id of a run (planish runs)");
  }
  PLANISH_TRY(const auto store, store::Store::open_existing(store_file(options.store)));
  auto run = store.run(options.what);
  if (!run) {
    run.error().hint = "give a shipped folder, or the id of a run (planish runs)";
    return std::unexpected(std::move(run.error()));
  }
  fs::path folder = fs::path(run->out_folder) / "shipped";
  if (is_shipped(folder)) return folder;
  const std::string state = live_state(run->id, run->state);
  if (state == "running") {
    return fail("not_shipped", fmt::format("run {} is not through: it has shipped nothing yet", run->id),
                "wait for it to end (planish runs shows its state)");
  }
  if (state != "finished" && state != "interrupted") {
    return fail(
        "not_shipped",
        fmt::format("run {} {} before it shipped anything", run->id, state == "killed" ? "was killed" : "failed"),
        fmt::format("planish optimize --resume {} goes on with it", run->id));
  }
  if (run->outcome == "no_improvement" && !fs::exists(run->out_folder, ignored)) {
    // planish.optimize keeps no folder of ours where the module stays as it was.
    return fail("not_shipped", fmt::format("nothing to export: run {} gained nothing on {}", run->id, run->task),
                "the module is as it was; search longer, or see what was tried: planish show " + run->id);
  }
  return fail("not_shipped", fmt::format("run {} has no shipped folder at {}", run->id, folder.string()),
              "it was moved or deleted; give the folder itself, or run it again");
}

/// Where --out does not say: beside the user, named after the task.
fs::path default_out(const std::string& task, const std::string& form) {
  if (form == "file") return task + "_planish.py";
  return task + (form == "source" ? "_source" : form == "hub" ? "_hub" : "_shipped");
}

/// The task's file as the result beside the folder names it; a word in its place where it is not there any more.
std::string task_beside(const fs::path& shipped) {
  std::error_code ignored;
  const auto text = read_file(shipped.parent_path() / "result.json");
  const auto result = text ? parse_json(*text, "internal", "a result") : std::unexpected(text.error());
  const Json name = result && result->is_object() ? result->value("task_path", Json()) : Json();
  if (!name.is_string()) return "TASK.py";
  const fs::path file(name.get<std::string>());
  return file.extension() == ".py" && fs::is_regular_file(file, ignored) ? file.string() : "TASK.py";
}

}  // namespace

int export_verb(const ExportVerb& options, const Output& output) {
  const auto folder = find_shipped(options);
  if (!folder) return output.error(folder.error());
  const auto tools = worker::Toolbox::resolve();
  ship::ExportRequest request{*folder, options.out, tools.python_path / "planish"};
  const auto facts = ship::shipped_facts(*folder);
  if (!facts) return output.error(facts.error());
  Json document = {{"schema_version", ResultDocument::schema_version},
                   {"task", facts->task},
                   {"form", options.form},
                   {"from", folder->string()},
                   {"exported", nullptr}};
  if (facts->mode == "baseline" && !options.original) {
    output.result(dump_json(document),
                  fmt::format("nothing to export: no kernel gained on {}, what ships is the original (--original "
                              "exports that)\n",
                              facts->task));
    return exit_code::none_found;
  }
  if (options.out.empty()) request.out = default_out(facts->task, options.form);
  std::error_code ignored;
  request.out = fs::absolute(request.out, ignored).lexically_normal();
  const Status done = options.form == "file"     ? ship::export_file(request)
                      : options.form == "source" ? ship::export_source(request)
                      : options.form == "hub"    ? ship::export_hub(request)
                                                 : ship::export_folder(request);
  if (!done) return output.error(done.error());
  document["exported"] = request.out.string();
  output.result(dump_json(document), request.out.string() + "\n");
  if (options.form == "source") {
    output.say(
        "note: this form is to be read: it keeps no memory between calls and its launches cost more, so it may be "
        "slower than the original; make test in it says what both take");
    output.say("next: " + command_line({"make", "-C", request.out.string(), "test"}));
  } else if (options.form == "hub") {
    output.say("next: read README.md in it, which says what to fill in and how it is pushed");
  } else {
    output.next({"verify", task_beside(*folder), request.out.string(), "--time"});
  }
  return exit_code::success;
}

}  // namespace planish::cli
