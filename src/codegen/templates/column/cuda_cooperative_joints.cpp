#include "codegen/templates/column/cuda_cooperative_joints.h"

#include <fmt/format.h>

#include <array>

#include "codegen/fold.h"

namespace planish::codegen::printing {

class CooperativeStates::Exponentials : public Joint {
 public:
  std::string first_look(const CooperativeStates&, int r, const std::string& x, bool) const override {
    return fmt::format("top{0}[j] = pl_max(top{0}[j], {1});", r, x);
  }
  std::string second_look(const CooperativeStates& s, int r, const std::string& x) const override {
    return fmt::format("a{0}s[j] += {1}({2} - a{0}m{3});", r, s.exponential(), x, s.lane());
  }
  void begin_chunk(CooperativeStates& s, int r, bool) const override {
    s.w.line(fmt::format("float top{}[{}] = {{{}}};", r, s.base_.width, each_lane(fold_bottom, s.base_.width)));
  }
  void join_chunk(CooperativeStates& s, int r, bool) const override {
    const bool shared = s.shares_lanes();
    const auto move = [&](const std::string& top) {
      s.w.line(fmt::format("const float next{0} = pl_max(a{0}m{1}, {2});", r, s.lane(), top));
      s.w.line(fmt::format("const float less{0} = {2}(a{0}m{1} - next{0});", r, s.lane(), s.exponential()));
      s.w.line(fmt::format("a{0}m{1} = next{0};", r, s.lane()));
    };
    if (shared) move(s.tree(fmt::format("top{}", r), info(JointKind::exponentials).leader));
    s.lanes([&] {
      if (!shared) move(fmt::format("top{}[j]", r));
      s.w.line(fmt::format("a{0}s[j] *= less{0};", r));
    });
  }
  void join_lanes(CooperativeStates& s, int r) const override {
    s.w.line(fmt::format("a{0}s[0] = {1};", r, s.tree(fmt::format("a{}s", r))));
  }
  void across(CooperativeStates& s, int r, int count) const override {
    s.w.line(fmt::format("const float own = a{}m[0];", r));
    s.butterfly(fmt::format("a{}m[0]", r), count, true);
    s.w.line(fmt::format("a{0}s[0] *= {1}(own - a{0}m[0]);", r, s.exponential()));
    s.butterfly(fmt::format("a{}s[0]", r), count);
  }
  void merge_blocks(CooperativeStates& s, int r, const Blocks& blocks) const override {
    blocks([&] { s.w.line(fmt::format("a{0}m[0] = pl_max(a{0}m[0], z{0}m[i]);", r)); });
    s.butterfly(fmt::format("a{}m[0]", r), 32, true);
    blocks([&] { s.w.line(fmt::format("a{0}s[0] += z{0}s[i] * {1}(z{0}m[i] - a{0}m[0]);", r, s.exponential())); });
    s.butterfly(fmt::format("a{}s[0]", r), 32);
  }
};

class CooperativeStates::Deviations : public Joint {
 public:
  std::string first_look(const CooperativeStates& s, int r, const std::string& x, bool counted) const override {
    return fmt::format("part{0}[j] += {1};{2}", r, x,
                       counted && s.base_.partial ? fmt::format(" seen{}[j] += 1.0f;", r) : "");
  }
  std::string second_look(const CooperativeStates& s, int r, const std::string& x) const override {
    return fmt::format("{{ const float off = {1} - here{0}{2}; a{0}q[j] += off * off; }}", r, x,
                       s.shares_lanes() ? "" : "[j]");
  }
  void count_vector(CooperativeStates& s, int r) const override {
    s.w.line(fmt::format("seen{} += {}.0f;", r, s.shares_lanes() ? s.base_.width : 1));
  }
  void begin_sweep(CooperativeStates& s, int r) const override {
    s.w.line(fmt::format("float over{}[{}] = {{}};", r, s.shares_lanes() ? 1 : s.base_.width));
  }
  void begin_again(CooperativeStates& s, int r) const override {
    s.w.line(fmt::format("over{}{} = 0.0f;", r, s.lane()));
  }
  void begin_chunk(CooperativeStates& s, int r, bool counted) const override {
    s.w.line(fmt::format("float part{}[{}] = {{}};", r, s.base_.width));
    // Vectors that no row's end cuts are counted as such.
    if (counted)
      s.w.line(s.base_.partial ? fmt::format("float seen{}[{}] = {{}};", r, s.base_.width)
                               : fmt::format("float seen{} = 0.0f;", r));
  }
  void join_chunk(CooperativeStates& s, int r, bool counted) const override {
    const bool shared = s.shares_lanes(), partial = s.base_.partial;
    const int whole = s.base_.unroll * (shared ? s.base_.width : 1);
    const auto join = [&](const std::string& sum, const std::string& seen) {
      const std::string count =
          counted ? fmt::format("seen, pl_fast_rcp(seen)") : fmt::format("{0}.0f, 1.0f / {0}.0f", whole);
      if (counted) s.w.line(fmt::format("const float seen = {};", seen));
      s.w.line(fmt::format("here{0}{1} = pl_join(a{0}n{2}, a{0}t{2}, a{0}q{2}, over{0}{2}, {3}, {4});", r,
                           shared ? "" : "[j]", s.lane(), count, sum));
    };
    s.w.line(fmt::format("float here{}{};", r, shared ? "" : fmt::format("[{}]", s.base_.width)));
    const std::string part = fmt::format("part{}", r), each = fmt::format("seen{}", r);
    if (shared) {
      s.w.open("{");
      join(s.tree(part), partial ? s.tree(each) : each);
      s.w.close();
    } else {
      s.lanes([&] { join(part + "[j]", partial ? each + "[j]" : each); });
    }
  }
  void join_lanes(CooperativeStates& s, int r) const override {
    s.w.line(fmt::format("a{0}q[0] = {1};", r, s.tree(fmt::format("a{}q", r))));
  }
  void across(CooperativeStates& s, int r, int count) const override {
    s.w.line(fmt::format("const float own = a{0}t[0], held = a{0}n[0];", r));
    s.butterfly(fmt::format("a{}t[0]", r), count);
    s.butterfly(fmt::format("a{}n[0]", r), count);
    s.w.line(fmt::format("const float off = own * pl_fast_rcp(held) - a{0}t[0] * pl_fast_rcp(a{0}n[0]);", r));
    s.w.line(fmt::format("if (held > 0.0f) a{}q[0] += held * off * off;", r));
    s.butterfly(fmt::format("a{}q[0]", r), count);
  }
  /// How many elements each block has seen is known.
  void merge_blocks(CooperativeStates& s, int r, const Blocks& blocks) const override {
    blocks([&] { s.w.line(fmt::format("a{0}t[0] += z{0}t[i];", r)); });
    s.butterfly(fmt::format("a{}t[0]", r), 32);
    s.w.open("{");
    s.w.line(fmt::format("const float mean = a{}t[0] / {}.0f;", r, s.kernel_.inner_extent()));
    blocks([&] {
      s.w.line(fmt::format("const float held = {};", s.count_of("b")));
      s.w.line(fmt::format("const float off = z{}t[i] * pl_fast_rcp(held) - mean;", r));
      s.w.line(fmt::format("if (b < {}) a{}q[0] += z{}q[i] + held * off * off;", s.plan_.slices, r, r));
    });
    s.w.close();
    s.butterfly(fmt::format("a{}q[0]", r), 32);
  }
};

const CooperativeStates::Joint& CooperativeStates::joint_of(const Fold& fold) {
  static const Exponentials exponentials;
  static const Deviations deviations;
  static const auto all = std::to_array<const Joint*>({&exponentials, &deviations});  // in the order of JointKind
  static_assert(all.size() == table_of_joints::all.size());
  return *all[static_cast<std::size_t>(fold.joint->kind())];
}

}  // namespace planish::codegen::printing
