#include "base/fd.h"

#include <unistd.h>

namespace planish {

void UniqueFd::reset(int fd) {
  // EINTR after close() leaves the descriptor closed on Linux: never retry.
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

}  // namespace planish
