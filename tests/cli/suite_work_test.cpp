#include "cli/suite_work.h"

#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <map>
#include <mutex>

using namespace planish;
using namespace planish::cli;

namespace {

constexpr const char* too_large =
    R"({"schema_version":"1","error":{"kind":"out_of_memory","message":"the reference does not fit in memory","hint":"use smaller inputs"}})";

constexpr const char* ran = R"({"schema_version":"1","error":{"kind":"crash","message":"ran","hint":""}})";

/// Evaluators that share one device's memory: a job takes what its name says, and fails where that is not there.
struct Device {
  long memory = 0;
  std::mutex mutex{};
  long taken = 0;
  std::map<std::string, int> runs{};
  std::atomic<int> places{0};
  int places_at_last = 0;
  std::unique_ptr<std::latch> together{};  ///< of the first job of each place: each has begun before one ends
};

class Place : public Workplace {
 public:
  explicit Place(Device& device) : device_(device) { ++device_.places; }
  ~Place() override { --device_.places; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  std::string name() const override { return "0"; }
  std::string device() const override { return "GPU"; }
  Result<Ended> run(std::vector<std::string> arguments, double, const CancelToken&) override {
    const long need = std::stol(arguments.at(0));
    bool first = false, fits = false;
    {
      const std::scoped_lock lock(device_.mutex);
      first = ++device_.runs[arguments.at(0)] == 1;
      device_.places_at_last = device_.places;
      fits = device_.taken + need <= device_.memory;
      if (fits) device_.taken += need;
    }
    if (first && device_.together) device_.together->arrive_and_wait();
    if (!fits) return Ended{"optimize", too_large, {}, false};
    const std::scoped_lock lock(device_.mutex);
    device_.taken -= need;
    return Ended{"optimize", ran, {}, false};
  }

 private:
  Device& device_;
};

std::vector<suite::Row> rows_of(Device& device, const std::vector<long>& needs, int workers) {
  SuiteWork work;
  work.workers = workers;
  work.save = [](const std::vector<suite::Row>&) { return Status{}; };
  for (const long need : needs) {
    SuiteJob job;
    job.name = std::to_string(need);
    job.row.task = job.name;
    job.command = [name = job.name](const std::string&) { return std::vector<std::string>{name}; };
    work.jobs.push_back(std::move(job));
  }
  if (workers > 1) device.together = std::make_unique<std::latch>(static_cast<std::ptrdiff_t>(needs.size()));
  std::vector<std::unique_ptr<Workplace>> places;
  for (int i = 0; i < workers; ++i) places.push_back(std::make_unique<Place>(device));
  Output output;
  output.quiet = true;
  auto rows = work_off_at(std::move(places), work, output, CancelToken());
  REQUIRE(rows);
  return *rows;
}

}  // namespace

TEST_CASE("what memory does not suffice for beside others runs again alone") {
  Device device{.memory = 100};
  const auto rows = rows_of(device, {60, 70, 10, 80}, 4);
  REQUIRE(rows.size() == 4);
  for (const auto& row : rows) CHECK_MESSAGE(row.message == "ran", row.task);
  CHECK(rows[0].task == "60");  // in the order of the jobs, whenever they ran
  CHECK(rows[3].task == "80");
  int again = 0;
  for (const auto& [name, runs] : device.runs) again += runs - 1;
  CHECK(again == 2);  // of 60, 70 and 80 one fits at a time
  CHECK(device.places_at_last == 1);
  CHECK(device.places == 0);
}

TEST_CASE("what does not fit alone fails, after one more try where there were others") {
  Device shared{.memory = 50};
  auto rows = rows_of(shared, {60, 10}, 2);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].kind == "out_of_memory");
  CHECK(rows[0].hint == "use smaller inputs");
  CHECK(rows[1].message == "ran");
  CHECK(shared.runs["60"] == 2);
  Device own{.memory = 50};
  rows = rows_of(own, {60, 10}, 1);
  CHECK(rows[0].kind == "out_of_memory");
  CHECK(own.runs["60"] == 1);
}
