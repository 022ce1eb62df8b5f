#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "support.h"

using namespace runtime_test;

namespace {

/// How many threads a kernel that asks for four at most got.
class Counter {
 public:
  Counter()
      : loaded_(program({buffer("output", {1}, "i64")}, {launch(0, {{{"buffer", 0}}})}),
                {compile(scratch_,
                         "const int allowed = omp_get_max_threads();\n"
                         "#pragma omp parallel num_threads(allowed < 4 ? allowed : 4)\n"
                         "{\n#pragma omp barrier\nif (omp_get_thread_num() == 0) *(int64_t*)args[0] = "
                         "omp_get_num_threads();\n}",
                         "-fopenmp", "#include <omp.h>\n")}) {
    REQUIRE_MESSAGE(loaded_.program != nullptr, loaded_.error.message);
  }
  int threads() {
    std::int64_t seen = 0;
    return loaded_.run({&seen}, 0, 1) == 0 ? static_cast<int>(seen) : -1;
  }
  int threads(int most) {
    const int before = prt_threads(most);
    const int seen = threads();
    CHECK(prt_threads(before) == most);
    return seen;
  }

 private:
  Scratch scratch_;
  Loaded loaded_;
};

/// The exit status of a child that runs `body`, or −1 if it is not done within a minute.
template <typename Body>
int in_child(Body body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("kernels take no more threads than their caller allows, each thread for itself") {
  Counter counter;
  CHECK(counter.threads(4) == 4);
  CHECK(counter.threads(3) == 3);
  CHECK(counter.threads(1) == 1);
  const int usual = counter.threads();
  CHECK(usual >= 1);
  CHECK(counter.threads(2) == 2);
  CHECK(counter.threads() == usual);  // what OpenMP says to the thread stays what it was
  prt_threads(2);
  int other = 0;
  std::thread([&] { other = counter.threads(3); }).join();
  CHECK(other == 3);
  CHECK(prt_threads(0) == 2);
}

TEST_CASE("a forked child runs kernels whose threads did not come with it") {
  Counter counter;
  REQUIRE(counter.threads(4) == 4);
  CHECK(in_child([&] { return counter.threads(4); }) == 1);
  CHECK(in_child([&] { return counter.threads(); }) == 1);
  CHECK(in_child([&] { return in_child([&] { return counter.threads(4); }); }) == 1);
  CHECK(in_child([&] {
          int seen = 0;
          std::thread([&] { seen = counter.threads(4); }).join();  // a thread of the child's own
          return seen;
        }) == 4);
  CHECK(counter.threads(4) == 4);
}
