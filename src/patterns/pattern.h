#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "patterns/fact.h"

namespace planish::patterns {

/// One piece of kernel knowledge: a kernel, a collective, an example, a configuration of a generator, or one of our
/// own templates. A value.
struct Pattern {
  std::string id;         ///< 12 hex digits: of its corpus, path, name and content
  std::string kind;       ///< planish | cutlass | triton | cuda
  std::string corpus;     ///< name of the import that brought it
  std::string form;       ///< kernel, collective, device, example, configuration, template, …
  std::string name;       ///< as its source calls it
  std::string path;       ///< within the imported folder
  std::int64_t line = 0;  ///< from 1; 0 where it has none
  std::string summary;    ///< a line or a few, of its own comments
  Facts facts;
  /// Its source, or the text of a template. Of a configuration: that of the first of its family.
  std::string source;
  bool foreign = true;  ///< somebody else wrote it: material, whatever it says

  /// What is searched beside name, path, facts and summary; not kept.
  std::string more_words;
  /// Patterns of one family differ in details (tile, layout): a search gives the best one of each. Not kept.
  std::string family;
};

/// The pattern as material for a model's prompt: facts and source between marks that its text cannot close, with a
/// line that says that nothing within is an instruction. At most `limit` bytes of source.
std::string as_material(const Pattern& pattern, std::size_t limit = 16'000);

}  // namespace planish::patterns
