#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class OptimizeCommand : public Command {
 public:
  OptimizeCommand(CLI::App& app, Output& output) {
    verb_ = app.add_subcommand("optimize", "Make a task faster: search, verify, ship")->group(group::optimize);
    verb_->add_option("task", options_.task, "A Python file with Model and get_inputs")->type_name("TASK.py");
    add_search(verb_, options_.search);
    begin_group(verb_, "Files");
    verb_->add_option("--out", options_.out, "Folder to ship to")
        ->type_name("DIR")
        ->envname("PLANISH_OUT")
        ->each(keep_from_guests);
    add_store(verb_, options_.search.store);
    begin_group(verb_, "Runs");
    verb_->add_flag("--search-only", options_.search_only,
                    "End with the search: nothing is put together, shipped or timed beside baselines");
    CLI::Option* dry_run = verb_->add_flag(
        "--dry-run", options_.dry_run,
        "Say what would be searched, for how long and where results would go; measure and keep nothing");
    verb_->add_option("--resume", options_.resume, "Go on with an earlier run")->type_name("RUN");
    verb_->add_option("--run-id", options_.run, "Name of the new run; otherwise made of the time")->type_name("ID");
    verb_
        ->add_option("--record", options_.record,
                     "Keep in this folder what models and the evaluator answer, so that the run can be repeated")
        ->type_name("DIR");
    verb_
        ->add_option("--replay", options_.replay,
                     "Repeat the search of a recorded run: no model is asked, nothing is measured or shipped")
        ->type_name("DIR");
    for (const char* of_runs : {"--resume", "--record", "--replay"}) dry_run->excludes(of_runs);
    add_no_serve(verb_, options_.no_serve);
    add_output(verb_, output);
    add_examples(verb_,
                 {{"planish optimize model.py", "a minute of search, then times beside torch.compile"},
                  {"planish optimize model.py --budget 10m --target cuda", "search longer, on a GPU"},
                  {"planish optimize model.py --baselines eager", "do not wait for torch.compile"},
                  {"planish optimize model.py --dry-run", "which regions it would search, and where it would ship"},
                  {"planish optimize --resume latest", "go on with the last run"}});
  }
  std::optional<int> run(const CommandLine& line, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    options_.command = line.typed;
    options_.config = line.config;
    for (const CLI::Option* option : verb_->get_options()) {
      if (option->count() > 0) options_.given.push_back(option->get_name());
    }
    return optimize_verb(options_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  OptimizeVerb options_;
};

}  // namespace

std::unique_ptr<Command> optimize_command(CLI::App& app, Output& output) {
  return std::make_unique<OptimizeCommand>(app, output);
}

}  // namespace planish::cli
