#pragma once

#include <cstdint>

/// Mounts' attributes, by numbers that are newer than the headers of the machines this is built on.
namespace planish::runner {

constexpr std::uint64_t mount_read_only = 1, mount_no_setuid = 2, mount_no_devices = 4;

/// Of the mount at `path` (as seen from `folder`; "" for `folder` itself) and, if `recursive`, of all below it.
bool set_mount(int folder, const char* path, std::uint64_t set, std::uint64_t clear, bool recursive);
/// A descriptor of a copy of what is mounted there, which is nowhere in the file system. -1 where that fails.
int copy_mount(const char* path);
/// Mounts such a copy on what `place` stands for.
bool put_mount(int copy, int place);

}  // namespace planish::runner
