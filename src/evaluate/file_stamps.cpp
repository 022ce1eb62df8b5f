#include "evaluate/file_stamps.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>

namespace planish {
namespace {

constexpr std::int64_t nanoseconds = 1'000'000'000;

}  // namespace

std::int64_t FileStamps::now() {
  timespec time{};
  // The clock that file systems take their times from.
  ::clock_gettime(CLOCK_REALTIME_COARSE, &time);
  return time.tv_sec * nanoseconds + time.tv_nsec;
}

bool FileStamps::read(const std::string& path, Stamp& out) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return false;
  // The change time: whoever puts an older file in its place, or turns its date back, changes that.
  out = {info.st_size, info.st_ctim.tv_sec * nanoseconds + info.st_ctim.tv_nsec, info.st_ino};
  return true;
}

FileStamps::FileStamps(const std::vector<std::string>& paths, std::int64_t read_since) : sure_(!paths.empty()) {
  for (const std::string& path : paths) {
    Stamp stamp;
    sure_ = sure_ && read(path, stamp) && stamp.changed < read_since;
    stamps_[path] = stamp;
  }
}

bool FileStamps::unchanged() const {
  return sure_ && std::ranges::all_of(stamps_, [](const auto& item) {
           Stamp now;
           return read(item.first, now) && now == item.second;
         });
}

}  // namespace planish
