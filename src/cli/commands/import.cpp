#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/commands/values.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class ImportCommand : public Command {
 public:
  ImportCommand(CLI::App& app, Output& output) {
    verb_ = app.add_subcommand("import", "Make tasks and solutions of another collection's files")->group(group::many);
    verb_->add_option("collection", options_.from, "Its folder; of BackendBench the file of traced calls")
        ->required()
        ->type_name("PATH");
    verb_->add_option("--format", options_.format, "auto, or the collection's name")
        ->check(one_of({"auto", "gpu-mode", "flashinfer-bench", "backendbench", "tritonbench", "atrex-bench"}))
        ->capture_default_str();
    verb_
        ->add_option("--solutions", options_.solutions,
                     "BackendBench: folder of operators' folders; TritonBench: file of predictions")
        ->type_name("PATH");
    verb_->add_option("--out", options_.out, "Folder to write; else planish-import here")->type_name("DIR");
    add_output(verb_, output);
    add_examples(verb_, {{"planish import flashinfer-trace --out tasks", "a collection that is told by what it holds"},
                         {"planish import traces.txt --solutions operators", "BackendBench, with its kernels"}});
  }
  std::optional<int> run(const CommandLine& /*line*/, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    return import_verb(options_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  ImportVerb options_;
};

}  // namespace

std::unique_ptr<Command> import_command(CLI::App& app, Output& output) {
  return std::make_unique<ImportCommand>(app, output);
}

}  // namespace planish::cli
