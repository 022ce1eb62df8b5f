#pragma once

/// A seccomp filter: which system calls guests may make.
namespace planish::runner {

enum class SyscallRules {
  guest,         ///< foreign host code: threads, memory, reading; no process, no socket, nobody else's process
  guest_writes,  ///< the same, but files may be opened for writing (Landlock says where)
  driver,        ///< only our code and the CUDA driver's: no foreign memory, no kernel interfaces they do not use
};

/// Refused calls fail with EPERM. False where it could not be installed (not x86-64, no seccomp). Needs
/// PR_SET_NO_NEW_PRIVS; holds for the calling thread and those it starts. Cannot be taken back.
bool restrict_syscalls(SyscallRules rules);

}  // namespace planish::runner
