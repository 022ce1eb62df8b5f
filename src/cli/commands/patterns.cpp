#include "cli/patterns.h"

#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/commands/values.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class PatternsCommand : public Command {
 public:
  PatternsCommand(CLI::App& app, Output& output) {
    verb_ = app.add_subcommand("patterns", "Kernels to learn from: Planish's own, and those of your checkouts")
                ->group(group::serve);
    verb_->require_subcommand(1);

    import_ = add_action(verb_, "import", "Index the kernels of a folder; again replaces what it gave before");
    import_->add_option("folder", importing_.folder, "A checkout, or an installed package")
        ->required()
        ->type_name("DIR");
    import_->add_option("--kind", importing_.kind, "What it holds")
        ->required()
        ->check(one_of({"cutlass", "triton", "cuda"}));
    import_->add_option("--name", importing_.name, "To keep them as; else the kind and the folder's name");
    add_patterns_file(import_, "--index", importing_.index);
    add_output(import_, output);
    add_examples(import_, {{"planish patterns import cutlass --kind cutlass", "a checkout of CUTLASS"},
                           {"planish patterns import Liger-Kernel --kind triton", "Triton kernels of a checkout"}});

    search_ = add_action(verb_, "search", "Find patterns by words and facts");
    search_->add_option("query", searching_.query, "What the kernel does, for what, how")->type_name("TEXT");
    search_->add_option("--op", searching_.operation, "gemm, conv, attention, norm, softmax, scan, reduction, …");
    search_->add_option("--variant", searching_.variant, "grouped, batched, sparse, split_k, block_scaled, rms, …");
    search_->add_option("--direction", searching_.direction, "forward or backward");
    search_->add_option("--dtype", searching_.dtype, "f32, tf32, f16, bf16, fp8, e4m3, s8, …");
    search_->add_option("--arch", searching_.arch, "90, sm_90a, hopper, …");
    search_->add_option("--tile", searching_.tile, "128x256x64");
    search_->add_option("--layout", searching_.layout, "tn, nhwc, row_major, …");
    search_->add_option("--schedule", searching_.schedule, "pingpong, cooperative, tma, multistage, …");
    search_->add_option("--epilogue", searching_.epilogue, "bias, relu, gelu, …");
    search_->add_option("--shape", searching_.shape, "small, medium or large tiles; rows, columns");
    search_->add_option("--language", searching_.language, "planish, cutlass, cute_dsl, triton, gluon or cuda");
    search_->add_option("--form", searching_.form, "kernel, collective, example, configuration, template, …");
    search_->add_option("--kind", searching_.kind, "Of imports of that kind")
        ->check(one_of({"planish", "cutlass", "triton", "cuda"}));
    search_->add_option("--name", searching_.name, "Of the import kept as that");
    search_->add_option("-n,--limit", searching_.limit, "Most patterns to give")
        ->check(whole_number(1, 1000))
        ->capture_default_str();
    search_->add_flag("--no-embedding", searching_.no_embedding,
                      "By words and facts alone, also where there are vectors");
    add_store(search_, searching_.store);
    add_patterns_file(search_, "--index", searching_.index);
    add_output(search_, output);
    add_examples(search_, {{"planish patterns search 'softmax over long rows'", "by words"},
                           {"planish patterns search --op gemm --arch hopper --schedule pingpong", "by facts"}});

    embed_ = add_action(verb_, "embed",
                        "Make vectors of what searches rank, with the [embedding] of planish.toml; again goes on");
    add_patterns_file(embed_, "--index", embedding_.index);
    add_output(embed_, output);

    show_ = add_action(verb_, "show", "One pattern: its facts, its source, what it achieved");
    show_->add_option("id", showing_.id, "Its id, or the beginning of it")->required()->type_name("ID");
    show_->add_flag("--source", showing_.source, "Its source alone");
    add_store(show_, showing_.store);
    add_patterns_file(show_, "--index", showing_.index);
    add_output(show_, output);
    add_examples(show_, {{"planish patterns show 3f9a", "one that a search found"}});

    list_ = add_action(verb_, "list", "What was imported");
    add_patterns_file(list_, "--index", listing_.index);
    add_output(list_, output);

    forget_ = add_action(verb_, "forget", "Remove what was imported under a name");
    forget_->add_option("name", forgetting_.id, "Its name, as planish patterns list has it")
        ->required()
        ->type_name("NAME");
    add_patterns_file(forget_, "--index", forgetting_.index);
    add_output(forget_, output);
  }
  std::optional<int> run(const CommandLine& line, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    searching_.config = embedding_.config = line.config;
    if (import_->parsed()) return patterns_verb(PatternsAction::import, importing_, output);
    if (search_->parsed()) return patterns_verb(PatternsAction::search, searching_, output);
    if (embed_->parsed()) return patterns_verb(PatternsAction::embed, embedding_, output);
    if (show_->parsed()) return patterns_verb(PatternsAction::show, showing_, output);
    if (list_->parsed()) return patterns_verb(PatternsAction::list, listing_, output);
    return patterns_verb(PatternsAction::forget, forgetting_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  CLI::App* import_ = nullptr;
  CLI::App* search_ = nullptr;
  CLI::App* embed_ = nullptr;
  CLI::App* show_ = nullptr;
  CLI::App* list_ = nullptr;
  CLI::App* forget_ = nullptr;
  PatternsVerb importing_, searching_, embedding_, showing_, listing_, forgetting_;
};

}  // namespace

std::unique_ptr<Command> patterns_command(CLI::App& app, Output& output) {
  return std::make_unique<PatternsCommand>(app, output);
}

}  // namespace planish::cli
