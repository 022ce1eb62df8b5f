#include "codegen/emit/cpp_emit.h"

#include <fmt/format.h>

#include "codegen/emit/cpp_plan.h"
#include "codegen/emit/vector_math.h"
#include "codegen/operation.h"

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

std::string Room::array(const std::string& type, const std::string& name, std::int64_t count, std::int64_t bytes,
                        int threads) {
  if (stack_ + count * bytes <= kStackBytes) {
    stack_ += count * bytes;
    return fmt::format("{} {}[{}] __attribute__((aligned(64)));\n", type, name, count);
  }
  const std::int64_t each = (count * bytes + 63) / 64 * 64, at = take(each * threads);
  return fmt::format("{0}* __restrict const {1} = ({0}*)(room + {2}{3});\n", type, name, at,
                     threads > 1 ? fmt::format(" + tid * {}", each) : std::string());
}

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
                         view.inner(static_cast<int>(i)) && info(kernel.nodes[i].op).worth_keeping;
  cpp::Printer printer(view);
  std::string shared;
  cpp::Room room;
  const std::string body =
      kernel.has_rows() ? cpp::row_body(view, plan, printer, shared, room) : cpp::pointwise_body(view, plan, printer);
  std::string out = vector_prelude(plan.bits, plan.lanes, printer.used());
  if (plan.threads > 1)
    out +=
        "extern \"C\" int omp_get_thread_num(void);\nextern \"C\" int omp_get_num_threads(void);\nextern \"C\" int "
        "omp_get_max_threads(void);\n";
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
  if (room.bytes() > 0) {
    out += fmt::format("char* const room = (char*)args[{}];\n", e.args.size());
    e.args.push_back({Emitted::Argument::Kind::scratch, 0});
    e.scratch_bytes = {room.bytes()};
  }
  out += shared;
  if (plan.threads > 1)
    // Not more than whoever calls allows at the time (torch.set_num_threads, OMP_NUM_THREADS).
    out += fmt::format(
        "const int allowed = omp_get_max_threads();\n#pragma omp parallel num_threads(allowed < {0} ? allowed : "
        "{0})\n{{\nconst i64 tid = omp_get_thread_num(), team = omp_get_num_threads();\n",
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
