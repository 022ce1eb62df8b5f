#pragma once

#include <cstdint>

/// Says over the socket, as the last thing this process does, where a fatal signal happened.
namespace planish::runner {

/// Handles SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT on an alternate stack; the process then exits with 128 + signal.
/// Call once, from the main thread.
void install_fault_handler(int socket);

/// Names the addresses [lo, hi); `label` is cut at 47 bytes. Returns a slot for forget_range, or -1 when all 4096 are
/// taken (faults there are then `unknown`). Main thread only; the handler may read at any moment.
int name_range(std::uint64_t lo, std::uint64_t hi, const char* label);
void forget_range(int slot);

/// Writes the fault line and exits. Async-signal-safe; of several threads only the first gets to write.
[[noreturn]] void die_of_fault(int signal, std::uint64_t address, const char* where);

}  // namespace planish::runner
