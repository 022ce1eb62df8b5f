// Writes the seeds of a few kernels as C++ files: dump OUT_DIR ARCH CORES L2_BYTES. compare.py builds and times them.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "codegen/emit/cpp_emit.h"
#include "cpp_samples.h"

using namespace planish::codegen;

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  Device on;
  on.arch = argv[2];
  on.sms = std::atoi(argv[3]);
  on.l2_bytes = std::atoll(argv[4]);
  std::vector<std::pair<std::string, Kernel>> all;
  all.emplace_back("softmax", samples::softmax(4096, 4096).kernel);
  all.emplace_back("softmax_short", samples::softmax(65536, 64).kernel);
  all.emplace_back("layer_norm", samples::layer_norm(4096, 4096).kernel);
  all.emplace_back("bias_gelu", samples::bias_gelu(4096, 4096).kernel);
  all.emplace_back("transpose_scale", samples::transpose_scale(4096, 4096).kernel);
  all.emplace_back("row_sum", samples::row_sum(4, 4000000).kernel);
  all.emplace_back("softmax_columns", samples::softmax_columns(4096, 4096).kernel);
  for (const auto& [name, kernel] : all) {
    int i = 0;
    for (const auto& g : cpp_seeds(kernel, on)) {
      const auto e = emit_cpp(kernel, on, g);
      if (!e) return 1;
      std::ofstream(fmt::format("{}/{}.{}.cpp", argv[1], name, i++)) << "// " << text(g) << "\n" << e->source;
      if (i == 9) break;
    }
  }
}
