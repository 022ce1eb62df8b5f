#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class ReportCommand : public Command {
 public:
  ReportCommand(CLI::App& app, Output& output) {
    verb_ = app.add_subcommand("report", "Write a run as one HTML page")->group(group::runs);
    verb_->add_option("run", options_.run, "Its id, the beginning of it, or latest")->required()->type_name("RUN");
    verb_->add_option("--out", options_.out, "File to write, or a folder; else planish-report-RUN.html here")
        ->type_name("FILE.html");
    verb_->add_flag("--watch", options_.watch,
                    "Write it anew until the run has ended; an open page shows it by itself");
    add_store(verb_, options_.store);
    add_output(verb_, output);
    add_examples(verb_, {{"planish report latest", "writes planish-report-RUN.html"},
                         {"planish report latest --watch", "while it runs, beside it: open the page and look"}});
  }
  std::optional<int> run(const CommandLine& /*line*/, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    return report_verb(options_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  ReportVerb options_;
};

}  // namespace

std::unique_ptr<Command> report_command(CLI::App& app, Output& output) {
  return std::make_unique<ReportCommand>(app, output);
}

}  // namespace planish::cli
