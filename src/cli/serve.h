#pragma once

#include <filesystem>

#include "base/result.h"

namespace planish::cli {

/// Where `planish serve` listens: in a folder that only this user can write to, under a name that stands for this build
/// of Planish, the working folder and all of the environment that could change what an evaluator answers. So a command
/// finds only one that would do as its own would. Kinds: `permission_denied` where the folder is another's; those of
/// files.
Result<std::filesystem::path> serve_socket();

}  // namespace planish::cli
