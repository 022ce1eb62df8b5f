// Prints the kernel of a tile plan: planish-contraction-emit M N K "bm=128 …" [multiprocessors]. First line: how to
// launch it, as JSON.
#include <cstdlib>
#include <iostream>

#include "codegen/contraction/main_loop.h"

namespace contraction = planish::codegen::contraction;

int main(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "usage: " << argv[0] << " M N K \"bm=128 bn=128 …\" [multiprocessors]\n";
    return 2;
  }
  const contraction::Problem problem{std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3])};
  const auto plan = contraction::from_text(argv[4]);
  if (!plan) {
    std::cerr << "error: " << plan.error().message << "\nhint: " << plan.error().hint << "\n";
    return 2;
  }
  const auto emitted = contraction::print_main_loop(problem, *plan, contraction::plain_store(problem),
                                                    argc > 5 ? std::atoi(argv[5]) : 132);
  if (!emitted) {
    std::cerr << "error: " << emitted.error().message << "\n";
    return 1;
  }
  const auto extents = contraction::extents_of(problem, *plan);
  std::cout << "// {\"entry\": \"planish_kernel\", \"threads\": " << emitted->threads
            << ", \"shared\": " << emitted->shared_bytes << ", \"blocks\": " << emitted->blocks
            << ", \"rows_a\": " << extents.rows_a << ", \"rows_b\": " << extents.rows_b
            << ", \"depth\": " << extents.depth << ", \"parts\": " << contraction::parts(*plan) << "}\n"
            << emitted->source;
  return 0;
}
