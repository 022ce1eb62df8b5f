#pragma once

#include <string>
#include <vector>

/// A /tmp that is the guest's alone, and nothing of the user's home but what it needs: folders of its scratch lie over
/// both, in its mount namespace.
namespace planish::runner {

/// Whether this process can do that: it is done once and undone.
bool can_own_tmp(const std::string& scratch);
/// From here on /tmp is `scratch`/tmp, and $HOME `scratch`/home, which nothing may be written to. What `writable` and
/// `readable` name below the real ones stays where it is, as far as it is there; the two themselves and what lies
/// outside is left out. Of `hidden`, wherever it lies, nothing is seen: a file is empty, and so is a folder that holds
/// nothing of `readable`. False where nothing, or not all of it, was done.
bool own_tmp(const std::string& scratch, const std::vector<std::string>& writable,
             const std::vector<std::string>& readable, const std::vector<std::string>& hidden);

}  // namespace planish::runner
