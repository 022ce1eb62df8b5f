#pragma once

/// How many threads CPU kernels take: as many as whoever calls allows, and one where OpenMP does not work.
namespace planish::rt {

/// OpenMP as the process has it: torch's, where torch is loaded. Both null: no kernel of the process uses it.
struct OpenMp {
  int (*most)() = nullptr;       ///< omp_get_max_threads, of the calling thread
  void (*allow)(int) = nullptr;  ///< omp_set_num_threads, for the calling thread
};

/// `library`: a kernel that is loaded (dlopen's handle). Also has forks looked at from now on.
OpenMp find_openmp(void* library);

/// Most threads for the kernels that the calling thread runs from now on; 0: what OpenMP says. Returns the last one.
int limit_threads(int most);

/// True in the thread that a fork left, where OpenMP may wait for threads that are gone: every thread of a pool dies
/// with a fork, but its owner does not know. Threads that the child starts have pools of their own.
bool forked();

/// While it lives, the calling thread's kernels take no more threads than they may.
class Team {
 public:
  explicit Team(const OpenMp& openmp);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

 private:
  const OpenMp& openmp_;
  int before_ = 0;  ///< 0: nothing to restore
};

}  // namespace planish::rt
