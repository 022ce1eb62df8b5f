#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/recurrence.h"

/// The kernel that goes through the steps of some cells (a layer in one direction each) in one launch.
///
/// A cell's blocks are clusters, one for each slice of the batch. Each block of a cluster has some of the units: their
/// rows of the weights, in registers as far as they fit and in its shared memory; the state of all units, of this and
/// of the last step; and what its units' cells keep, in registers. After a step it writes its part of the state into
/// the shared memory of all blocks of the cluster. Cells that are stacked read the state of the cell below through
/// global memory, some steps behind it.
namespace planish::codegen::recurrence {

/// How blocks of a cluster hand each other the state.
enum class Exchange : std::uint8_t { store_async, bulk_copy, store_and_arrive };

struct StepPlan {
  int cluster = 16;  ///< blocks
  int slice = 0;     ///< batch rows of a cluster
  int units = 1;     ///< that a thread sums for at once
  int rows = 0;      ///< of the batch that a thread sums for at once
  Exchange exchange = Exchange::store_async;
  bool stacked = false;  ///< cells are layers, each reading the one below; else directions of one layer
  int cells = 1;         ///< of the launch
};

/// Of units times rows: sixteen threads share a sum, and each finishes at most one.
inline constexpr int most_sums = 16;

/// Lengths that follow.
struct StepLayout {
  int slices = 1;       ///< clusters of a cell
  int block_units = 0;  ///< units of a block
  int chunks = 0;       ///< of four elements of the state, for each of a unit's sixteen threads
  int kept_chunks = 0;  ///< of these, those whose weights are in registers
  int warps = 0;        ///< that sum
  int threads = 0;
  int registers = 0;             ///< of a thread that sums, an estimate
  int most_registers = 0;        ///< that it may have
  bool hands_registers = false;  ///< from the threads that do not sum to those that do
  std::int64_t state_bytes = 0;  ///< of all units of a slice
  std::int64_t shared_bytes = 0;
  std::int64_t exchange_elements = 0;  ///< of the memory through which stacked cells hand on what they make
  std::int64_t flags = 0;              ///< 32-bit words beside it, zeros at first
};
StepLayout layout_of(const Recurrence& network, const StepPlan& plan);

/// Strides of a tensor that the kernel reads or writes: of steps or cells, of the batch, of units.
struct Strides {
  std::int64_t offset = 0, outer = 0, batch = 0, unit = 0;
};

/// What the kernel is to do besides. Its arguments are, in this order: for each cell its products with what it reads
/// ([steps][batch][gates · hidden], the bias included; of stacked cells the first alone has them), weights of the
/// state, their bias, and of stacked cells but the first weights of what it reads and their bias; h0; c0; all states of
/// the last cell or of both directions; last h; last c; memory to hand states on and flags. Absent ones are left out.
struct StepTask {
  std::vector<std::int64_t> hidden_weights, hidden_bias, input_weights, input_bias;  ///< by cell: offsets in arguments
  bool biases = true;
  bool h0 = false, c0 = false, all = false, last_h = false, last_c = false;
  Strides h0_at, c0_at, all_at, last_h_at,
      last_c_at;  ///< of a launch's first cell; `all`: unit strides span directions
};
std::string step_kernel(const Recurrence& network, const StepPlan& plan, const StepTask& task);

}  // namespace planish::codegen::recurrence
