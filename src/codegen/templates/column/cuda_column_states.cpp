#include "codegen/templates/column/cuda_column_states.h"

#include <fmt/format.h>

#include <algorithm>

namespace planish::codegen::printing {

// ---- states ----

FieldName ColumnStates::spelled(std::string prefix, int reduction, std::string lane) {
  return [=](const std::string& suffix) { return fmt::format("{}{}{}{}", prefix, reduction, suffix, lane); };
}
void ColumnStates::lanes(const std::function<void()>& body) {
  w.line("#pragma unroll");
  w.open(fmt::format("for (int j = 0; j < {}; ++j) {{", base_.width));
  body();
  w.close();
}
std::string ColumnStates::merged(const Fold& fold, const FieldName& a, const FieldName& b) const {
  return fold.state->merge(kernel_, fold, exponential(), a, b);
}
void ColumnStates::declare(const std::string& prefix, const Fold& fold) {
  for (const FoldField& field : fold.fields) {
    w.line(fmt::format("{} {}{}{}[{}] = {{{}}};", field.type, prefix, fold.reduction, field.suffix, base_.width,
                       each_lane(field.neutral, base_.width)));
  }
}

// ---- meeting: the states a<r> of a block's threads become one, held by all of them ----

void ColumnStates::meet(const std::vector<Fold>& folds) {
  if (base_.columns) {
    meet_columns(folds);
  } else {
    meet_rows(folds);
  }
}

void ColumnStates::meet_columns(const std::vector<Fold>& folds) {
  if (base_.across == 1) return;
  w.open("{");
  const auto slot = [&](const std::string& row) {
    return fmt::format("[({} * {} + j) * {} + x]", row, base_.width, base_.rows);
  };
  places(folds, static_cast<std::int64_t>(base_.threads) * base_.width);
  const auto each_field = [&](const std::string& format_left, const std::string& format_right) {
    for (const Fold& fold : folds) {
      for (const FoldField& field : fold.fields) {
        const std::string own = fmt::format("a{}{}[j]", fold.reduction, field.suffix);
        const std::string there = fmt::format("h{}{}", fold.reduction, field.suffix);
        w.line(fmt::format("{} = {};", format_left.empty() ? own : there + format_left,
                           format_right.empty() ? own : there + format_right));
      }
    }
  };
  lanes([&] { each_field(slot("y"), ""); });
  w.line("#pragma unroll 1");
  w.open(fmt::format("for (int h = {}; h > 0; h /= 2) {{", base_.across / 2));
  w.line("__syncthreads();");
  w.open("if (y < h) {");
  lanes([&] {
    for (const Fold& fold : folds) {
      const int r = fold.reduction;
      w.line(merged(fold, spelled("a", r, "[j]"),
                    [&](const std::string& suffix) { return fmt::format("h{}{}{}", r, suffix, slot("(y + h)")); }));
    }
    each_field(slot("y"), "");
  });
  w.close();
  w.close();
  w.line("__syncthreads();");
  lanes([&] { each_field("", slot("0")); });
  w.close();
}

void ColumnStates::across_lanes(const Fold& fold, int count) {
  for (int m = count / 2; m >= 1; m /= 2) {
    w.open("{");
    for (const FoldField& field : fold.fields)
      w.line(fmt::format("const {0} z{1}{2} = pl_xor(a{1}{2}[0], {3});", field.type, fold.reduction, field.suffix, m));
    w.line(merged(fold, spelled("a", fold.reduction, "[0]"), spelled("z", fold.reduction, "")));
    w.close();
  }
}

void ColumnStates::meet_rows(const std::vector<Fold>& folds) {
  for (const Fold& fold : folds) {
    for (int step = 1; step < base_.width; step *= 2) {
      for (int j = 0; j + step < base_.width; j += 2 * step) {
        w.line(merged(fold, spelled("a", fold.reduction, fmt::format("[{}]", j)),
                      spelled("a", fold.reduction, fmt::format("[{}]", j + step))));
      }
    }
    across_lanes(fold, std::min(32, base_.across));
  }
  if (base_.across <= 32) return;
  const int warps = base_.across / 32;
  w.open("{");
  places(folds, base_.threads / 32);
  w.open("if (tid % 32 == 0) {");
  for (const Fold& fold : folds) {
    for (const FoldField& field : fold.fields)
      w.line(fmt::format("h{0}{1}[tid / 32] = a{0}{1}[0];", fold.reduction, field.suffix));
  }
  w.close();
  w.line("__syncthreads();");
  w.line(fmt::format("const int w0 = tid / {} * {};", base_.across, warps));
  for (const Fold& fold : folds) {
    const int r = fold.reduction;
    for (const FoldField& field : fold.fields) w.line(fmt::format("a{0}{1}[0] = h{0}{1}[w0];", r, field.suffix));
    w.line("#pragma unroll 1");
    w.open(fmt::format("for (int i = 1; i < {}; ++i) {{", warps));
    w.line(merged(fold, spelled("a", r, "[0]"),
                  [&](const std::string& suffix) { return fmt::format("h{}{}[w0 + i]", r, suffix); }));
    w.close();
  }
  w.close();
}

/// Declares h<r><field>: arrays of `count` elements in the meeting place, which has room for the folds of all phases:
/// none overwrites what another still reads.
void ColumnStates::places(const std::vector<Fold>& folds, std::int64_t count) {
  for (const Fold& fold : folds) {
    for (const FoldField& field : fold.fields) {
      w.line(fmt::format("{0}* const h{1}{2} = ({0}*)((unsigned char*)pl_meeting + {3});", field.type, fold.reduction,
                         field.suffix, place_of(fold.reduction, field.suffix, count)));
    }
  }
}

/// Wider elements first: everything is aligned.
std::int64_t ColumnStates::place_of(int reduction, const std::string& suffix, std::int64_t count) const {
  std::int64_t offset = 0;
  for (const int bytes : {8, 4, 1}) {
    for (const auto& phase : plan_.folds) {
      for (const Fold& fold : phase) {
        for (const FoldField& field : fold.fields) {
          if (field.bytes != bytes) continue;
          if (fold.reduction == reduction && field.suffix == suffix) return offset;
          offset += count * bytes;
        }
      }
    }
  }
  return offset;
}

// ---- scratch ----

std::string ColumnStates::partial(const Fold& fold, const FoldField& field, const std::string& slice) const {
  const std::string cell = base_.columns ? fmt::format("(long long)row * {} + j", base_.width) : "(long long)row";
  return fmt::format("(({}*)(partials + {}LL))[{} * {}LL + {}]", field.type,
                     plan_.offset_of(fold.reduction, field.suffix), slice, plan_.cells, cell);
}

void ColumnStates::leave(const std::vector<Fold>& folds) {
  w.open("if (live && y == 0) {");
  const auto all = [&](const char* lane) {
    for (const Fold& fold : folds) {
      for (const FoldField& field : fold.fields)
        w.line(fmt::format("{} = a{}{}{};", partial(fold, field, "slice"), fold.reduction, field.suffix, lane));
    }
  };
  if (base_.columns) {
    lanes([&] { all("[j]"); });
  } else {
    all("[0]");
  }
  w.close();
}

void ColumnStates::gather(const std::vector<Fold>& folds) {
  for (const Fold& fold : folds) declare("a", fold);
  w.line("#pragma unroll 4");
  w.open(fmt::format("for (int i = y; i < {}; i += {}) {{", plan_.slices, base_.across));
  const auto all = [&](const char* lane) {
    for (const Fold& fold : folds) {
      for (const FoldField& field : fold.fields)
        w.line(
            fmt::format("const {} z{}{} = {};", field.type, fold.reduction, field.suffix, partial(fold, field, "i")));
      w.line(merged(fold, spelled("a", fold.reduction, lane), spelled("z", fold.reduction, "")));
    }
  };
  if (base_.columns) {
    lanes([&] { all("[j]"); });
  } else {
    all("[0]");
  }
  w.close();
}

// ---- results ----

void ColumnStates::results(const std::vector<Fold>& folds) {
  const std::string lane = base_.columns ? "[j]" : "";
  const std::string from = base_.columns ? "[j]" : "[0]";
  for (const Fold& fold : folds) {
    for (const int r : {fold.reduction, fold.follower}) {
      if (r < 0) continue;
      const auto type = computing_type(kernel_.reductions[static_cast<std::size_t>(r)].accumulate);
      w.line(fmt::format("{} red{}{};", type, r, base_.columns ? fmt::format("[{}]", base_.width) : ""));
    }
  }
  const auto all = [&] {
    for (const Fold& fold : folds) {
      const auto red = [&](int r) { return fmt::format("red{}{}", r, lane); };
      for (const std::string& line :
           fold.state->finish(fold, spelled("a", fold.reduction, from), red(fold.reduction), red(fold.follower)))
        w.line(line);
    }
  };
  if (base_.columns) {
    lanes(all);
  } else {
    all();
  }
}

void ColumnStates::finish(const std::vector<Fold>& folds) {
  const std::string lane = base_.columns ? "[j]" : "";
  for (const Fold& fold : folds) {
    if (fold.joint == nullptr || !fold.joint->relative()) continue;
    const Node& base = kernel_.nodes[static_cast<std::size_t>(fold.base)];
    const bool itself = base.op == Op::reduced && base.reduction == fold.reduction;
    const std::string text =
        fold.joint->rebase(fmt::format("red{}{}", fold.reduction, lane), fmt::format("red{}{}", fold.follower, lane),
                           itself ? std::string() : w.name(fold.base));
    if (!base_.columns) {
      w.line(text);
    } else if (itself) {
      lanes([&] { w.line(text); });
    } else {
      const int roots[] = {fold.base};
      w.open("{");
      w.compute(closure(kernel_, roots, [](int) { return false; }), text + "\n");
      w.close();
    }
  }
}

}  // namespace planish::codegen::printing
