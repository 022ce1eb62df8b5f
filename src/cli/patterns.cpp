#include "cli/patterns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/pattern_embedding.h"
#include "cli/pattern_readers.h"
#include "patterns/importer/import.h"
#include "patterns/own.h"
#include "patterns/words.h"
#include "session/measured_patterns.h"
#include "session/result_document.h"
#include "session/run_json.h"
#include "worker/printable.h"

namespace planish::cli {
using namespace session;

namespace {

namespace fs = std::filesystem;
using patterns::Pattern;
using worker::printable;

Json document_of(const patterns::Library& library) {
  return {{"schema_version", ResultDocument::schema_version}, {"index", library.file().string()}};
}

Json pattern_json(const Pattern& p) {
  Json out{{"id", p.id},           {"kind", p.kind},         {"corpus", p.corpus}, {"form", p.form},
           {"name", p.name},       {"path", p.path},         {"line", p.line},     {"summary", p.summary},
           {"foreign", p.foreign}, {"facts", Json::object()}};
  for (const auto& [name, values] : p.facts) out["facts"][name] = values;
  return out;
}

std::string place_of(const Pattern& p) {
  return p.line > 0 ? fmt::format("{}:{}", p.path, p.line) : p.path;
}

/// Facts for a line: those that are searched by, in the order of what they say.
std::string short_facts(const Pattern& p) {
  std::string out;
  for (const char* name : {"operation", "variant", "direction", "dtype", "arch", "tile", "cluster", "layout",
                           "schedule", "epilogue", "trait"}) {
    const auto found = p.facts.find(name);
    if (found == p.facts.end()) continue;
    if (!out.empty()) out += "  ";
    out += std::string_view(name) == "arch" ? fmt::format("sm{}", fmt::join(found->second, ",sm"))
                                            : fmt::format("{}", fmt::join(found->second, ","));
  }
  return out.size() > 160 ? out.substr(0, 157) + "…" : out;
}

void add_value(patterns::Facts& facts, std::string_view name, const std::string& given) {
  // "sm_90a" and "split-k" are one word each.
  std::string joined;
  for (const char c : given) {
    if (c != '_' && c != '-' && c != ' ') joined += c;
  }
  patterns::Facts said = patterns::recognise(patterns::words(given));
  patterns::add_facts(said, patterns::recognise(patterns::words(joined)));
  if (name == "arch") patterns::add_facts(said, patterns::recognise(patterns::words("sm" + joined)));
  if (const auto found = said.find(name); found != said.end()) {
    // The most particular: e4m3 is an fp8 as well, and asks for itself.
    for (const std::string& value : found->second) {
      const bool general = found->second.size() > 1 && (value == "fp8" || value == "fp4" || value == "fp6");
      if (!general) patterns::add_fact(facts, name, value);
    }
    return;
  }
  std::string lower;
  for (const char c : given) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  patterns::add_fact(facts, name, lower);
}

}  // namespace

Result<patterns::Library> open_library(const PatternsVerb& options) {
  return patterns::Library::open(options.index.empty() ? patterns::Library::default_file() : fs::path(options.index));
}

namespace {

int import_action(const PatternsVerb& options, const Output& output) {
  const fs::path folder = fs::path(options.folder).lexically_normal();
  std::error_code ignored;
  const fs::path absolute = fs::weakly_canonical(fs::absolute(folder), ignored);
  auto library = open_library(options);
  if (!library) return output.error(library.error());
  const std::string name =
      options.name.empty() ? fmt::format("{}:{}", options.kind, absolute.filename().string()) : options.name;
  if (name == patterns::own_corpus || name.size() > 200) {
    return output.error(
        Error{"bad_filter", fmt::format("{} cannot be the name of an import", name), {}, "give another with --name"});
  }
  const auto known = library->corpora();
  if (!known) return output.error(known.error());
  for (const patterns::Corpus& one : *known) {
    if (one.name != name || (one.folder == absolute.string() && one.kind == options.kind)) continue;
    if (!options.name.empty()) continue;  // asked for by name
    return output.error(
        Error{"name_taken",
              fmt::format("patterns of another folder are already kept as {}", name),
              {one.folder},
              "give this import a name of its own with --name, or replace that one with --name " + name});
  }
  auto imported = patterns::import_folder(options.kind, absolute, name, pattern_readers(worker::Toolbox::resolve()));
  if (!imported) return output.error(imported.error());
  auto kept = library->replace({name, options.kind, absolute.string(), 0, 0}, imported->patterns);
  if (!kept) return output.error(kept.error());
  Json document = document_of(*library);
  std::map<std::string, std::int64_t> forms;
  for (const Pattern& one : imported->patterns) ++forms[one.form];
  document["corpus"] = kept->name;
  document["kind"] = kept->kind;
  document["folder"] = kept->folder;
  document["files"] = imported->files;
  document["found"] = imported->patterns.size();
  document["patterns"] = kept->patterns;
  document["forms"] = forms;
  document["skipped"] = Json::array();
  std::string text = fmt::format("{} patterns kept as {} ({} found in {} files)\n", kept->patterns,
                                 printable(kept->name), imported->patterns.size(), imported->files);
  for (const auto& [form, count] : forms) text += fmt::format("  {:>7} {}\n", count, form);
  constexpr std::size_t shown = 10;
  for (const auto& [path, why] : imported->skipped) document["skipped"].push_back({{"path", path}, {"why", why}});
  for (std::size_t i = 0; i < std::min(shown, imported->skipped.size()); ++i)
    text +=
        fmt::format("left out: {} ({})\n", printable(imported->skipped[i].path), printable(imported->skipped[i].why));
  if (imported->skipped.size() > shown)
    text += fmt::format("left out: {} more; --json lists all\n", imported->skipped.size() - shown);
  output.result(dump_json(document), text);
  return exit_code::success;
}

int search_action(const PatternsVerb& options, const Output& output) {
  auto filter = pattern_filter(options);
  if (!filter) return output.error(filter.error());
  auto library = open_library(options);
  if (!library) return output.error(library.error());
  if (auto store = store::Store::open_existing(store_file(options.store)); store) {
    if (auto measured = measured_patterns(*store); measured) library->set_measured(std::move(*measured));
  }
  if (!options.name.empty()) {
    const auto known = library->corpora();
    if (!known) return output.error(known.error());
    if (std::ranges::find(*known, options.name, &patterns::Corpus::name) == known->end()) {
      return output.error(Error{"no_such_corpus",
                                fmt::format("nothing was imported under the name {}", options.name),
                                {},
                                "`planish patterns list` has the names"});
    }
  }
  auto meaning = query_vector(options, *library);
  if (!meaning) return output.error(meaning.error());
  auto hits = library->search(options.query, *filter, options.limit, {meaning->vector, {}});
  if (!hits) return output.error(hits.error());
  Json document = document_of(*library);
  if (!meaning->note.empty()) {
    document["notes"] = Json::array({meaning->note});
    if (!output.json && output.said == nullptr) fmt::print(stderr, "note: {}\n", printable(meaning->note));
  }
  document["query"] = options.query;
  document["hits"] = Json::array();
  std::string text;
  for (const patterns::Hit& hit : *hits) {
    Json one = pattern_json(hit.pattern);
    one["score"] = hit.score;
    one["score_parts"] = {{"text", hit.by_text}, {"facts", hit.by_facts}, {"measurements", hit.by_measurements}};
    if (!meaning->vector.empty()) one["score_parts"]["meaning"] = hit.by_meaning;
    document["hits"].push_back(std::move(one));
    text += fmt::format("{}  {:<7} {:<13} {}\n", hit.pattern.id, hit.pattern.kind, printable(hit.pattern.form),
                        printable(hit.pattern.name));
    text += fmt::format("              {}\n", printable(place_of(hit.pattern)));
    if (const std::string facts = short_facts(hit.pattern); !facts.empty())
      text += fmt::format("              {}\n", printable(facts));
  }
  if (hits->empty()) {
    text = "nothing found\n";
    const auto corpora = library->corpora();
    if (corpora && corpora->size() < 2)
      text +=
          "Only Planish's own patterns are here: `planish patterns import --kind cutlass|triton|cuda DIR` adds "
          "others.\n";
  }
  output.result(dump_json(document), text);
  if (!hits->empty()) output.next({"patterns", "show", hits->front().pattern.id});
  return exit_code::success;
}

int show_action(const PatternsVerb& options, const Output& output) {
  auto library = open_library(options);
  if (!library) return output.error(library.error());
  auto found = library->find(options.id);
  if (!found) return output.error(found.error());
  Json document = document_of(*library);
  Json one = pattern_json(*found);
  one["source"] = found->source;
  one["material"] = patterns::as_material(*found);
  document["pattern"] = std::move(one);
  document["measured"] = Json::array();
  std::string text;
  if (!options.source) {
    text = fmt::format("{}  {} {}\n{}\n", found->id, found->kind, printable(found->form), printable(found->name));
    text += fmt::format("from {} in {}{}\n", printable(place_of(*found)), printable(found->corpus),
                        found->foreign ? ", text of others" : "");
    for (const auto& [name, values] : found->facts)
      text += fmt::format("  {:<14} {}\n", printable(name), printable(fmt::format("{}", fmt::join(values, ", "))));
    if (!found->summary.empty()) text += fmt::format("\n{}\n", printable(found->summary));
  }
  if (!found->foreign) {
    auto store = store::Store::open_existing(store_file(options.store));
    const auto measured = store ? measured_patterns(*store) : std::unexpected(store.error());
    for (const patterns::Measured& here : measured ? *measured : std::vector<patterns::Measured>{}) {
      if (here.pattern != found->name) continue;
      document["measured"].push_back({{"device", here.device},
                                      {"kernels", here.kernels},
                                      {"right", here.right},
                                      {"tried", here.tried},
                                      {"best_fraction", here.best_fraction}});
      text += fmt::format(
          "\nmeasured here, on {}: {} kernels, {} of {} genomes right, best at {:.0f} % of the roofline on average\n",
          printable(here.device), here.kernels, here.right, here.tried, 100 * here.best_fraction);
    }
  }
  if (!options.source) text += '\n';
  text += printable(found->source);
  if (!text.ends_with('\n')) text += '\n';
  output.result(dump_json(document), text);
  return exit_code::success;
}

int list_action(const PatternsVerb& options, const Output& output) {
  auto library = open_library(options);
  if (!library) return output.error(library.error());
  auto corpora = library->corpora();
  if (!corpora) return output.error(corpora.error());
  Json document = document_of(*library);
  document["corpora"] = Json::array();
  std::string text = fmt::format("{:<28} {:<8} {:>8}  {:<19}  {}\n", "name", "kind", "patterns", "imported", "folder");
  for (const patterns::Corpus& one : *corpora) {
    document["corpora"].push_back({{"name", one.name},
                                   {"kind", one.kind},
                                   {"folder", one.folder},
                                   {"patterns", one.patterns},
                                   {"imported", one.imported}});
    text += fmt::format("{:<28} {:<8} {:>8}  {:<19}  {}\n", printable(one.name), one.kind, one.patterns,
                        one.kind == "planish" ? "comes with Planish" : when(one.imported), printable(one.folder));
  }
  output.result(dump_json(document), text);
  return exit_code::success;
}

int forget_action(const PatternsVerb& options, const Output& output) {
  auto library = open_library(options);
  if (!library) return output.error(library.error());
  auto gone = library->forget(options.id);
  if (!gone) return output.error(gone.error());
  Json document = document_of(*library);
  document["forgotten"] = gone->name;
  document["patterns"] = gone->patterns;
  output.result(dump_json(document),
                fmt::format("{} patterns of {} are forgotten\n", gone->patterns, printable(gone->name)));
  return exit_code::success;
}

}  // namespace

Result<patterns::Filter> pattern_filter(const PatternsVerb& options) {
  patterns::Filter out{options.kind, options.name, options.form, {}};
  const std::initializer_list<std::pair<const char*, const std::vector<std::string>*>> given{
      {"operation", &options.operation}, {"variant", &options.variant},   {"direction", &options.direction},
      {"dtype", &options.dtype},         {"arch", &options.arch},         {"tile", &options.tile},
      {"layout", &options.layout},       {"schedule", &options.schedule}, {"epilogue", &options.epilogue},
      {"shape", &options.shape},         {"language", &options.language}};
  for (const auto& [name, values] : given) {
    for (const std::string& value : *values) {
      if (value.empty())
        return fail("bad_filter", fmt::format("the {} to search for is empty", name),
                    "leave the option away to search for all");
      add_value(out.facts, name, value);
    }
  }
  return out;
}

int patterns_verb(PatternsAction action, const PatternsVerb& options, const Output& output) {
  switch (action) {
    case PatternsAction::import:
      return import_action(options, output);
    case PatternsAction::search:
      return search_action(options, output);
    case PatternsAction::show:
      return show_action(options, output);
    case PatternsAction::list:
      return list_action(options, output);
    case PatternsAction::embed:
      return embed_action(options, output);
    case PatternsAction::forget:
      break;
  }
  return forget_action(options, output);
}

}  // namespace planish::cli
