#pragma once

#include <array>
#include <string_view>

/// The Python files that every shipped folder and file brings.
namespace planish::ship {

/// By their paths in python/planish, in the order in which they are imported (PARTS in ship/guards.py). All but the
/// first lie in `ship/`, and all go by their file names in a folder.
inline constexpr std::array<std::string_view, 17> python_parts{
    "executor.py",   "ship/names.py",     "ship/wrapped.py", "ship/hooks.py",    "ship/outside.py", "ship/frozen.py",
    "ship/reach.py", "ship/signature.py", "ship/context.py", "ship/trees.py",    "ship/holders.py", "ship/watch.py",
    "ship/apart.py", "ship/archive.py",   "ship/parts.py",   "ship/deferred.py", "ship/guards.py",
};

}  // namespace planish::ship
