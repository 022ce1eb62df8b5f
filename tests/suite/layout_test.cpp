#include "suite/layout.h"

#include <doctest/doctest.h>

#include "base/file.h"

using namespace planish;
using namespace planish::suite;

namespace {

/// Folders of tasks and of solutions with these files.
struct Folders {
  TempDir root;
  std::filesystem::path tasks = root.path() / "tasks", answers = root.path() / "answers";

  explicit Folders(TempDir made) : root(std::move(made)) {
    REQUIRE(make_directories(tasks));
    REQUIRE(make_directories(answers));
  }
  void add(const std::filesystem::path& file) const { REQUIRE(write_file(root.path() / file, "x = 1\n")); }
};

Folders folders() {
  auto made = TempDir::create("planish-layout-");
  REQUIRE(made);
  return Folders(std::move(*made));
}

std::vector<std::string> names(const std::vector<Task>& tasks) {
  std::vector<std::string> out;
  for (const Task& task : tasks) out.push_back(task.name);
  return out;
}

}  // namespace

TEST_CASE("tasks of a plain folder, and of a folder of levels by number") {
  const Folders f = folders();
  CHECK(tasks_in(f.tasks).error().kind.name() == "no_tasks");
  CHECK(tasks_in(f.root.path() / "none").error().kind.name() == "no_such_file");
  for (const char* file : {"tasks/b.py", "tasks/a.py", "tasks/_helper.py", "tasks/notes.md"}) f.add(file);
  auto tasks = tasks_in(f.tasks);
  REQUIRE(tasks);
  CHECK(names(*tasks) == std::vector<std::string>{"a", "b"});
  CHECK(tasks->front().level == 0);
  for (const char* file : {"KB/level2/1_C.py", "KB/level1/10_B.py", "KB/level1/2_A.py", "KB/changelog/x.py"})
    f.add(file);
  tasks = tasks_in(f.root.path() / "KB");
  REQUIRE(tasks);
  CHECK(names(*tasks) == std::vector<std::string>{"level1/2_A", "level1/10_B", "level2/1_C"});
  CHECK((*tasks)[1].problem == 10);
  // The folder of one level is a suite as well.
  tasks = tasks_in(f.root.path() / "KB" / "level1" / "");
  REQUIRE(tasks);
  CHECK(names(*tasks) == std::vector<std::string>{"2_A", "10_B"});
  CHECK(tasks->front().level == 1);
}

TEST_CASE("a folder without tasks: where they are looked for, and what lies elsewhere") {
  const Folders f = folders();
  CHECK(tasks_in(f.tasks).error().hint ==
        "tasks are looked for directly in the folder, or in its folders level1, level2, …");
  for (const char* file : {"tasks/easy/a.py", "tasks/easy/b.py", "tasks/hard/set/c.py", "tasks/easy/__init__.py",
                           "tasks/.git/d.py", "tasks/easy/notes.md"})
    f.add(file);
  const Error error = tasks_in(f.tasks).error();
  CHECK(error.kind.name() == "no_tasks");
  CHECK(error.hint.ends_with("; Python files lie elsewhere: 2 in easy, 1 in hard/set: name such a folder"));
  for (const char* file : {"tasks/one/a.py", "tasks/two/a.py"}) f.add(file);
  CHECK(tasks_in(f.tasks).error().hint.ends_with("1 in one, and 1 more folders: name such a folder"));
}

TEST_CASE("solutions are found by the task's name, by its number, and as what Planish shipped") {
  const Folders f = folders();
  for (const char* file : {"tasks/a.py", "tasks/b.py", "tasks/c.py"}) f.add(file);
  auto tasks = tasks_in(f.tasks);
  REQUIRE(tasks);
  CHECK(solutions_in(f.answers, *tasks).error().kind.name() == "no_solutions");
  for (const char* file : {"answers/a.py", "answers/other.py", "answers/b/shipped/ship.json"}) f.add(file);
  auto found = solutions_in(f.answers, *tasks);
  REQUIRE(found);
  REQUIRE(found->work.size() == 3);
  CHECK(found->work[0].solution == f.answers / "a.py");
  CHECK(found->work[1].solution == f.answers / "b");
  CHECK(found->work[2].solution.empty());
  CHECK(found->unmatched == std::vector<std::string>{"other.py"});
}

TEST_CASE("a run of KernelBench: several samples a problem, and only the levels that it answers") {
  const Folders f = folders();
  for (const char* file :
       {"tasks/level1/1_A.py", "tasks/level1/2_B.py", "tasks/level2/1_C.py",
        "answers/level_1_problem_1_sample_1_kernel.py", "answers/level_1_problem_1_sample_0_kernel.py",
        "answers/level_1_problem_9_sample_0_kernel.py"})
    f.add(file);
  auto tasks = tasks_in(f.tasks);
  REQUIRE(tasks);
  const auto found = solutions_in(f.answers, *tasks);
  REQUIRE(found);
  REQUIRE(found->work.size() == 3);
  CHECK(found->work[0].name() == "level1/1_A");
  CHECK(found->work[1].name() == "level1/1_A-1");
  CHECK(found->work[2].solution.empty());
  CHECK(found->unmatched == std::vector<std::string>{"level_1_problem_9_sample_0_kernel.py"});
}
