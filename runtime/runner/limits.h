#pragma once

#include <cstdint>

/// What keeps a guest in its place. Each is best effort and says whether it took effect.
namespace planish::runner {

/// A user and a network namespace of its own: no interface but a loopback that is down. Before any thread starts.
bool leave_network();
/// In a user namespace just entered: this process stays who it was. Without it it would be nobody, and could not open
/// files that belong to it.
void keep_identity();
/// Kills this process when its parent dies.
bool die_with_parent();

/// Starts a thread that ends the process with a fault line `memory` when its resident bytes, less those counted by
/// exempt_bytes(), exceed `limit`. (RLIMIT_AS will not do: CUDA reserves terabytes of addresses.)
bool watch_memory(std::uint64_t limit);
/// Adds to (or with a negative number takes from) the bytes of bound shared buffers, which are the parent's. Any
/// thread.
void exempt_bytes(std::int64_t delta);

}  // namespace planish::runner
