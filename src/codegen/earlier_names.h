#pragma once

#include <string_view>

/// What genes and kinds of kernels were called in documents and stores before 2026-11-23. Names in the code are of
/// today; readers of what was stored ask here. Thread-safe.
namespace planish::codegen {

/// Today's name of a gene; the same where it never had another.
std::string_view present_gene_name(std::string_view stored);

/// What a kind of kernel (AnchorInfo::name) was stored as; empty where it never had another name.
std::string_view earlier_anchor_name(std::string_view name);

}  // namespace planish::codegen
