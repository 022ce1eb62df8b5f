#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rewrite/editor.h"

/// Private to rewrite: what rules ask of products of matrices and of convolutions.
namespace planish::rewrite {

bool is_transposed(const ir::GraphNode& node);
/// Transposed ones too.
bool is_convolution(const ir::GraphNode& node);
/// linear, mm and matmul.
bool is_matrix_product(const ir::GraphNode& node);
/// Whether PyTorch's libraries have a kernel for the operator that takes its operands from memory: these products, all
/// others of matrices, convolutions and attention.
bool reads_memory(const ir::GraphNode& node);

/// An int a dim, given as a list of as many or of one; `otherwise` where absent. Nothing for anything else.
std::optional<std::vector<std::int64_t>> by_dim(const ir::GraphNode& node, std::string_view name, std::size_t dims,
                                                std::int64_t otherwise);

/// A product of anything with a matrix `w`, whose columns are counted along its dim `column`.
struct MatrixProduct {
  int x = -1, w = -1, bias = -1;
  std::int64_t column = 0;
  std::int64_t rows = 1, depth = 1, columns = 1;
};
/// Nothing for other nodes, and where the factor is no matrix.
std::optional<MatrixProduct> matrix_product(const Editor& editor, const ir::GraphNode& node);

/// The quotient of any number by one above zero, rounded up.
std::int64_t up(std::int64_t a, std::int64_t by);

/// Whether memory of the value lies as its dims are listed.
bool is_contiguous(const ir::Value& value);

}  // namespace planish::rewrite
