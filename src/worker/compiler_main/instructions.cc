#include "worker/compiler_main/instructions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>

namespace planish::worker {
namespace {

/// Calls `see(opcode, rest)` for every line that is an instruction.
template <typename See>
void each_instruction(std::string_view text, See see) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto begin = line.find_first_not_of(" \t{");
    if (begin == std::string_view::npos) continue;
    line.remove_prefix(begin);
    if (line.front() == '@') {  // PTX: under a predicate
      const auto space = line.find(' ');
      if (space == std::string_view::npos) continue;
      line.remove_prefix(std::min(line.find_first_not_of(" \t", space), line.size()));
    }
    if (line.empty() || line.front() == '.' || line.front() == '/' || line.front() == '#') continue;
    const auto stop = std::min(line.find_first_of(" \t;"), line.size());
    const std::string_view opcode = line.substr(0, stop);
    if (opcode.ends_with(':')) continue;
    see(opcode, line.substr(stop));
  }
}

bool any_prefix(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view p) { return text.starts_with(p); });
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

std::map<std::string, std::int64_t> count_ptx(std::string_view ptx) {
  std::map<std::string, std::int64_t> out;
  each_instruction(ptx, [&](std::string_view op, std::string_view) {
    if (any_prefix(op, {"mma.", "wmma.mma", "wgmma.mma", "tcgen05.mma"})) {
      ++out["tensor"];
    } else if (any_prefix(op, {"cp.async"})) {
      ++out["async_copy"];
    } else if (any_prefix(op, {"bar.", "barrier.", "mbarrier."})) {
      ++out["barrier"];
      if (has(op, "cluster")) ++out["cluster_barrier"];
    } else if (any_prefix(op, {"shfl.", "redux.", "vote."})) {
      ++out["warp"];
    } else if (any_prefix(op, {"atom.", "red."})) {
      ++out["atomic"];
    } else if (any_prefix(op, {"ld.", "st.", "ldmatrix", "stmatrix"})) {
      ++out[has(op, ".shared") || has(op, "matrix") ? "shared" : has(op, ".global") ? "global" : "other_memory"];
    } else if (has(op, ".f32") || has(op, ".f64") || has(op, ".f16") || has(op, ".bf16")) {
      if (any_prefix(op, {"fma.", "add.", "sub.", "mul.", "div.", "rcp.", "sqrt.", "rsqrt.", "ex2.", "lg2.", "sin.",
                          "cos.", "tanh.", "min.", "max.", "neg.", "abs."}))
        ++out["arithmetic"];
    }
  });
  return out;
}

std::map<std::string, std::int64_t> count_assembly(std::string_view assembly) {
  std::map<std::string, std::int64_t> out;
  each_instruction(assembly, [&](std::string_view op, std::string_view rest) {
    const bool vector = has(rest, "%xmm") || has(rest, "%ymm") || has(rest, "%zmm");
    if (has(rest, "GOMP_parallel")) {
      ++out["parallel"];
    } else if (has(rest, "GOMP_barrier")) {
      ++out["barrier"];
    } else if (op == "lock" || has(rest, "GOMP_atomic")) {
      ++out["atomic"];
    }
    if (!vector) return;
    // Scalar floating-point code uses vector registers as well; its opcodes say so.
    const bool scalar = op.ends_with("ss") || op.ends_with("sd") || op.ends_with("si") || op == "vmovd" || op == "movd";
    if (has(rest, "%zmm")) {
      ++out["vector_512"];
    } else if (has(rest, "%ymm")) {
      ++out["vector_256"];
    } else if (!scalar) {
      ++out["vector_128"];
    }
    if (has(rest, "(")) ++out["memory"];
    if (op.starts_with("vmovnt") || op.starts_with("movnt")) ++out["streaming"];
    if (has(op, "add") || has(op, "mul") || has(op, "sub") || has(op, "div") || has(op, "sqrt") || op.starts_with("vf"))
      ++out["arithmetic"];
  });
  return out;
}

std::int64_t largest_frame(std::string_view assembly) {
  std::int64_t most = 0;
  each_instruction(assembly, [&](std::string_view op, std::string_view rest) {
    if (op != "subq" && op != "addq") return;
    const auto dollar = rest.find('$');
    const auto comma = rest.find(", %rsp");
    if (dollar == std::string_view::npos || comma == std::string_view::npos) return;
    std::int64_t bytes = 0;
    std::from_chars(rest.data() + dollar + 1, rest.data() + comma, bytes);
    most = std::max(most, op == "subq" ? bytes : -bytes);
  });
  return most;
}

}  // namespace planish::worker
