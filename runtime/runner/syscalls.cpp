#include "syscalls.h"

#include <unistd.h>

#if defined(__x86_64__)

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <initializer_list>
#include <vector>

namespace planish::runner {
namespace {

// Newer than the headers of the machines this is built on.
constexpr unsigned sys_process_mrelease = 448, sys_set_mempolicy_home_node = 450, sys_fchmodat2 = 452;
constexpr unsigned sys_setxattrat = 463, sys_removexattrat = 466, sys_open_tree_attr = 467, sys_file_setattr = 469;
constexpr unsigned x32_bit = 0x40000000;

/// Looks into other processes or changes them, or asks for interfaces of the kernel that no kernel of ours needs.
/// io_uring is among them since it makes system calls that no filter sees.
constexpr unsigned others[] = {
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    sys_process_mrelease,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_move_mount,
    SYS_open_tree,
    SYS_mount_setattr,
    sys_open_tree_attr,
    SYS_unshare,
    SYS_setns,
    SYS_open_by_handle_at,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_iopl,
    SYS_ioperm,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_syslog,
    SYS_lookup_dcookie,
    SYS_modify_ldt,
    SYS_vhangup,
};

/// New processes, leaving the process group that the parent kills, descriptors and memory that the parent does not
/// count, sockets, other processes' priorities. sendmsg would let a guest hand descriptors to the parent; the runner
/// itself sends with sendto.
constexpr unsigned processes_and_sockets[] = {
    SYS_pidfd_open,    SYS_pidfd_getfd,  SYS_pidfd_send_signal,
    SYS_kcmp,          SYS_move_pages,   SYS_migrate_pages,
    SYS_personality,   SYS_execve,       SYS_execveat,
    SYS_fork,          SYS_vfork,        SYS_setsid,
    SYS_setpgid,       SYS_tkill,        SYS_setpriority,
    SYS_ioprio_set,    SYS_socket,       SYS_socketpair,
    SYS_connect,       SYS_bind,         SYS_listen,
    SYS_accept,        SYS_accept4,      SYS_sendmsg,
    SYS_sendmmsg,      SYS_shmget,       SYS_shmat,
    SYS_msgget,        SYS_semget,       SYS_mq_open,
    SYS_mq_unlink,     SYS_memfd_create, SYS_memfd_secret,
    SYS_fanotify_init,
};

/// What changes files without opening them. Landlock covers some of these, and not the attributes.
constexpr unsigned attributes[] = {
    SYS_chmod,        SYS_fchmod,        SYS_fchmodat,     sys_fchmodat2,  SYS_chown,       SYS_fchown,
    SYS_lchown,       SYS_fchownat,      SYS_utime,        SYS_utimes,     SYS_futimesat,   SYS_utimensat,
    SYS_setxattr,     SYS_lsetxattr,     SYS_fsetxattr,    sys_setxattrat, SYS_removexattr, SYS_lremovexattr,
    SYS_fremovexattr, sys_removexattrat, sys_file_setattr,
};
constexpr unsigned names[] = {
    SYS_creat, SYS_unlink, SYS_unlinkat, SYS_rename,  SYS_renameat,  SYS_renameat2, SYS_mkdir,   SYS_mkdirat,
    SYS_rmdir, SYS_link,   SYS_linkat,   SYS_symlink, SYS_symlinkat, SYS_mknod,     SYS_mknodat, SYS_truncate,
};

/// Of a guest that starts compilers. A socket made before is kept; a path in the file system is a door that neither
/// Landlock nor a network namespace closes.
constexpr unsigned strangers[] = {
    SYS_pidfd_getfd, SYS_kcmp, SYS_move_pages, SYS_migrate_pages, SYS_fanotify_init,
};
/// Calls that send signals, each with the argument that says which.
struct Sending {
  unsigned call;
  int argument;
};
constexpr Sending signals[] = {
    {SYS_kill, 1},
    {SYS_tkill, 1},
    {SYS_tgkill, 2},
    {SYS_rt_sigqueueinfo, 1},
    {SYS_rt_tgsigqueueinfo, 2},
    {SYS_pidfd_send_signal, 1},
};
constexpr unsigned new_namespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    add(BPF_RET | BPF_K, error(EPERM));  // 32-bit calls have other numbers
    load(offsetof(seccomp_data, nr));
    add(BPF_JMP | BPF_JGE | BPF_K, x32_bit, 0, 1);
    add(BPF_RET | BPF_K, error(EPERM));
  }
  template <std::size_t n>
  void refuse(const unsigned (&calls)[n]) {
    for (const unsigned call : calls) refuse(call, EPERM);
  }
  void refuse(unsigned call, unsigned code) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    add(BPF_RET | BPF_K, error(code));
  }
  /// Refuses unless the argument's low half is one of `values`. (The kernel too looks only at an int there.)
  void only(unsigned call, int argument, std::initializer_list<unsigned> values, unsigned code) {
    const auto n = static_cast<unsigned char>(values.size());
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, static_cast<unsigned char>(n + 3));
    load(argument_offset(argument));
    unsigned char left = n;
    for (const unsigned value : values) add(BPF_JMP | BPF_JEQ | BPF_K, value, left--, 0);
    add(BPF_RET | BPF_K, error(code));
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  void never(unsigned call, int argument, unsigned value) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
    load(argument_offset(argument));
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    add(BPF_RET | BPF_K, error(EPERM));
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  /// Refuses where the argument's low half is one of `values`.
  void none_of(unsigned call, int argument, std::initializer_list<unsigned> values) {
    const auto n = static_cast<unsigned char>(values.size());
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, static_cast<unsigned char>(n + 3));
    load(argument_offset(argument));
    unsigned char left = n;
    for (const unsigned value : values) add(BPF_JMP | BPF_JEQ | BPF_K, value, left--, 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    add(BPF_RET | BPF_K, error(EPERM));
  }
  /// Refuses unless (argument & mask) == value.
  void masked(unsigned call, int argument, unsigned mask, unsigned value) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5);
    load(argument_offset(argument));
    add(BPF_ALU | BPF_AND | BPF_K, mask);
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
    add(BPF_RET | BPF_K, error(EPERM));
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  struct SocketKind {
    unsigned family, type;
  };
  /// Sockets of these kinds only.
  void sockets_of(std::initializer_list<SocketKind> kinds) {
    constexpr unsigned type_bits = 0xF;
    constexpr unsigned char each = 6;
    const auto n = static_cast<unsigned char>(kinds.size());
    add(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, static_cast<unsigned char>(each * n + 1));
    for (const SocketKind& kind : kinds) {
      load(argument_offset(0));
      add(BPF_JMP | BPF_JEQ | BPF_K, kind.family, 0, each - 2);
      load(argument_offset(1));
      add(BPF_ALU | BPF_AND | BPF_K, type_bits);
      add(BPF_JMP | BPF_JEQ | BPF_K, kind.type, 0, 1);
      add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    add(BPF_RET | BPF_K, error(EPERM));
  }
  bool install() {
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return code_.size() <= BPF_MAXINSNS && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
  }

 private:
  static unsigned error(unsigned code) { return SECCOMP_RET_ERRNO | code; }
  static unsigned argument_offset(int argument) {
    return static_cast<unsigned>(offsetof(seccomp_data, args) + 8 * static_cast<std::size_t>(argument));
  }
  void add(int code, unsigned k, unsigned char yes = 0, unsigned char no = 0) {
    code_.push_back({static_cast<unsigned short>(code), yes, no, k});
  }
  void load(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset)); }

  std::vector<sock_filter> code_;
};

