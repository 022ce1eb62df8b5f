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

/// What is left open by the rest of a guest's place (guest_place.h).
struct ToolRules {
  bool keep_group;       ///< no process namespace: leaving the process group is how a daemon would outlive its end
  bool driver;           ///< the CUDA driver listens on a socket of its own, to which nobody can connect
  bool loopback;         ///< IPv4 streams are allowed: its network has nobody else in it
  bool keep_attributes;  ///< no read-only mounts: modes, owners and times of files must not be changed either
};

/// For foreign code that starts compilers: processes and files as the other walls allow them, but no sockets, no
/// namespaces, no tracing, no foreign memory. Otherwise as restrict_syscalls().
bool restrict_guest_tools(ToolRules rules);

}  // namespace planish::runner
