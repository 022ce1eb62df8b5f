#pragma once

#include <string>
#include <vector>

/// A /tmp that is the guest's alone: a folder of its scratch lies over the machine's, in its mount namespace.
namespace planish::runner {

/// Whether this process can do that: it is done once and undone.
bool can_own_tmp(const std::string& scratch);
/// From here on /tmp is `scratch`/tmp. What `writable` and `readable` name below the real one stays where it is, as far
/// as it is there; /tmp itself and what lies outside is left out. False where nothing, or not all of it, was done.
bool own_tmp(const std::string& scratch, const std::vector<std::string>& writable,
             const std::vector<std::string>& readable);

}  // namespace planish::runner