void add_guest_rules(Filter* filter, bool writes) {
  const auto self = static_cast<unsigned>(getpid());
  filter->refuse(processes_and_sockets);
  filter->refuse(attributes);
  // A thread, and in no namespace of its own. clone3 hides its flags behind a pointer; C libraries fall back to clone.
  filter->refuse(SYS_clone3, ENOSYS);
  filter->masked(SYS_clone, 0, CLONE_THREAD | new_namespaces, CLONE_THREAD);
  for (const unsigned call : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo}) {
    filter->only(call, 0, {self}, EPERM);
  }
  filter->only(SYS_prlimit64, 0, {0, self}, EPERM);
  // By thread number, which may be another process's: such calls are ignored rather than refused, because the C
  // library makes them to bind OpenMP's threads (OMP_PROC_BIND) and would then start none.
  filter->only(SYS_sched_setaffinity, 0, {0, self}, 0);
  for (const unsigned call : {SYS_sched_setparam, SYS_sched_setscheduler, SYS_sched_setattr}) {
    filter->only(call, 0, {0, self}, EPERM);
  }
  filter->never(SYS_prctl, 0, PR_SET_PDEATHSIG);
  filter->never(SYS_ioctl, 1, TIOCSTI);
  // The runner's own handler says who wrote where nobody may: another in its place could go on as if nothing were.
  filter->none_of(SYS_rt_sigaction, 0, {SIGSEGV, SIGBUS});
  filter->refuse(SYS_flock, EPERM);
  filter->none_of(SYS_fcntl, 1, {F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE, F_NOTIFY});
  if (writes) return;
  // Landlock forbids this too, where there is one.
  filter->refuse(names);
  filter->refuse(SYS_openat2, ENOSYS);
  constexpr unsigned writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
  filter->masked(SYS_open, 1, writing, 0);
  filter->masked(SYS_openat, 2, writing, 0);
}

}  // namespace

