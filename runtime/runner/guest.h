#pragma once

/// `planish-runner --guest`: runs a program that nobody trusts in a place of its own (docs/sandbox.md).
namespace planish::runner {

/// Arguments behind `--guest`: `--scratch FOLDER [--writable FOLDER]... [--readable PATH]... [--max-rss BYTES]
/// [--device cpu|cuda] [--network none|loopback] [--tmp own|shared] [--hidden PATH]... -- COMMAND [ARGUMENT]...`. The
/// command finds the socket of this process as descriptor 3, over which one line `{"event": "sandbox", …}` says first
/// what holds it. With
/// `--tmp own` PLANISH_GUEST_FOLDER names an empty folder to work in, and PLANISH_GUEST_TMP, where that can be had, a
/// socket to ask for a /tmp of its own: one packet with the paths below the real one that it goes on to read, each
/// ended by a zero byte, is answered with `+`. What `--hidden` names is empty from then on. Ends with the command, as
/// the command did (its exit status, or its signal); whatever it left running ends too. 2 for bad arguments. Call
/// before any thread starts.
int run_guest(int argc, char** argv);

}  // namespace planish::runner
