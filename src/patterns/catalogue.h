#pragma once

#include <string_view>
#include <vector>

// Private to src/patterns: the files of patterns/ (of the repository), part of the program.
namespace planish::patterns {

struct CatalogueFile {
  std::string_view name;  ///< without its folder
  std::string_view text;
};
const std::vector<CatalogueFile>& catalogue_files();

}  // namespace planish::patterns