bool restrict_syscalls(SyscallRules rules) {
  Filter filter;
  filter.refuse(others);
  if (rules != SyscallRules::driver) add_guest_rules(&filter, rules == SyscallRules::guest_writes);
  return filter.install();
}

bool restrict_guest_tools(ToolRules rules) {
  Filter filter;
  filter.refuse(others);
  filter.refuse(strangers);
  if (rules.loopback) {
    // An address in the file system that is as short as one of IPv4 would name a file of 13 letters.
    filter.only(SYS_connect, 2, {sizeof(sockaddr_in)}, EPERM);
  } else {
    for (const unsigned call : {SYS_connect, SYS_accept, SYS_accept4}) filter.refuse(call, EPERM);
  }
  constexpr Filter::SocketKind of_driver{AF_UNIX, SOCK_SEQPACKET}, of_loopback{AF_INET, SOCK_STREAM};
  if (rules.driver && rules.loopback) {
    filter.sockets_of({of_driver, of_loopback});
  } else if (rules.driver) {
    filter.sockets_of({of_driver});
  } else if (rules.loopback) {
    filter.sockets_of({of_loopback});
  } else {
    for (const unsigned call : {SYS_socket, SYS_bind, SYS_listen}) filter.refuse(call, EPERM);
  }
  // It hides its flags behind a pointer; C libraries fall back to clone.
  filter.refuse(SYS_clone3, ENOSYS);
  filter.masked(SYS_clone, 0, new_namespaces, 0);
  filter.never(SYS_prctl, 0, PR_SET_PDEATHSIG);
  filter.never(SYS_ioctl, 1, TIOCSTI);
  // Who opens a file for writing would wait until the guest lets go of it.
  // Nor may it stop whoever it can send signals to, or go on by itself once it is stopped: by a timer, by a descriptor.
  filter.none_of(SYS_fcntl, 1, {F_SETLEASE, F_NOTIFY, F_SETSIG});
  for (const auto& [call, argument] : signals) filter.none_of(call, argument, {SIGSTOP, SIGTSTP, SIGCONT});
  filter.refuse(SYS_timer_create, ENOSYS);
  filter.refuse(SYS_mq_notify, EPERM);
  if (rules.keep_group) {
    filter.refuse(SYS_setsid, EPERM);
    filter.refuse(SYS_setpgid, EPERM);
  }
  if (rules.keep_attributes) filter.refuse(attributes);
  return filter.install();
}

}  // namespace planish::runner

#else

namespace planish::runner {
bool restrict_syscalls(SyscallRules) {
  return false;
}
bool restrict_guest_tools(ToolRules) {
  return false;
}
}  // namespace planish::runner

#endif
