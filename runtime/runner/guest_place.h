#pragma once

#include <string>
#include <vector>

/// What a guest's place is made of; each part is best effort, since kernels and containers differ.
namespace planish::runner {

struct GuestRules {
  std::string scratch;                ///< the guest's own folder
  std::vector<std::string> writable;  ///< more folders to write below
  std::vector<std::string> readable;  ///< what may be read beside those, where Landlock is there; empty: everything
  bool cuda = false;                  ///< the driver's device files are needed
  /// Its processes may speak with each other over 127.0.0.1: in a network of its own alone, where nobody else is.
  bool loopback = false;
  /// It may ask for a /tmp of its own (guest_tmp.h), and is told of a folder to work in.
  bool own_tmp = false;
  /// Files and folders that it does not see once it has that /tmp, unless it named something in them.
  std::vector<std::string> hidden;
};

/// What took effect. Plain data: it travels through a pipe.
struct GuestFacts {
  int landlock = 0;  ///< version, 0 for none
  bool user_namespace = false, pid_namespace = false, network_namespace = false, mount_namespace = false;
  bool private_proc = false;       ///< /proc shows the guest's own processes only
  bool own_proc_writable = false;  ///< all of that /proc may be written but what belongs to the machine
  bool read_only_mounts = false;   ///< every file system is mounted read-only but for what may be written
  bool no_new_privileges = false, no_capabilities = false, seccomp = false;
  bool loopback = false;     ///< 127.0.0.1 of its own network answers
  bool private_tmp = false;  ///< /tmp is its own once it asks, or it ends
};

/// Process id, as fork() gives it, of a child in as many namespaces of its own as there are to be had. The child is
/// process 1 of its own numbering where `pid_namespace` says so. -1 where no process can be made at all.
int fork_into_namespaces(GuestFacts* facts);
/// In that child: identities, mounts. `facts` is completed.
void furnish(const GuestRules& rules, GuestFacts* facts);
/// In the process that becomes the guest, as the last thing before exec: files, privileges, system calls.
void lock_in(const GuestRules& rules, GuestFacts* facts);

}  // namespace planish::runner
