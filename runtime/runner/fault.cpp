#include "fault.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace planish::runner {
namespace {

struct Range {
  std::atomic<std::uint64_t> lo{0}, hi{0};  // hi = 0: free
  char label[48] = {};
};

constexpr int max_ranges = 4096;
Range ranges[max_ranges];
int socket_fd = -1;
std::atomic_flag dying = ATOMIC_FLAG_INIT;
alignas(16) char alternate_stack[std::size_t{1} << 16];

/// snprintf is not async-signal-safe.
class Line {
 public:
  void text(const char* s) {
    while (*s != '\0' && size_ < sizeof data_) data_[size_++] = *s++;
  }
  void number(std::uint64_t value, unsigned base) {
    char digits[24];
    int n = 0;
    do {
      digits[n++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    while (n > 0 && size_ < sizeof data_) data_[size_++] = digits[--n];
  }
  void send_to(int fd) const {
    for (std::size_t at = 0; at < size_;) {
      const ssize_t n = ::send(fd, data_ + at, size_ - at, MSG_NOSIGNAL);
      if (n <= 0) return;
      at += static_cast<std::size_t>(n);
    }
  }

 private:
  char data_[256];
  std::size_t size_ = 0;
};

const char* find(std::uint64_t address) {
  for (const Range& range : ranges) {
    if (address >= range.lo.load(std::memory_order_acquire) && address < range.hi.load(std::memory_order_acquire))
      return range.label;
  }
  return "unknown";
}

void handle(int signal, siginfo_t* info, void*) {
  const bool memory = signal == SIGSEGV || signal == SIGBUS;
  const auto address = reinterpret_cast<std::uint64_t>(info->si_addr);
  die_of_fault(signal, signal == SIGABRT ? 0 : address, memory ? find(address) : "unknown");
}

}  // namespace

void die_of_fault(int signal, std::uint64_t address, const char* where) {
  if (dying.test_and_set()) {
    for (;;) pause();
  }
  Line line;
  line.text(R"({"event":"fault","signal":)");
  line.number(static_cast<std::uint64_t>(signal), 10);
  line.text(R"(,"address":"0x)");
  line.number(address, 16);
  line.text(R"(","where":")");
  line.text(where);
  line.text("\"}\n");
  line.send_to(socket_fd);
  _exit(128 + signal);
}

void install_fault_handler(int socket) {
  socket_fd = socket;
  stack_t stack{};
  stack.ss_sp = alternate_stack;
  stack.ss_size = sizeof alternate_stack;
  sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &action, nullptr);
}

int name_range(std::uint64_t lo, std::uint64_t hi, const char* label) {
  for (int i = 0; i < max_ranges; ++i) {
    Range& range = ranges[i];
    if (range.hi.load() != 0) continue;
    std::strncpy(range.label, label, sizeof range.label - 1);
    range.lo.store(lo, std::memory_order_release);
    range.hi.store(hi, std::memory_order_release);
    return i;
  }
  return -1;
}

void forget_range(int slot) {
  if (slot < 0) return;
  ranges[slot].hi.store(0);
  ranges[slot].lo.store(0);
}

}  // namespace planish::runner
