#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codegen/contraction/main_loop.h"

/// The printer behind print_main_loop(), whose parts are files: main_loop.cpp has what blocks do first and how they
/// walk over tiles, main_loop_producer.cpp who brings operands, main_loop_multiplier.cpp who multiplies them, and
/// main_loop_results.cpp what becomes of the sums.
namespace planish::codegen::contraction {

inline std::string number(std::int64_t value) {
  return std::to_string(value);
}

/// Prints one kernel. Names in the text: `at` a stage's address, `full`/`empty` barriers, `high`/`small` what the
/// tensor core adds to, `sum` what ordinary additions do, or `high` itself.
class MainLoopPrinter {
 public:
  MainLoopPrinter(const Problem& problem, const TilePlan& plan, const EpilogueVisitor& visitor,
                  const std::string& places)
      : problem_(problem),
        plan_(plan),
        visitor_(visitor),
        places_(places),
        extents_(extents_of(problem, plan)),
        depth_(extents_.depth / plan.bk / plan.split_k) {}

  std::string print();

 private:
  void line(const std::string& text) {
    if (text.starts_with("}")) --indent_;
    out_ += std::string(static_cast<std::size_t>(indent_) * 2, ' ') + text + "\n";
    if (text.ends_with("{")) ++indent_;
  }

  void instruction();
  void wait_or_trap();
  void wait(std::string_view barrier, std::string_view parity);
  void taps();
  void head();
  void zeros();
  void walk(bool turns);
  void line_of_tile();
  void maps_of_operands();
  bool maps() const { return plan_.maps != 0 && reads(plan_); }
  std::vector<Operand> unpacked() const;
  static std::string name_of(Operand operand) { return {letter(operand)}; }
  /// Where a tile's rows of the operand begin.
  static std::string origin(Operand operand) { return operand == Operand::a ? "row" : "column"; }
  static std::string place_of_map(Operand operand) { return operand == Operand::a ? "0" : "128"; }
  /// The number of the product that a tile is of.
  std::string product() const {
    if (problem_.batches == 1) return "0";
    return plan_.split_k > 1 ? "slice / " + number(plan_.split_k) : std::string("slice");
  }
  void producer();
  void strip_producer();
  std::string source_of(Operand operand) const;
  void sources();
  void bring_slices();
  std::string own_rows() const;
  std::string slice(const std::string& k) const;
  void copies(const std::string& k = "k");
  void bring();
  void load(Operand operand, const std::string& k);
  void put(Operand operand);
  void put_both();
  void slide();
  void advance();
  void pass();
  void multiplier();
  void stage(int turn, int turns);
  void split_steps(bool first, bool last);
  void add_up();
  /// Whether an accumulator that is a tile's holds anything before a turn's first stage.
  std::string later() const { return adds_up(problem_, plan_) || !promotes(plan_) ? "k > 0" : "0"; }
  void flag_fallback();
  void steps(int accumulator, const std::string& keep);
  void release(const std::string& condition);
  bool scales_columns() const { return visitor_.scaled && column_scale_bytes(problem_, plan_) > 0; }
  void read_column_scales();
  void scale_far_columns();
  std::string raw(const std::string& i) const;
  std::string exponent(Operand operand, const std::string& row) const;
  bool two_images() const;
  void ahead_of_store();
  bool knows_images() const { return problem_.has_runs() || two_images() || reads_strips(plan_); }
  bool may_be_plain() const;
  std::string across() const;
  void ask_whether_plain();
  void exchange_part(const std::string& before, const std::function<std::string(const std::string&, int)>& of);
  void exchange_any();
  void results();
  void store();

  const Problem& problem_;
  const TilePlan& plan_;
  const EpilogueVisitor& visitor_;
  const std::string& places_;
  bool settles_ = false;  ///< results are left in the first accumulator's registers
  Extents extents_;
  std::int64_t depth_;  ///< stages that a tile takes
  std::string out_;
  int indent_ = 0;
};

}  // namespace planish::codegen::contraction
