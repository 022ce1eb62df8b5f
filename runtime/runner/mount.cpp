#include "mount.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace planish::runner {
namespace {

constexpr long sys_open_tree = 428, sys_move_mount = 429, sys_mount_setattr = 442;
constexpr unsigned every_mount_below = 0x8000, copied = 1, from_descriptor = 0x4, to_descriptor = 0x40;
struct MountAttributes {
  std::uint64_t set, clear, propagation, user_namespace;
};

}  // namespace

bool set_mount(int folder, const char* path, std::uint64_t set, std::uint64_t clear, bool recursive) {
  const MountAttributes wanted{set, clear, 0, 0};
  const unsigned flags = AT_EMPTY_PATH | (recursive ? every_mount_below : 0U);
  return syscall(sys_mount_setattr, folder, path, flags, &wanted, sizeof wanted) == 0;
}

int copy_mount(const char* path) {
  return static_cast<int>(
      syscall(sys_open_tree, AT_FDCWD, path, copied | static_cast<unsigned>(O_CLOEXEC) | every_mount_below));
}

bool put_mount(int copy, int place) {
  return syscall(sys_move_mount, copy, "", place, "", from_descriptor | to_descriptor) == 0;
}

}  // namespace planish::runner
