#pragma once

/// `planish-runner --guest`: runs a program that nobody trusts in a place of its own (docs/sandbox.md).
namespace planish::runner {

/// Arguments behind `--guest`: `--scratch FOLDER [--writable FOLDER]... [--readable PATH]... [--max-rss BYTES]
/// [--device cpu|cuda] [--network none|loopback] -- COMMAND [ARGUMENT]...`. The command finds the socket of this
/// process as descriptor 3, over which one line
/// `{"event": "sandbox", …}` says first what holds it. Ends with the command, as the command did (its exit status, or
/// its signal); whatever it left running ends too. 2 for bad arguments. Call before any thread starts.
int run_guest(int argc, char** argv);

}  // namespace planish::runner
