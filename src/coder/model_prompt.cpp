#include "coder/model_prompt.h"

#include <fmt/format.h>

namespace planish::coder {
namespace {

constexpr std::string_view common =
    R"(You write the fastest kernels for one part of a PyTorch program. Answer with ONE program, in one of two forms.

1. A whole program in one fenced code block. Lines that begin with {0}@ are directives, everything else is code:

{1}

   Directives: `kernel LANGUAGE [name=NAME] [flags]` begins a source text ({2}); `scratch BYTES [zeroed]` declares tmp0, tmp1, … that the
   launches share; `launch ENTRY [grid=X,Y,Z] [block=X,Y,Z] [cluster=X,Y,Z] [shared=BYTES] [cooperative] args=…` runs a function of the text above it.
   Launches run in order. Arguments: in0, out0, tmp0 (data pointers), i32:5, i64:5, f32:0.5, f64:0.5. `args=` comes last.
2. Edits of the program that you were shown:

<<<<<<< SEARCH
lines that stand there exactly once
=======
lines in their place
>>>>>>> REPLACE

Every output must be written by some launch; inputs must not be written. Shapes and strides are fixed: use them as constants. Results are compared with
a float64 reference on fresh random data and on hostile data (large, tiny, special values); each error may be at most twice what PyTorch's own float32
code makes, so approximations, lower precision and skipped work are found and refused. What is measured is time. {3})";

constexpr std::string_view cuda_example = R"(```cuda
//@ kernel cuda
extern "C" __global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
//@ launch scale grid=4096 block=256 args=in0, out0, i32:1048576
```)";

constexpr std::string_view cpp_example = R"(```cpp
//@ kernel cpp -O3
extern "C" void scale(void** args) {
  const float* x = static_cast<const float*>(args[0]);
  float* y = static_cast<float*>(args[1]);
  for (long i = 0; i < 1048576; ++i) y[i] = 2.0f * x[i];
}
//@ launch scale args=in0, out0
```)";

/// A compiler's log may be long; its beginning says what is wrong.
std::string beginning(const std::string& text) {
  constexpr std::size_t most = 4000;
  return text.size() <= most ? text : text.substr(0, most) + "\n…";
}

}  // namespace

std::vector<llm::PromptPart> system_prompt(const PromptFacts& facts, const Brief& brief) {
  std::vector<llm::PromptPart> out;
  out.push_back(
      {llm::Scope::fixed,
       facts.cuda ? fmt::format(common, "//", cuda_example, "cuda, compiled by NVRTC without host headers, or triton",
                                "CUDA entries are extern \"C\" __global__.")
                  : fmt::format(common, "//", cpp_example, "cpp, compiled by g++ as C++20",
                                "C++ entries are extern \"C\" void entry(void** args): args[i] is the pointer of a "
                                "buffer, or points to the scalar; OpenMP is there with the flag -fopenmp.")});
  std::string task = fmt::format("Device: {}\n\nThe part to compute:\n{}", facts.device, brief.domain->description());
  if (brief.bound_ms > 0)
    task += fmt::format("\nNo program can take less than {:.4g} ms: its memory traffic and arithmetic bound it.",
                        brief.bound_ms);
  if (brief.fallback_ms > 0) task += fmt::format("\nPyTorch's operators take {:.4g} ms.", brief.fallback_ms);
  out.push_back({llm::Scope::task, std::move(task)});
  return out;
}

std::string request_text(const Brief& brief, const std::vector<Feedback>& news) {
  std::string out;
  for (const Feedback& feedback : news) {
    if (feedback.duplicate) {
      out += "Your last program was tried before. Propose another one.\n";
    } else if (feedback.error) {
      out += fmt::format("Your last answer cannot be built: {}\n", beginning(feedback.error->message));
    } else if (feedback.evaluation) {
      out += fmt::format("Your last program: {}", name(feedback.evaluation->outcome));
      if (feedback.ok) out += fmt::format(", {:.4g} ms", feedback.median_ms);
      out += fmt::format("\n{}\n", beginning(feedback.evaluation->message));
      if (!feedback.advice.empty()) out += beginning(feedback.advice) + "\n";
    }
  }
  if (!brief.best.empty()) {
    out += fmt::format("The fastest program so far takes {:.4g} ms:\n", brief.best.front().ms);
    if (const auto source = source_of(*brief.domain, brief.best.front().proposal))
      out += fmt::format("```\n{}```\n", *source);
    out += "Propose a faster one.";
  } else {
    out += "No program is right yet. Propose one.";
  }
  return out;
}

}  // namespace planish::coder
