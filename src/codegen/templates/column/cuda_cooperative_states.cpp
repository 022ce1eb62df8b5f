#include "codegen/templates/column/cuda_cooperative_states.h"

#include <fmt/format.h>

#include "codegen/emit/expression.h"

namespace planish::codegen::printing {

// ---- a thread's own elements ----

std::string CooperativeStates::first_look(const Fold& fold, const std::string& x, bool counted) const {
  const int r = fold.reduction;
  if (fold.kind == Fold::Kind::exponentials) return fmt::format("top{0}[j] = pl_max(top{0}[j], {1});", r, x);
  return fmt::format("part{0}[j] += {1};{2}", r, x,
                     counted && base_.partial ? fmt::format(" seen{}[j] += 1.0f;", r) : "");
}

void CooperativeStates::count_vector(const std::vector<Fold>& folds, bool counted) {
  if (!counted || base_.partial) return;
  for (const Fold& fold : folds) {
    if (fold.kind == Fold::Kind::deviations)
      w.line(fmt::format("seen{} += {}.0f;", fold.reduction, shares_lanes() ? base_.width : 1));
  }
}

std::string CooperativeStates::second_look(const Fold& fold, const std::string& x) const {
  const int r = fold.reduction;
  if (fold.kind == Fold::Kind::exponentials)
    return fmt::format("a{0}s[j] += {1}({2} - a{0}m{3});", r, exponential(), x, lane());
  return fmt::format("{{ const float off = {1} - here{0}{2}; a{0}q[j] += off * off; }}", r, x,
                     shares_lanes() ? "" : "[j]");
}

void CooperativeStates::begin_sweep(const std::vector<Fold>& folds) {
  for (const Fold& fold : folds) {
    if (fold.kind != Fold::Kind::deviations) continue;
    w.line(fmt::format("float over{}[{}] = {{}};", fold.reduction, shares_lanes() ? 1 : base_.width));
  }
}

void CooperativeStates::begin_again(const std::vector<Fold>& folds) {
  lanes([&] {
    for (const Fold& fold : folds) {
      for (const FoldField& field : fold.fields)
        w.line(fmt::format("a{}{}[j] = {};", fold.reduction, field.suffix, field.neutral));
      if (fold.kind == Fold::Kind::deviations) w.line(fmt::format("over{}{} = 0.0f;", fold.reduction, lane()));
    }
  });
}

void CooperativeStates::begin_chunk(const std::vector<Fold>& folds, bool counted) {
  for (const Fold& fold : folds) {
    const int r = fold.reduction;
    if (fold.kind == Fold::Kind::exponentials) {
      std::string bottoms;
      for (int j = 0; j < base_.width; ++j) bottoms += fmt::format("{}{}", j ? ", " : "", fold_bottom);
      w.line(fmt::format("float top{}[{}] = {{{}}};", r, base_.width, bottoms));
    } else if (fold.kind == Fold::Kind::deviations) {
      w.line(fmt::format("float part{}[{}] = {{}};", r, base_.width));
      // Vectors that no row's end cuts are counted as such.
      if (counted)
        w.line(base_.partial ? fmt::format("float seen{}[{}] = {{}};", r, base_.width)
                             : fmt::format("float seen{} = 0.0f;", r));
    }
  }
}

void CooperativeStates::join_chunk(const std::vector<Fold>& folds, bool counted) {
  const bool shared = shares_lanes();
  const std::string at = lane();
  for (const Fold& fold : folds) {
    const int r = fold.reduction;
    if (fold.kind == Fold::Kind::exponentials) {
      const auto move = [&](const std::string& top) {
        w.line(fmt::format("const float next{0} = pl_max(a{0}m{1}, {2});", r, at, top));
        w.line(fmt::format("const float less{0} = {2}(a{0}m{1} - next{0});", r, at, exponential()));
        w.line(fmt::format("a{0}m{1} = next{0};", r, at));
      };
      if (shared) move(tree(fmt::format("top{}", r), ReduceKind::max));
      lanes([&] {
        if (!shared) move(fmt::format("top{}[j]", r));
        w.line(fmt::format("a{0}s[j] *= less{0};", r));
      });
    } else if (fold.kind == Fold::Kind::deviations) {
      const int whole = base_.unroll * (shared ? base_.width : 1);
      const auto join = [&](const std::string& sum, const std::string& seen) {
        const std::string count =
            counted ? fmt::format("seen, pl_fast_rcp(seen)") : fmt::format("{0}.0f, 1.0f / {0}.0f", whole);
        if (counted) w.line(fmt::format("const float seen = {};", seen));
        w.line(fmt::format("here{0}{1} = pl_join(a{0}n{2}, a{0}t{2}, a{0}q{2}, over{0}{2}, {3}, {4});", r,
                           shared ? "" : "[j]", at, count, sum));
      };
      w.line(fmt::format("float here{}{};", r, shared ? "" : fmt::format("[{}]", base_.width)));
      const std::string each = fmt::format("seen{}", r);
      if (shared) {
        w.open("{");
        join(tree(fmt::format("part{}", r)), base_.partial ? tree(each) : each);
        w.close();
      } else {
        lanes([&] { join(fmt::format("part{}[j]", r), base_.partial ? each + "[j]" : each); });
      }
    }
  }
}

void CooperativeStates::end_sweep(const std::vector<Fold>& folds) {
  if (!shares_lanes()) return;
  for (const Fold& fold : folds) {
    const int r = fold.reduction;
    if (fold.kind == Fold::Kind::exponentials) {
      w.line(fmt::format("a{0}s[0] = {1};", r, tree(fmt::format("a{}s", r))));
    } else if (fold.kind == Fold::Kind::deviations) {
      w.line(fmt::format("a{0}q[0] = {1};", r, tree(fmt::format("a{}q", r))));
    } else {
      for (int step = 1; step < base_.width; step *= 2) {
        for (int j = 0; j + step < base_.width; j += 2 * step) {
          w.line(merged(fold, spelled("a", r, fmt::format("[{}]", j)), spelled("a", r, fmt::format("[{}]", j + step))));
        }
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
  const int r = fold.reduction;
  if (fold.kind != Fold::Kind::exponentials && fold.kind != Fold::Kind::deviations) {
    across_lanes(fold, count);
    return;
  }
  w.open("{");
  if (fold.kind == Fold::Kind::exponentials) {
    w.line(fmt::format("const float own = a{}m[0];", r));
    butterfly(fmt::format("a{}m[0]", r), count, true);
    w.line(fmt::format("a{0}s[0] *= {1}(own - a{0}m[0]);", r, exponential()));
    butterfly(fmt::format("a{}s[0]", r), count);
  } else {
    w.line(fmt::format("const float own = a{0}t[0], held = a{0}n[0];", r));
    butterfly(fmt::format("a{}t[0]", r), count);
    butterfly(fmt::format("a{}n[0]", r), count);
    w.line(fmt::format("const float off = own * pl_fast_rcp(held) - a{0}t[0] * pl_fast_rcp(a{0}n[0]);", r));
    w.line(fmt::format("if (held > 0.0f) a{}q[0] += held * off * off;", r));
    butterfly(fmt::format("a{}q[0]", r), count);
  }
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
      if (!plan_.leaves(fold, field)) continue;
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
      if (plan_.leaves(fold, field))
        w.line(fmt::format("PlTold<{}> w{}{}[{}];", field.type, fold.reduction, field.suffix, each));
    }
  }
  const auto each_field = [&](const std::function<void(const Fold&, const FoldField&)>& body) {
    for (const Fold& fold : folds) {
      for (const FoldField& field : fold.fields) {
        if (plan_.leaves(fold, field)) body(fold, field);
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
    const int r = fold.reduction;
    switch (fold.kind) {
      case Fold::Kind::exponentials:
        blocks([&] { w.line(fmt::format("a{0}m[0] = pl_max(a{0}m[0], z{0}m[i]);", r)); });
        butterfly(fmt::format("a{}m[0]", r), 32, true);
        blocks([&] { w.line(fmt::format("a{0}s[0] += z{0}s[i] * {1}(z{0}m[i] - a{0}m[0]);", r, exponential())); });
        butterfly(fmt::format("a{}s[0]", r), 32);
        break;
      case Fold::Kind::deviations:
        blocks([&] { w.line(fmt::format("a{0}t[0] += z{0}t[i];", r)); });
        butterfly(fmt::format("a{}t[0]", r), 32);
        w.open("{");
        w.line(fmt::format("const float mean = a{}t[0] / {}.0f;", r, kernel_.inner_extent()));
        blocks([&] {
          w.line(fmt::format("const float held = {};", count_of("b")));
          w.line(fmt::format("const float off = z{}t[i] * pl_fast_rcp(held) - mean;", r));
          w.line(fmt::format("if (b < {}) a{}q[0] += z{}q[i] + held * off * off;", plan_.slices, r, r));
        });
        w.close();
        butterfly(fmt::format("a{}q[0]", r), 32);
        break;
      default:
        blocks([&] { w.line(merged(fold, spelled("a", r, "[0]"), spelled("z", r, "[i]"))); });
        across(fold, 32);
    }
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
