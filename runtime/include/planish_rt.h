/* libplanish_rt: loads and launches a Program, and allocates and shares buffers. A small C ABI over the CUDA driver
 * (through dlopen) and the CPU. Used by the runner, by the oracle and by shipped modules (through ctypes); depends on
 * nothing else of Planish.
 *
 * Every call returns 0 on success; otherwise it fills *error (may be null) and returns non-zero. `device` is -1 for the
 * CPU, else a CUDA ordinal; the CUDA side uses the device's primary context, as torch does. Handles belong to the
 * caller until freed. One handle may be used by one thread at a time, except prt_program_run, which any number of
 * threads may call at once on different streams. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define PRT_API __attribute__((visibility("default")))
#define PRT_ABI_VERSION 1

typedef struct prt_error {
  char kind[32]; /* bad_program, load_failed, launch_failed, illegal_address, out_of_memory, no_device, device_lost,
                    bad_argument */
  char message[2016]; /* one sentence, UTF-8, NUL-terminated */
} prt_error;

PRT_API int prt_abi_version(void);

/* ---- devices ---- */
typedef struct prt_device_info {
  char name[128];
  char arch[16]; /* "sm_90a"; empty for the CPU */
  char uuid[48];
  int64_t sms;      /* CPU: cores this process may use */
  int64_t l2_bytes; /* CPU: last-level cache */
  int64_t shared_bytes_optin;
  int64_t memory_bytes;
  int64_t driver_version; /* 13000 for 13.0; 0 for the CPU */
} prt_device_info;
PRT_API int prt_device_count(int* cuda_devices, prt_error* error); /* 0 devices is success */
PRT_API int prt_device_info_get(int device, prt_device_info* out, prt_error* error);
PRT_API int prt_synchronize(int device, prt_error* error);

/* ---- buffers that two processes share by file descriptor ----
 * CPU: a memfd, tensor end-aligned against an unmapped guard page, mapped MAP_POPULATE. CUDA: cuMemCreate with a POSIX
 * descriptor, unmapped addresses around it. Inside the mapping, bytes before and after the tensor hold the canary 0xA5.
 * The creator maps read-write and, on the CPU, seals the memfd against later writable mappings when `seal` is set
 * (inputs). */
typedef struct prt_buffer prt_buffer;
PRT_API int prt_buffer_create(int device, uint64_t bytes, int seal, prt_buffer** out, prt_error* error);
PRT_API int prt_buffer_import(int device, int fd, uint64_t bytes, uint64_t offset, uint64_t map_bytes, int writable,
                              prt_buffer** out, prt_error* error); /* takes over fd */
PRT_API void* prt_buffer_data(
    const prt_buffer* buffer); /* address of the tensor's first byte; aligned to 64 (CPU) or 256 (CUDA) bytes */
PRT_API int prt_buffer_fd(const prt_buffer* buffer); /* stays owned by the buffer */
PRT_API uint64_t prt_buffer_offset(const prt_buffer* buffer);
PRT_API uint64_t prt_buffer_map_bytes(const prt_buffer* buffer);
PRT_API uint64_t prt_buffer_guard_bytes(const prt_buffer* buffer); /* unmapped bytes before and after the mapping */
PRT_API int prt_buffer_guards(prt_buffer* buffer, int* intact, prt_error* error); /* looks at the canaries */
PRT_API int prt_buffer_mend(prt_buffer* buffer, prt_error* error); /* writes the canaries anew; for the creator alone */
PRT_API void prt_buffer_free(prt_buffer* buffer);

/* ---- programs ----
 * `json` is a planish.program/1 document; binaries[i] the file of kernel i (a cubin, or a shared object for cpp).
 * `aten` steps are allowed in the document and refused by run when the range holds one: the Python executor runs those
 * itself. */
typedef struct prt_program prt_program;
typedef struct prt_kernel_info {
  int64_t registers, local_bytes, shared_bytes, max_threads;
} prt_kernel_info;
PRT_API int prt_program_load(int device, const char* json, size_t json_bytes, const char* const* binaries,
                             int n_binaries, prt_program** out, prt_error* error);
PRT_API int prt_program_kernel_info(const prt_program* program, int kernel, prt_kernel_info* out, prt_error* error);
/* Runs steps [first, last) asynchronously on `stream` (a CUstream; null = the legacy default stream; ignored on the
 * CPU). pointers[i] is the address of program buffer i; a null entry for a temp uses a workspace that the program owns,
 * one for each stream. */
PRT_API int prt_program_run(prt_program* program, void* const* pointers, int n_pointers, int first, int last,
                            void* stream, prt_error* error);
/* Most threads that CPU kernels may take in the calls that this thread makes from now on; 0, as every thread begins: as
 * many as OpenMP gives it. After a fork the thread that is left takes one, whatever this says, if the process had
 * several: OpenMP would wait for threads that are gone. Returns what it was before. */
PRT_API int prt_threads(int most);
/* How prt_program_run submits all steps of a CUDA program of two launches or more: one launch after the other, or a
 * CUDA graph whose kernel arguments are patched. The environment's PLANISH_GRAPH, read when a program is loaded, says
 * 0 (launches), 1 (graph) or auto, the default: the first calls take turns, and what took the host less time stays. */
enum { PRT_LAUNCHES = 0, PRT_GRAPH = 1, PRT_MEASURING = 2 };
typedef struct prt_replay {
  int way;
  double launches_us, graph_us; /* median host time a call; 0 where it was not measured */
  char reason[496];             /* why a graph is not used although it was asked for or tried; else empty */
} prt_replay;
PRT_API int prt_program_replay(const prt_program* program, prt_replay* out, prt_error* error);
PRT_API void prt_program_free(prt_program* program);

/* ---- timing: whole programs, over `sets` pointer tables used in turn ----
 * CUDA: events around each run, an L2 flush of flush_bytes before it. CPU: a monotonic clock around each run. Stops
 * when the 95 % interval of the median is within `interval` of it, or at max_runs, or at max_seconds once each set was
 * run. samples_ms has room for max_runs. */
typedef struct prt_timing {
  int64_t runs;
  double median_ms, lo_ms, hi_ms;
  double host_us; /* mean host time a run spent submitting */
} prt_timing;
PRT_API int prt_program_time(prt_program* program, void* const* const* pointers, int sets, int n_pointers,
                             int64_t min_runs, int64_t max_runs, double max_seconds, double interval,
                             int64_t flush_bytes, double* samples_ms, prt_timing* out, prt_error* error);

#if defined(__cplusplus)
}
#endif
