#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "codegen/emit/cuda_writer.h"

/// Rows that arrive ahead of time: a ring of shared buffers that the bulk copy engine fills while the block works on
/// an earlier row, and once what all rows share. Every copy is of whole 16-byte units of the tensor: the row and what
/// lies around it in the same units, never anything outside the tensor. The tensor's last elements, where they fill no
/// unit, are copied by threads.
///
/// Names in the printed text: `full` barriers (the last one: what is held), `stage` and `parity` of the row at hand,
/// `w7` where element 0 of the row of load 7 would lie, `lo`/`hi` the block's part of the row.
namespace planish::codegen::printing {

class StageWriter {
 public:
  /// Prints the coordinates of the row (group of rows) that the text names.
  using Position = std::function<void(std::string_view)>;
  StageWriter(const Kernel& kernel, const CudaPlan& plan, CudaWriter& writer, Position position)
      : kernel_(kernel), plan_(plan), w(writer), position_(std::move(position)) {}

  /// Barriers, and the first rows asked for. Leaves the loop over rows open, with `stage`, `parity` and `turn`.
  void begin();
  /// Pointers to the row at hand, and the wait for it. After position_.
  void arrive();
  /// Everybody has read the row at hand: the next one takes its place. Closes the loop.
  void leave();

 private:
  void part();
  std::string input(const Stream& stream) const;
  std::string type(const Stream& stream) const;
  std::string place(const Stream& stream, std::string_view stage) const;
  void start(const Stream& stream);
  void copies(bool held, std::string_view barrier, std::string_view stage);
  bool last_elements(bool held, std::string_view lanes);
  void fetch(std::string_view group, std::string_view stage);

  const Kernel& kernel_;
  const CudaPlan& plan_;
  CudaWriter& w;
  Position position_;
};

}  // namespace planish::codegen::printing
