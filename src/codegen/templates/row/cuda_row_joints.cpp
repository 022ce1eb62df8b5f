#include "codegen/templates/row/cuda_row_joints.h"

#include <fmt/format.h>

#include <array>

#include "codegen/emit/cuda_fold.h"
#include "codegen/emit/expression.h"
#include "codegen/fold.h"

namespace planish::codegen::printing {

std::string RowJointPrint::exponential(std::string_view difference) const {
  return fmt::format("{}({})", plan.fast ? "pl_fast_exp" : "expf", difference);
}

namespace {

std::string lanes_as_one(const RowJointPrint& p, const OnlinePair& pair, std::string_view name) {
  return combined_lanes(info(pair.kind).leader, DType::f32, fmt::format("{}{}", name, pair.leader), p.plan.width);
}

/// `base<r>`: the largest x so far; sums are relative to it.
class RowExponentials : public RowJoint {
 public:
  void declare(const RowJointPrint& p, const OnlinePair& pair) const override {
    p.w.line(fmt::format("float base{} = {};", pair.leader, fold_bottom));
  }
  void begin_chunk(const RowJointPrint& p, const OnlinePair& pair, bool) const override {
    p.w.line(fmt::format("float top{}[{}] = {{{}}};", pair.leader, p.plan.width, each_lane(fold_bottom, p.plan.width)));
  }
  std::string first_look(const OnlinePair& pair, const std::string& x, bool) const override {
    return fmt::format("top{0}[j] = pl_max(top{0}[j], {1});", pair.leader, x);
  }
  void join_chunk(const RowJointPrint& p, const OnlinePair& pair, bool totals) const override {
    const int l = pair.leader;
    p.w.line(fmt::format("const float next{0} = pl_max(base{0}, {1});", l, lanes_as_one(p, pair, "top")));
    p.w.line(fmt::format("const float fall{0} = {1};", l, p.exponential(fmt::format("base{0} - next{0}", l))));
    p.w.line(fmt::format("base{0} = next{0};", l));
    p.w.line("#pragma unroll");
    p.w.line(fmt::format("for (int j = 0; j < {}; ++j) acc{}[j] *= fall{};", p.plan.width, pair.follower, l));
    if (!totals) return;
    p.w.line("#pragma unroll");
    p.w.line(fmt::format("for (int j = 0; j < {}; ++j) total{}[j] *= fall{};", p.plan.width, pair.follower, l));
  }
  std::string second_look(const RowJointPrint& p, const OnlinePair& pair, const std::string& x) const override {
    return fmt::format("acc{}[j] += {};", pair.follower, p.exponential(fmt::format("{} - base{}", x, pair.leader)));
  }
  std::string leader(const OnlinePair& pair) const override { return fmt::format("base{}", pair.leader); }
  std::string absent() const override { return std::string(fold_bottom); }
  void across(const RowJointPrint& p, const OnlinePair& pair, int width, bool,
              const Butterfly& butterfly) const override {
    p.w.line(fmt::format("const float own = red{};", pair.leader));
    butterfly(pair.leader, width);
    p.w.line(fmt::format("red{} *= {};", pair.follower, p.exponential(fmt::format("own - red{}", pair.leader))));
    butterfly(pair.follower, width);
  }
  void finish_leader(const RowJointPrint& p, const OnlinePair& pair) const override {
    // The element that is the maximum adds 1 to the sum: a sum of 0 saw nothing above -inf.
    p.w.line(fmt::format("if (red{} == 0.0f) red{} = -PL_INF_F32;", pair.follower, pair.leader));
  }
  /// What the kernel subtracts may be made of the maximum; and an infinite or NaN one decides the sum alone.
  void finish_follower(const RowJointPrint& p, const OnlinePair& pair) const override {
    const std::string finite = fmt::format("fabsf(red{}) < PL_INF_F32", pair.leader);
    const Node& base = p.kernel.nodes[static_cast<std::size_t>(pair.base)];
    if (base.op == Op::reduced && base.reduction == pair.leader) {
      p.w.line(fmt::format("if (!({})) red{} = PL_NAN_F32;", finite, pair.follower));
    } else {
      const std::string moved = fmt::format("expf(red{} - {})", pair.leader, p.w.name(pair.base));
      p.w.line(fmt::format("red{0} = {1} ? red{0} * {2} : {2};", pair.follower, finite, moved));
    }
  }
};

/// `mean<r>` and `count<r>` of what the thread has seen; squares are of deviations from that mean.
class RowDeviations : public RowJoint {
 public:
  void declare(const RowJointPrint& p, const OnlinePair& pair) const override {
    p.w.line(fmt::format("float mean{0} = 0.0f, count{0} = 0.0f;", pair.leader));
  }
  void begin_chunk(const RowJointPrint& p, const OnlinePair& pair, bool counted) const override {
    const int l = pair.leader;
    p.w.line(fmt::format("float part{}[{}] = {{{}}};", l, p.plan.width, each_lane("0.0f", p.plan.width)));
    p.w.line(counted ? fmt::format("float seen{} = 0.0f;", l)
                     : fmt::format("const float seen{} = {}.0f;", l, p.plan.unroll * p.plan.width));
  }
  std::string first_look(const OnlinePair& pair, const std::string& x, bool counted) const override {
    return fmt::format("part{0}[j] += {1};{2}", pair.leader, x,
                       counted ? fmt::format(" seen{} += 1.0f;", pair.leader) : std::string());
  }
  void join_chunk(const RowJointPrint& p, const OnlinePair& pair, bool) const override {
    const int l = pair.leader;
    p.w.line(fmt::format("const float sum{} = {};", l, lanes_as_one(p, pair, "part")));
    p.w.line(fmt::format("const float here{0} = seen{0} > 0.0f ? sum{0} / seen{0} : mean{0};", l));
    p.w.line(fmt::format("const float many{0} = count{0} + seen{0};", l));
    p.w.line(fmt::format("const float share{0} = many{0} > 0.0f ? seen{0} / many{0} : 0.0f;", l));
    p.w.line(fmt::format("const float gap{0} = here{0} - mean{0};", l));
    p.w.line(fmt::format("acc{1}[0] += gap{0} * gap{0} * count{0} * share{0};", l, pair.follower));
    p.w.line(fmt::format("mean{0} += gap{0} * share{0};", l));
    p.w.line(fmt::format("count{0} = many{0};", l));
    p.w.line(fmt::format("acc{0}[0] += sum{0};", l));
  }
  std::string second_look(const RowJointPrint&, const OnlinePair& pair, const std::string& x) const override {
    return fmt::format("const float off{0} = {1} - here{2}; acc{0}[j] += off{0} * off{0};", pair.follower, x,
                       pair.leader);
  }
  bool counts() const override { return true; }
  void across(const RowJointPrint& p, const OnlinePair& pair, int width, bool of_threads,
              const Butterfly& butterfly) const override {
    const int l = pair.leader;
    p.w.line(of_threads ? fmt::format("const float own = mean{0}, held = count{0};", l)
                        : fmt::format("const float held = count{0}, own = held > 0.0f ? red{0} / held : 0.0f;", l));
    butterfly(l, width);
    for (int m = width / 2; m >= 1; m /= 2) p.w.line(fmt::format("count{0} = count{0} + pl_xor(count{0}, {1});", l, m));
    p.w.line(fmt::format("const float off = own - red{0} / count{0};", l));
    p.w.line(fmt::format("if (held > 0.0f) red{} += held * off * off;", pair.follower));
    butterfly(pair.follower, width);
  }
};

}  // namespace

const RowJoint& row_joint(JointKind kind) {
  static const RowExponentials exponentials;
  static const RowDeviations deviations;
  static const auto all = std::to_array<const RowJoint*>({&exponentials, &deviations});  // in the order of JointKind
  static_assert(all.size() == table_of_joints::all.size());
  return *all[static_cast<std::size_t>(kind)];
}

}  // namespace planish::codegen::printing
