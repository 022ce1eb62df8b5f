#include "codegen/templates/column/cuda_cooperative_states.h"

#include <fmt/format.h>

#include "codegen/emit/expression.h"
#include "codegen/templates/column/cuda_cooperative_joints.h"

namespace planish::codegen::printing {

// ---- a thread's own elements ----

std::string CooperativeStates::first_look(const Fold& fold, const std::string& x, bool counted) const {
  return joint_of(fold).first_look(*this, fold.reduction, x, counted);
}

void CooperativeStates::count_vector(const std::vector<Fold>& folds, bool counted) {
  if (!counted || base_.partial) return;
  for (const Fold& fold : folds) {
    if (fold.joint != nullptr) joint_of(fold).count_vector(*this, fold.reduction);
  }
}

std::string CooperativeStates::second_look(const Fold& fold, const std::string& x) const {
  return joint_of(fold).second_look(*this, fold.reduction, x);
}

void CooperativeStates::begin_sweep(const std::vector<Fold>& folds) {
  for (const Fold& fold : folds) {
    if (fold.joint != nullptr) joint_of(fold).begin_sweep(*this, fold.reduction);
  }
}

void CooperativeStates::begin_again(const std::vector<Fold>& folds) {
  lanes([&] {
    for (const Fold& fold : folds) {
      for (const FoldField& field : fold.fields)
        w.line(fmt::format("a{}{}[j] = {};", fold.reduction, field.suffix, field.neutral));
      if (fold.joint != nullptr) joint_of(fold).begin_again(*this, fold.reduction);
    }
  });
}

void CooperativeStates::begin_chunk(const std::vector<Fold>& folds, bool counted) {
  for (const Fold& fold : folds) {
    if (fold.joint != nullptr) joint_of(fold).begin_chunk(*this, fold.reduction, counted);
  }
}

void CooperativeStates::join_chunk(const std::vector<Fold>& folds, bool counted) {
  for (const Fold& fold : folds) {
    if (fold.joint != nullptr) joint_of(fold).join_chunk(*this, fold.reduction, counted);
  }
}

void CooperativeStates::end_sweep(const std::vector<Fold>& folds) {
  if (!shares_lanes()) return;
  for (const Fold& fold : folds) {
    const int r = fold.reduction;
    if (fold.joint != nullptr) {
      joint_of(fold).join_lanes(*this, r);
      continue;
    }
    for (int step = 1; step < base_.width; step *= 2) {
      for (int j = 0; j + step < base_.width; j += 2 * step) {
        w.line(merged(fold, spelled("a", r, fmt::format("[{}]", j)), spelled("a", r, fmt::format("[{}]", j + step))));
      }
    }
  }
}

std::string CooperativeStates::tree(const std::string& name, ReduceKind kind) const {
  return combined_lanes(kind, DType::f32, name, base_.width);
}

// ---- lanes of a warp, warps of a block, blocks of a team ----

void CooperativeStates::butterfly(const std::string& variable, int count, bool maximum) {
  for (int m = count / 2; m >= 1; m /= 2) {
    w.line(maximum ? fmt::format("{0} = pl_max({0}, pl_xor({0}, {1}));", variable, m)
                   : fmt::format("{0} += pl_xor({0}, {1});", variable, m));
  }
}

void CooperativeStates::across(const Fold& fold, int count) {
  if (fold.joint == nullptr) {
    across_lanes(fold, count);
    return;
  }
  w.open("{");
  joint_of(fold).across(*this, fold.reduction, count);
  w.close();
}

std::string CooperativeStates::count_of(const std::string& slice) const {
  const std::int64_t each = plan_.slice_length, last = base_.vectors - (plan_.slices - 1) * each;
  if (!base_.partial) {
    if (last == each) return fmt::format("{}.0f", each * base_.width);
    return fmt::format("({} == {} ? {}.0f : {}.0f)", slice, plan_.slices - 1, last * base_.width, each * base_.width);
  }
  // The ends of a row may cut its first and last vectors.
  return fmt::format("pl_part({} * {}{}, {}, {})", slice, w.literal_index(each * base_.width),
                     base_.shifted ? " - shift" : "", w.literal_index(each * base_.width),
                     w.literal_index(base_.length));
}

std::string CooperativeStates::met(const Fold& fold, const FoldField& field, const std::string& place,
                                   const std::string& turn) const {
  const std::string set = plan_.scouts() ? fmt::format("({}) % 2 * {} + ", turn, warps() + 1) : "";
  return fmt::format("h{}{}[{}{}]", fold.reduction, field.suffix, set, place);
}

void CooperativeStates::leave_warps(const std::vector<Fold>& folds, const std::string& turn) {
  for (const Fold& fold : folds) across(fold, 32);
  w.open("if (tid % 32 == 0) {");
  meeting(folds);
  for (const Fold& fold : folds) {
    for (const FoldField& field : fold.fields)
      w.line(fmt::format("{} = a{}{}[0];", met(fold, field, "tid / 32", turn), fold.reduction, field.suffix));
  }
  w.close();
}

std::string CooperativeStates::word(const Fold& fold, const FoldField& field, const std::string& number,
                                    const std::string& slice) const {
  return fmt::format("(unsigned long long*)(partials + {}LL) + (team * 2 + ({}) % 2) * {} + {} * {}",
                     plan_.offset_of(fold.reduction, field.suffix), number, plan_.slices * ColumnPlan::words_of(field),
                     slice, ColumnPlan::words_of(field));
}

void CooperativeStates::leave_block(const std::vector<Fold>& folds, const std::string& turn,
                                    const std::string& number) {
  meeting(folds);
  for (const Fold& fold : folds) {
    for (const FoldField& field : fold.fields)
      w.line(fmt::format("a{}{}[0] = {};", fold.reduction, field.suffix,
                         met(fold, field, fmt::format("tid % {}", warps()), turn)));
    across(fold, warps());
  }
  w.open("if (tid == 0) {");
  for (const Fold& fold : folds) {
    for (const FoldField& field : fold.fields) {
      if (!plan_.leaves(field)) continue;
      w.line(fmt::format("pl_team_say({}, a{}{}[0], (unsigned)({}) + 1u);", word(fold, field, number, "slice"),
                         fold.reduction, field.suffix, number));
    }
  }
  w.close();
}

void CooperativeStates::merge_blocks(const std::vector<Fold>& folds, const std::string& turn,
                                     const std::string& number) {
  const std::int64_t each = (plan_.slices + 31) / 32;
  const auto blocks = [&](const std::function<void()>& body) {
    w.line("#pragma unroll");
    w.open(fmt::format("for (int i = 0; i < {}; ++i) {{", each));
    w.line("const int b = tid + 32 * i;");
    body();
    w.close();
  };
  for (const Fold& fold : folds) declare("a", fold);
  for (const Fold& fold : folds) {
    for (const FoldField& field : fold.fields) {
      if (plan_.leaves(field))
        w.line(fmt::format("PlTold<{}> w{}{}[{}];", field.type, fold.reduction, field.suffix, each));
    }
  }
  const auto each_field = [&](const std::function<void(const Fold&, const FoldField&)>& body) {
    for (const Fold& fold : folds) {
      for (const FoldField& field : fold.fields) {
        if (plan_.leaves(field)) body(fold, field);
      }
    }
  };
  // All words are asked for before the first is looked at.
  w.line("bool told;");
  w.open("do {");
  blocks([&] {
    w.line(fmt::format("const int from = b < {0} ? b : {0};", plan_.slices - 1));
    each_field([&](const Fold& fold, const FoldField& field) {
      w.line(fmt::format("w{}{}[i].look({});", fold.reduction, field.suffix, word(fold, field, number, "from")));
    });
  });
  w.line("told = true;");
  blocks([&] {
    each_field([&](const Fold& fold, const FoldField& field) {
      w.line(fmt::format("told = told & w{}{}[i].of((unsigned)({}) + 1u);", fold.reduction, field.suffix, number));
    });
  });
  --w.depth;
  w.line("} while (!told);");
  w.line("pl_warp_meet();");
  each_field([&](const Fold& fold, const FoldField& field) {
    w.line(fmt::format("{} z{}{}[{}];", field.type, fold.reduction, field.suffix, each));
  });
  blocks([&] {
    each_field([&](const Fold& fold, const FoldField& field) {
      w.line(fmt::format("z{0}{1}[i] = b < {2} ? w{0}{1}[i].value() : {3};", fold.reduction, field.suffix, plan_.slices,
                         field.neutral));
    });
  });
  for (const Fold& fold : folds) {
    if (fold.joint != nullptr) {
      joint_of(fold).merge_blocks(*this, fold.reduction, blocks);
      continue;
    }
    blocks([&] { w.line(merged(fold, spelled("a", fold.reduction, "[0]"), spelled("z", fold.reduction, "[i]"))); });
    across(fold, 32);
  }
  w.open("if (tid == 0) {");
  meeting(folds);
  const std::string place = fmt::format("{}", warps());
  for (const Fold& fold : folds) {
    for (const FoldField& field : fold.fields)
      w.line(fmt::format("{} = a{}{}[0];", met(fold, field, place, turn), fold.reduction, field.suffix));
  }
  w.close();
}

void CooperativeStates::tell(const std::vector<Fold>& folds, const std::string& turn) {
  for (const Fold& fold : folds) declare("a", fold);
  w.open("{");
  meeting(folds);
  const std::string place = fmt::format("{}", warps());
  for (const Fold& fold : folds) {
    for (const FoldField& field : fold.fields)
      w.line(fmt::format("a{}{}[0] = {};", fold.reduction, field.suffix, met(fold, field, place, turn)));
  }
  w.close();
}

std::string_view cooperative_fold_prelude() {
  return R"(// `seen` more elements, whose sum is `sum`, join n others whose sum is t: the squares grow by what their means lie
// apart. `each` is 1 / seen, `over` 1 / n (or 0). Their mean.
PL_FN float pl_join(float& n, float& t, float& q, float& over, float seen, float each, float sum) {
  if (!(seen > 0.0f)) return 0.0f;
  const float here = sum * each, gap = here - t * over, both = n + seen;
  over = pl_fast_rcp(both);
  q += gap * gap * (n * (seen * over));
  t += sum;
  n = both;
  return here;
}
// How many of `count` elements from `first` on lie inside a row.
PL_FN float pl_part(long long first, long long count, long long length) {
  const long long lo = first < 0 ? 0 : first, hi = first + count < length ? first + count : length;
  return hi > lo ? (float)(hi - lo) : 0.0f;
}
)";
}

}  // namespace planish::codegen::printing
