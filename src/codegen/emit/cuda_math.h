#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/emit/expression.h"

/// Short forms of f32 functions: fewer instructions, and fewer of those that a multiprocessor makes only 16 a clock of.
/// Those less exact than the functions they stand for are for kernels with the gene `fast`. Chosen by the operations
/// around a node. Pure functions; thread-safe.
namespace planish::codegen::printing {

/// The functions that the forms call, as C++ that a CPU runs too: what is left to the machine are pl_fast_rcp,
/// pl_fast_exp2, pl_max, pl_min and the functions of C.
std::string_view math_prelude();

/// Name of the function that computes an operation where CUDA kernels have one of their own, in f32; empty elsewhere.
/// `fast`: the machine's approximation. `narrow`: its results are rounded to 16 bits.
std::string_view cuda_function(Op op, bool fast, bool narrow);

/// Facts about a kernel that choose its forms.
struct FormFacts {
  bool fast = false;    ///< the gene
  bool narrow = false;  ///< results are rounded to 16 bits
  bool near = false;    ///< the arguments at hand are within the limits of near_arguments
};
/// Right-hand side of node `id` in a short form, which may stand for nodes before it as well (c · tanh(x / c) is one
/// function); empty where there is none. Without `fast`, for narrow results, there is 1 + erf(x / √2), twice the normal
/// distribution, as GELU has it: good to 2^-17 of itself everywhere, where the sum as written loses all its digits for
/// x < -5. The machine's tanh, one instruction, is good for narrow results: left to Speller::function.
std::string short_form(const Kernel& kernel, int id, const Speller& speller, const FormFacts& facts);

/// What a form that holds near zero only needs to be small.
struct NearArgument {
  int node = 0;        ///< f32
  double limit = 0.0;  ///< of its magnitude
};
/// All of them among the arguments of `nodes`; empty where no node has such a form.
std::vector<NearArgument> near_arguments(const Kernel& kernel, std::span<const int> nodes);

}  // namespace planish::codegen::printing
