#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/emit/cpp_value.h"
#include "codegen/genome.h"

/// The schedule of one C++ kernel, read from its genome (internal to the C++ emitter).
namespace planish::codegen::cpp {

struct Plan {
  int bits = 512;  ///< native vector width
  int lanes = 16;  ///< W
  int v = 0;       ///< vector variable
  int u = -1;      ///< the other variable of a tile, where loads run along it; -1: no tiles
  int tile = 64;   ///< tile edge in elements
  int threads = 1;
  int unroll = 1;              ///< vectors a step
  std::int64_t chunk = 16384;  ///< pointwise: elements of the vector variable a unit
  bool stream = false;         ///< non-temporal stores
  bool split = false;          ///< all threads share each row
  bool buffer = false;         ///< keep costly values of a row between sweeps
  std::int64_t panel = 0;      ///< columns: elements of the vector variable whose states a thread keeps in memory while
                               ///< it walks along whole pieces of rows; 0: a few vectors, kept in registers
};

/// The kernel with a variable of extent 1 to run along, where it has none (a scalar, a row without inner variables).
Kernel with_variable(Kernel kernel);
/// Vector widths the architecture has, widest first.
std::vector<int> widths(const Device& device);
/// Variables that may be the vector variable, best first.
std::vector<int> vector_variables(const Kernel& kernel);
/// The variable along which loads that are strided in `v` run contiguously; -1 if there is none. `loads` receives them.
int tile_variable(const Kernel& kernel, int v, std::vector<int>* loads = nullptr);
/// True where columns may be swept in panels: one phase, and nothing but results of whole columns is stored after it.
bool panels_fit(const Kernel& kernel, int v);
/// Longest row kept in a thread's buffer, in elements.
inline constexpr std::int64_t kBufferElements = 32768;
/// Most bytes of columns' running values that the threads of a cross kernel keep.
inline constexpr std::int64_t kMostRowColumnBytes = std::int64_t{1} << 31;
/// Most elements of partial states that the threads of a split panel exchange.
inline constexpr std::int64_t kSharedStates = 65536;

Result<Plan> plan(const Kernel& kernel, const Device& device, const Genome& genome);
std::string pointwise_body(const View& view, const Plan& plan, Printer& printer);

/// Memory of a launch that stacks have no room for, as one scratch buffer `room`: threads may have 128 KiB in all.
class Room {
 public:
  /// Bytes of arrays that a thread may keep on its stack.
  static constexpr std::int64_t kStackBytes = 4096;

  /// Sets so many bytes aside; their offset, a multiple of 64.
  std::int64_t take(std::int64_t bytes) {
    const std::int64_t at = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return at;
  }
  std::int64_t bytes() const { return bytes_; }

  /// `TYPE NAME[COUNT];` where that is small, else a pointer into the room: of each of so many threads (of 1: shared by
  /// all). `bytes` is at most what one element takes.
  std::string array(const std::string& type, const std::string& name, std::int64_t count, std::int64_t bytes,
                    int threads);
  /// The same for what threads exchange: of one name only once, then empty.
  std::string shared(const std::string& type, const std::string& name, std::int64_t count, std::int64_t bytes) {
    return names_.insert(name).second ? array(type, name, count, bytes, 1) : std::string();
  }

 private:
  std::int64_t bytes_ = 0;
  std::int64_t stack_ = 0;  ///< bytes of arrays that were left on stacks
  std::set<std::string> names_;
};
/// Most bytes that a vector of running values takes.
inline std::int64_t state_bytes(const Plan& plan) {
  return 16 * static_cast<std::int64_t>(plan.lanes);
}

/// `shared` receives what threads exchange, declared before they begin.
std::string row_body(const View& view, const Plan& plan, Printer& printer, std::string& shared, Room& room);

/// Where the threads of a cross kernel keep what they know of columns: a part of the room, from its beginning. Offsets
/// in bytes, by reduction; those along rows have none.
struct RowColumnRoom {
  struct Place {
    std::int64_t part = 0;    ///< elements of the reduction's form, one row of them a thread
    std::int64_t total = 0;   ///< the same in double, where fp32 parts are put aside every few rows; −1: none
    std::int64_t result = 0;  ///< one row for all threads
  };
  std::vector<Place> places;
  std::int64_t row = 0;  ///< elements of a row, with a vector more than columns
  std::int64_t bytes = 0;
};
RowColumnRoom row_column_room(const View& view, const Plan& plan);

/// The last sweep of a scan kernel, with its stores. `nodes` vary within the sweep, ascending; `reads` are kept in row
/// buffers; `loops` are the inner variables other than the vector variable, outermost first; `spots` the vectors of
/// columns side by side (one for rows). `shared` receives what threads exchange.
std::string scan_sweep(const View& view, const Plan& plan, Printer& printer, const std::vector<Spot>& spots,
                       const std::vector<int>& nodes, const std::vector<int>& reads, const std::vector<int>& loops,
                       std::string& shared, Room& room);

/// Names d0, d1, … for all variables.
Spot plain_spot(const View& view);
/// `const i64 d0 = …;` for every variable of `order` (last fastest) from the linear index `linear`.
std::string decompose(const View& view, const std::vector<int>& order, const std::string& linear);

}  // namespace planish::codegen::cpp
