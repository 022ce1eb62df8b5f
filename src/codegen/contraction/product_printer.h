#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/contraction/device_product.h"
#include "codegen/contraction/place_writer.h"

/// What the device files of products have in common in what is printed behind them: results, where these go, and where
/// groups end. Private to codegen/contraction.
namespace planish::codegen::contraction {

class ProductPrinter {
 public:
  /// `folded`: nodes whose values are folded along rows beside the output.
  ProductPrinter(const Product& product, bool fast, const DeviceGroups* groups, std::vector<int> folded = {});
  virtual ~ProductPrinter() = default;
  DevicePrinted print();

 protected:
  virtual void instructions() {}
  virtual void policy() = 0;
  /// Of Functors: how factors are reached.
  virtual void factors() = 0;
  /// Likewise: where goes what remains of folded rows, or whether a row is there.
  virtual void piece() {}
  /// Coordinates of the row `row`, where rows are no variable by themselves: true then. `stored`: it is one whose
  /// results are stored.
  virtual bool places(bool /*stored*/) { return false; }
  /// Memory that functors have beside inputs and outputs, of this type and name; empty: none.
  virtual std::pair<std::string, std::string> more() const {
    return folded_.empty() ? std::pair<std::string, std::string>() : std::pair("float* __restrict__", "pieces");
  }
  virtual void entry() = 0;

  void line(std::string_view text) { writer_.line(text); }
  void open(std::string_view text) { writer_.open(text); }
  void close() { writer_.close(); }
  bool across(Operand operand) const {
    const auto& direct = product_.direct(operand);
    return direct && direct->load_mode == LoadMode::along_rows;
  }
  int row() const { return c_.m.front(); }
  int column() const { return c_.n.front(); }
  /// From one of the variable to the next, in elements of the factor.
  static std::int64_t stride(const Direct& direct, int variable) {
    return direct.row.coefficient_of(variable) + direct.depth.coefficient_of(variable);
  }
  bool words() const;
  bool integer_sums() const { return product_.bits && product_.bits->integers(); }
  std::string_view sum_type() const { return integer_sums() ? "int" : "float"; }
  int result_bytes() const { return size_of(output_.dtype); }
  void kernel(int threads, int blocks, std::string_view more_parameters, std::string_view call);

  const Product& product_;
  const DeviceGroups* const groups_;
  const Kernel& kernel_;
  const Contraction& c_;
  const Output& output_;
  const std::vector<int> folded_;
  PlaceWriter writer_;
  const bool bf16_;

 private:
  std::string storage(int input) const;
  bool in_units(const ir::IndexExpr& index, int unit) const;
  void functors();
  std::string end_place() const;
  void coordinates(std::string_view at, bool stored);
  std::vector<int> paired() const;
  std::string place(int load) const;
  void result();
  std::string unpaired(int id);

  const std::vector<int> roots_;
  std::vector<int> inputs_;
};

}  // namespace planish::codegen::contraction
