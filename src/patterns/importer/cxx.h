#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// What a C++ or CUDA file declares, without a compiler: good enough for kernels and class templates of any style, and
/// never wrong about memory whatever it is given.
namespace planish::patterns {

struct Declaration {
  std::string name;                          ///< with the arguments of a specialisation: "CollectiveMma<MainloopSm90…>"
  std::string base;                          ///< without them
  bool kernel = false;                       ///< a `__global__` function; else a class or struct
  std::size_t begin = 0, body = 0, end = 0;  ///< in the text; `body` is its `{`
  std::size_t line = 0;                      ///< from 1
  std::string comment;                       ///< directly above, without its marks; licences are none
  std::vector<std::string> namespaces;       ///< outermost first
};

/// The text with comments, the insides of literals, directives and the branches behind #else as spaces: as long as the
/// text, so that places agree.
std::string without_comments(std::string_view text);

/// Classes and structs that are defined at namespace scope, and kernels, in their order.
std::vector<Declaration> declarations(std::string_view text);

/// The first comment of a file that is no licence, without its marks; empty where there is none.
std::string file_comment(std::string_view text);

/// With every run of spaces and line ends as one space.
std::string one_line(std::string_view text);

}  // namespace planish::patterns
