#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "document.h"
#include "driver.h"
#include "result.h"
#include "runs.h"

struct prt_program;

/// Neighbouring copy steps of a CUDA program as one launch. A network in training mode changes some hundred buffers,
/// and a copy of the driver's takes the host as long as a launch, and keeps the program out of a graph.
namespace planish::rt {

constexpr std::size_t most_copies = 128;

/// Steps [first, first + count) of the document, all of them copies of dense memory that do not depend on each other.
struct JointCopies {
  struct Copy {
    int from = -1, to = -1;  ///< buffers
    std::uint64_t bytes = 0;
  };
  int first = 0, count = 0;
  std::vector<Copy> copies;  ///< those of them with anything to copy
  unsigned int blocks = 1;   ///< for each of them
};

/// In the document's order. `runs`: by step.
std::vector<JointCopies> find_joint_copies(const Document& document, const std::vector<Runs>& runs);

/// What the launch of one such group is given. Not to be copied, as it points into itself.
class CopyLaunch {
 public:
  static constexpr unsigned int threads = 256;

  CopyLaunch() = default;
  CopyLaunch(const CopyLaunch&) = delete;
  CopyLaunch& operator=(const CopyLaunch&) = delete;

  /// `pointers` and `workspace` as in `address`. The program and `group`, which is one of its, outlive this.
  Status gather(const prt_program& program, const JointCopies& group, void* const* pointers, std::uint64_t workspace);
  cu::KernelNode node() const { return node_; }
  /// Rows of from, to, bytes: what differs from call to call.
  const std::uint64_t* words() const { return table_; }
  std::size_t count() const { return used_; }

 private:
  static constexpr std::size_t row = 3;
  std::uint64_t table_[most_copies * row]{};
  std::size_t used_ = 0;
  void* params_[1]{};
  cu::KernelNode node_{};
};

/// The kernel of such launches, on the device whose context is current: compiled from PTX by the driver once a process
/// and device. Null where it cannot.
cu::Function copy_kernel(const cu::Driver& driver, const cu::Gpu& gpu);

}  // namespace planish::rt
