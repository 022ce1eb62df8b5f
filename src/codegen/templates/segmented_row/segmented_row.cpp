#include <utility>

#include "codegen/templates/column/cuda_column_plan.h"
#include "codegen/templates/common.h"
#include "codegen/templates/segmented_row/cuda_segments.h"

namespace planish::codegen {
namespace {

/// Rows of which parts are folded as well (codegen/segments.h): as an ordinary
/// kernel of rows, whatever template takes that, and launches that join the
/// pieces it leaves.
class SegmentedOnCuda : public Schedule {
 public:
  SegmentedOnCuda(const Kernel& kernel, const Device& device)
      : kernel_(kernel),
        device_(device),
        parted_(kernel),
        rows_(template_of(parted_.kernel).cuda(parted_.kernel, device)) {}

  std::vector<Gene> genes() const override { return rows_->genes(); }
  std::string illegal(const Genome& genome) const override { return rows_->illegal(genome); }
  std::vector<Genome> seeds() const override { return rows_->seeds(); }
  Outline outline(const Genome& genome) const override { return rows_->outline(genome); }
  Result<Emitted> emit(const Genome& genome) const override {
    PLANISH_TRY(Emitted rows, rows_->emit(genome));
    return printing::join_segments(kernel_, parted_, device_, genome, std::move(rows));
  }

 private:
  const Kernel& kernel_;
  const Device& device_;
  printing::Parted parted_;
  std::unique_ptr<const Schedule> rows_;
};

class SegmentedRow : public Template {
 public:
  std::string_view name() const override { return "segmented row"; }
  bool takes(const Kernel& kernel) const override { return kernel.anchor == Anchor::segmented_row; }
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    return std::make_unique<SegmentedOnCuda>(kernel, device);
  }
};

}  // namespace

const Template& segmented_row_template() {
  static const SegmentedRow kind;
  return kind;
}

}  // namespace planish::codegen
