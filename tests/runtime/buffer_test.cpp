#include <sys/mman.h>

#include <cstdint>

#include "support.h"

using namespace runtime_test;

namespace {
prt_buffer* import(const Shared& shared, std::uint64_t bytes, bool writable, prt_error* error) {
  prt_buffer* out = nullptr;
  prt_buffer_import(-1, dup(prt_buffer_fd(shared.buffer)), bytes, prt_buffer_offset(shared.buffer),
                    prt_buffer_map_bytes(shared.buffer), writable, &out, error);
  return out;
}
/// Runs `body` in a child; its exit code, or 1000 + signal.
template <typename Body>
int in_child(Body body) {
  const pid_t pid = fork();
  if (pid == 0) {
    for (const int s : {SIGSEGV, SIGBUS, SIGABRT}) signal(s, SIG_DFL);
    _exit(body());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}
}  // namespace

TEST_CASE("two processes see the same tensor, at any size") {
  for (const std::uint64_t bytes : {0u, 1u, 63u, 64u, 4096u, 5000u, 1u << 20}) {
    const Shared shared(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(shared.data<char>()) % 64 == 0);
    const std::uint64_t tail = prt_buffer_map_bytes(shared.buffer) - prt_buffer_offset(shared.buffer) - bytes;
    CHECK(tail <= 64);  // as close to the guard as alignment allows
    for (std::uint64_t i = 0; i < bytes; ++i) shared.data<unsigned char>()[i] = static_cast<unsigned char>(i * 7);
    const int code = in_child([&] {
      prt_error error{};
      prt_buffer* other = import(shared, bytes, true, &error);
      if (other == nullptr) return 1;
      auto* at = static_cast<unsigned char*>(prt_buffer_data(other));
      for (std::uint64_t i = 0; i < bytes; ++i) {
        if (at[i] != static_cast<unsigned char>(i * 7)) return 2;
        at[i] = 9;
      }
      prt_buffer_free(other);
      return 0;
    });
    CHECK(code == 0);
    for (std::uint64_t i = 0; i < bytes; ++i) REQUIRE(shared.data<unsigned char>()[i] == 9);
    CHECK(shared.intact());
  }
}

TEST_CASE("nobody but the creator writes to a sealed buffer") {
  const Shared shared(5000, true);
  shared.data<char>()[0] = 42;
  const int code = in_child([&] {
    prt_error error{};
    if (import(shared, 5000, true, &error) != nullptr || std::strcmp(error.kind, "bad_argument") != 0) return 1;
    const int fd = prt_buffer_fd(shared.buffer);
    if (pwrite(fd, "x", 1, static_cast<off_t>(prt_buffer_offset(shared.buffer))) >= 0) return 2;
    if (ftruncate(fd, 0) == 0) return 3;
    prt_buffer* reader = import(shared, 5000, false, &error);
    if (reader == nullptr || static_cast<char*>(prt_buffer_data(reader))[0] != 42) return 4;
    const std::uint64_t map = prt_buffer_map_bytes(reader);
    char* start = static_cast<char*>(prt_buffer_data(reader)) - prt_buffer_offset(reader);
    return mprotect(start, map, PROT_READ | PROT_WRITE) == 0 ? 5 : 0;
  });
  CHECK(code == 0);
  shared.data<char>()[0] = 43;  // the creator still may
  CHECK(shared.data<char>()[0] == 43);
  const int write = in_child([&] {
    prt_error error{};
    prt_buffer* reader = import(shared, 5000, false, &error);
    *static_cast<volatile char*>(prt_buffer_data(reader)) = 1;
    return 0;
  });
  CHECK(write == 1000 + SIGSEGV);
}

TEST_CASE("addresses around the mapping fault") {
  const Shared shared(4096);
  const auto touch = [&](std::int64_t at) {
    return in_child([&] { return static_cast<int>(*static_cast<volatile char*>(shared.data<char>() + at)) & 0; });
  };
  CHECK(touch(0) == 0);
  CHECK(touch(4095) == 0);
  CHECK(touch(4096) == 1000 + SIGSEGV);
  CHECK(touch(-1) == 1000 + SIGSEGV);
  CHECK(touch(static_cast<std::int64_t>(prt_buffer_guard_bytes(shared.buffer)) + 4095) == 1000 + SIGSEGV);
}

TEST_CASE("a canary that was written over is seen") {
  const Shared shared(1000);
  CHECK(shared.intact());
  shared.data<unsigned char>()[1000] = 0;
  CHECK_FALSE(shared.intact());
  shared.data<unsigned char>()[1000] = 0xA5;
  CHECK(shared.intact());
  shared.data<unsigned char>()[-1] = 0;
  CHECK_FALSE(shared.intact());
}

TEST_CASE("descriptions that lie are refused, and the descriptor is closed") {
  const Shared shared(1000);
  prt_error error{};
  prt_buffer* out = nullptr;
  const auto refused = [&](std::uint64_t bytes, std::uint64_t offset, std::uint64_t map) {
    const int fd = dup(prt_buffer_fd(shared.buffer));
    CHECK(prt_buffer_import(-1, fd, bytes, offset, map, 0, &out, &error) != 0);
    CHECK(std::string(error.kind) == "bad_argument");
    CHECK(fcntl(fd, F_GETFD) == -1);
  };
  refused(1000, 0, 8192);
  refused(5000, 0, 4096);
  refused(1000, 4000, 4096);
  refused(1000, 0, 1000);
  refused(UINT64_MAX, 64, 4096);
  CHECK(prt_buffer_import(-1, -1, 1, 0, 4096, 0, &out, &error) != 0);
}

TEST_CASE("more than the machine has is out_of_memory") {
  prt_error error{};
  prt_buffer* out = nullptr;
  CHECK(prt_buffer_create(-1, std::uint64_t{1} << 46, 0, &out, &error) != 0);
  CHECK(std::string(error.kind) == "out_of_memory");
  CHECK(prt_buffer_create(-1, UINT64_MAX, 0, &out, &error) != 0);
  CHECK(std::string(error.kind) == "out_of_memory");
}

TEST_CASE("devices that are not there") {
  prt_error error{};
  int count = -1;
  CHECK(prt_device_count(&count, &error) == 0);
  CHECK(count >= 0);
  prt_device_info info{};
  CHECK(prt_device_info_get(-1, &info, &error) == 0);
  CHECK(info.sms > 0);
  CHECK(info.memory_bytes > 0);
  CHECK(prt_device_info_get(count, &info, &error) != 0);
  CHECK(std::string(error.kind) == "no_device");
  prt_buffer* out = nullptr;
  CHECK(prt_buffer_create(count, 16, 0, &out, &error) != 0);
  CHECK(std::string(error.kind) == "no_device");
  CHECK(prt_abi_version() == PRT_ABI_VERSION);
}

TEST_CASE("a broken guard stays broken until its creator mends it") {
  for (const bool seal : {false, true}) {
    const Shared shared(100, seal);
    auto* bytes = shared.data<unsigned char>();
    bytes[-1] ^= 1;
    CHECK_FALSE(shared.intact());
    CHECK_FALSE(shared.intact());
    prt_error error{};
    REQUIRE(prt_buffer_mend(shared.buffer, &error) == 0);
    CHECK(shared.intact());
  }
  prt_error error{};
  CHECK(prt_buffer_mend(nullptr, &error) != 0);
  CHECK(std::string(error.kind) == "bad_argument");
}
