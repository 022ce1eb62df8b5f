#include <cstdint>
#include <limits>

#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/commands/values.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class VerifyCommand : public Command {
 public:
  VerifyCommand(CLI::App& app, Output& output) {
    verb_ =
        app.add_subcommand("verify", "Prove a shipped folder, or judge somebody's ModelNew")->group(group::optimize);
    verb_->add_option("task", options_.task, "A Python file with Model and get_inputs")
        ->required()
        ->type_name("TASK.py");
    verb_
        ->add_option("solution", options_.path,
                     "A shipped folder, or a Python file with ModelNew; - reads one from stdin")
        ->required();
    begin_group(verb_, "Proof");
    verb_->add_option("--seeds", options_.seeds, "Fresh seeds to test on")
        ->check(whole_number(1, 1000))
        ->capture_default_str();
    verb_->add_option("--seed", options_.seed, "Prove it on the data of this seed, as a verdict names it")
        ->check(whole_number(1, std::numeric_limits<std::uint64_t>::max()));
    verb_->add_flag("--finite-only", options_.finite_only,
                    "Accept what is right for finite values and spreads NaN and Inf further than eager does");
    verb_->add_flag(
        "--other-compiler", options_.other_compiler,
        "Accept binaries for the CPU that another compiler made, of which nobody can say here what is in them");
    add_target(verb_, options_.target);
    add_accuracy(verb_, options_.accuracy);
    add_compat(verb_, options_.compat, options_.precision);
    begin_group(verb_, "Times");
    verb_->add_flag("--time", options_.time, "Also time what was verified, beside baselines");
    verb_->add_option("--baselines", options_.baselines, "For --time: all, none (eager alone), or a list")
        ->type_name("LIST")
        ->capture_default_str();
    verb_->add_option("--keep-times", options_.keep_times, "File of baselines' times, used again for the same task")
        ->type_name("FILE");
    begin_group(verb_, "Limits and checks");
    verb_->add_flag("--no-memory-check", options_.no_memory_check,
                    "Do not ask compute-sanitizer, on a GPU where it is installed, about its memory accesses");
    add_task_timeout(verb_, options_.task_timeout);
    add_no_serve(verb_, options_.no_serve);
    add_output(verb_, output);
    add_format(verb_, output);
    add_examples(verb_, {{"planish verify model.py planish-model", "prove what optimize shipped, on fresh data"},
                         {"planish verify model.py answer.py --time", "judge a ModelNew, and time it beside baselines"},
                         {"planish verify model.py - <answer.py", "the same of what another program writes"},
                         {"planish verify model.py answer.py --compat kernelbench", "ask KernelBench's rule as well"}});
  }
  std::optional<int> run(const CommandLine& /*line*/, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    return verify_verb(options_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  VerifyVerb options_;
};

}  // namespace

std::unique_ptr<Command> verify_command(CLI::App& app, Output& output) {
  return std::make_unique<VerifyCommand>(app, output);
}

}  // namespace planish::cli
