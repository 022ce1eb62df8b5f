#include "codegen/emit/cpp_emit.h"

#include <fmt/format.h>

#include "codegen/emit/cpp_plan.h"
#include "codegen/emit/vector_math.h"

namespace planish::codegen {
namespace cpp {

Spot plain_spot(const View& view) {
  Spot s;
  for (int i = 0; i < view.variables(); ++i) s.names.push_back(fmt::format("d{}", i));
  return s;
}

std::string decompose(const View& view, const std::vector<int>& order, const std::string& linear) {
  std::string out;
  std::int64_t below = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::int64_t e = view.kernel.space.extents[static_cast<std::size_t>(order[i])];
    std::string text = below == 1 ? linear : fmt::format("{} / {}", linear, below);
    if (i > 0) text += fmt::format(" % {}", e);
    out += fmt::format("const i64 d{0} = {1};\n(void)d{0};\n", order[i], e == 1 ? "0" : text);
    below *= e;
  }
  return out;
}

namespace {

bool costly(Op op) {
  switch (op) {
    case Op::exp:
    case Op::exp2:
    case Op::expm1:
    case Op::log:
    case Op::log2:
    case Op::log10:
    case Op::log1p:
    case Op::sin:
    case Op::cos:
    case Op::tan:
    case Op::asin:
    case Op::acos:
    case Op::atan:
    case Op::sinh:
    case Op::cosh:
    case Op::tanh:
    case Op::asinh:
    case Op::acosh:
    case Op::atanh:
    case Op::erf:
    case Op::erfc:
    case Op::sigmoid:
    case Op::pow:
    case Op::atan2:
      return true;
    default:
      return false;
  }
}

}  // namespace
}  // namespace cpp

Result<Emitted> emit_cpp(const Kernel& given, const Device& device, const Genome& genome) {
  if (given.space.extents.size() > 60)
    return fail("unsupported", "the kernel's space has more than 60 variables", "merge variables first");
  const Kernel kernel = cpp::with_variable(given);
  PLANISH_TRY(const cpp::Plan read, cpp::plan(kernel, device, genome));
  cpp::Plan plan = read;
  cpp::View view(kernel, plan.v);
  plan.lanes = view.wide ? plan.bits / 64 : plan.bits / 32;
  if (plan.buffer)
    for (std::size_t i = 0; i < kernel.nodes.size(); ++i)
      view.buffered[i] = view.form[i] == cpp::Form::f && view.vec(static_cast<int>(i)) &&
                         view.inner(static_cast<int>(i)) && cpp::costly(kernel.nodes[i].op);
  cpp::Printer printer(view);
  std::string shared;
  const std::string body =
      kernel.has_rows() ? cpp::row_body(view, plan, printer, shared) : cpp::pointwise_body(view, plan, printer);
  std::string out = vector_prelude(plan.bits, plan.lanes, printer.used());
  if (plan.threads > 1)
    out += "extern \"C\" int omp_get_thread_num(void);\nextern \"C\" int omp_get_num_threads(void);\n";
  out += "extern \"C\" void k0(void** args) {\n";
  Emitted e;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const auto type = cpp::storage_name(kernel.inputs[i].dtype);
    out += fmt::format("const {0}* __restrict const in{1} = (const {0}*)args[{1}];\n(void)in{1};\n", type, i);
    e.args.push_back({Emitted::Argument::Kind::input, static_cast<int>(i)});
  }
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
    const auto type = cpp::storage_name(kernel.outputs[o].dtype);
    out += fmt::format("{0}* __restrict const out{1} = ({0}*)args[{2}];\n", type, o, e.args.size());
    e.args.push_back({Emitted::Argument::Kind::output, static_cast<int>(o)});
  }
  if (kernel.anchor == Anchor::cross) {
    out += fmt::format("char* const room = (char*)args[{}];\n", e.args.size());
    e.args.push_back({Emitted::Argument::Kind::scratch, 0});
    e.scratch_bytes = {cpp::cross_room(view, plan).bytes};
  }
  out += shared;
  if (plan.threads > 1)
    out += fmt::format(
        "#pragma omp parallel num_threads({})\n{{\nconst i64 tid = omp_get_thread_num(), team = "
        "omp_get_num_threads();\n",
        plan.threads);
  else
    out += "{\nconst i64 tid = 0, team = 1;\n";
  out += body;
  // Streamed stores are not ordered with what follows.
  if (plan.stream) out += "#if defined(__SSE__)\n__builtin_ia32_sfence();\n#endif\n";
  out += "}\n}\n";
  e.language = "cpp";
  e.entry = "k0";
  e.source = std::move(out);
  return e;
}

}  // namespace planish::codegen
