#include "threads.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

namespace planish::rt {
namespace {

thread_local int limit = 0;
thread_local bool left_by_fork = false;
thread_local bool alone = false;  ///< at the fork under way: a process of one thread has no pool

/// Threads of this process; 2 where that cannot be told.
int count_threads() {
  const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 2;
  char text[1024];
  const ssize_t got = read(file, text, sizeof text - 1);
  close(file);
  if (got <= 0) return 2;
  text[got] = '\0';
  // The command's name may hold anything; the last bracket ends it. The number is the 18th field after it.
  const char* at = std::strrchr(text, ')');
  for (int field = 0; at != nullptr && field < 18; ++field) at = std::strchr(at + 1, ' ');
  return at != nullptr ? std::atoi(at + 1) : 2;
}

void before_fork() {
  alone = count_threads() == 1;
}
void in_child() {
  left_by_fork = left_by_fork || !alone;
}

template <typename F>
F symbol(void* library, const char* name) {
  // What is visible to all comes first: so the kernel's own references were resolved.
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) found = dlsym(library, name);
  F out = nullptr;
  std::memcpy(&out, &found, sizeof out);
  return out;
}

}  // namespace

OpenMp find_openmp(void* library) {
  static const bool watched = pthread_atfork(before_fork, nullptr, in_child) == 0;
  static_cast<void>(watched);
  OpenMp found{symbol<int (*)()>(library, "omp_get_max_threads"),
               symbol<void (*)(int)>(library, "omp_set_num_threads")};
  return found.most != nullptr && found.allow != nullptr ? found : OpenMp{};
}

int limit_threads(int most) {
  return std::exchange(limit, most > 0 ? most : 0);
}

bool forked() {
  return left_by_fork;
}

Team::Team(const OpenMp& openmp) : openmp_(openmp) {
  const int wanted = left_by_fork ? 1 : limit;
  if (wanted == 0 || openmp.most == nullptr) return;
  const int now = openmp.most();
  if (now == wanted) return;
  before_ = now;
  openmp.allow(wanted);
}

Team::~Team() {
  if (before_ != 0) openmp_.allow(before_);
}

}  // namespace planish::rt
