#pragma once

#include <string_view>
#include <vector>

#include "rewrite/editor.h"
#include "rewrite/rewrite.h"

/// Private to rewrite.
namespace planish::rewrite {

/// A pattern with its conditions. `apply` changes the graph at node `index` and says true, or leaves it and says false.
struct Rule {
  std::string_view name;
  Numeric numeric = Numeric::exact;
  bool (*apply)(Editor& editor, int index) = nullptr;
  bool library = false;  ///< pays only where PyTorch's libraries compute products (Options::library_products)
};

/// In the order in which they are tried.
const std::vector<Rule>& rules();

/// A sum or mean over the columns of a matrix product: Σⱼ Σₖ x[i,k]·w[k,j] is Σₖ x[i,k]·(Σⱼ w[k,j]), a product with a
/// vector in place of one with a matrix. Scalar factors, quotients and summands in between, and a bias, come along.
/// Fires where
/// - the sum is over the product's last dim alone, and keeps its dtype, which is f32 or f64;
/// - the product is of anything with a matrix (linear, mm, matmul), whose values nothing else reads, as nothing else
///   reads what lies in between;
/// - it has so many rows and columns that a product with a matrix does more work than reading the factors.
/// An infinity or NaN in x is multiplied with the least and the greatest of each row of w instead, whose sum is what
/// the sum over all of them would be: an infinity where all have one sign, else NaN.
bool sum_through_product(Editor& editor, int index);

/// A sum or mean over places of a convolution's results, transposed or not: each tap meets a box of elements, and
/// Σ over places of Σ over channels and taps of x·w is Σ over channels and taps of (Σ over the box of x)·w. Over some
/// of the dims alone, a convolution along the others is left, with a channel for each channel and tap of those. Scalars
/// in between and a bias come along. Fires where
/// - the sum is over dims behind the channels and no other, and keeps its dtype, which is f32 or f64;
/// - nothing else reads the convolution's results, as nothing else reads what lies in between;
/// - there is one group, and along the dims that are summed no tap meets padding alone, and what one meets is
///   contiguous: an ordinary convolution has stride 1 there;
/// - so many places are summed that the convolution does more work than reading its input;
/// - the weights are parameters, buffers or constants of the model.
/// An infinity or NaN in x meets each weight it did, so that what becomes of it is the same. One in the weights would
/// meet sums in place of elements, hence the last condition.
bool sum_through_convolution(Editor& editor, int index);

/// A product with a diagonal matrix, on either side, scales rows or columns. Fires where the matrix is made by the
/// graph, as `diag` and `diag_embed` are captured: a choice between a row or column and zero by the equality of two
/// counts; for matrices of f32 and f64. An infinity or NaN of the other factor meets a zero in all rows of its column
/// but its own: these become NaN, for which the column's are counted.
bool diagonal_product(Editor& editor, int index);

/// A product with a triangular or banded matrix, on either side, or of whose results a triangle or band is wanted
/// alone, is a few products of blocks: of each strip of rows (and of columns) those columns that are wanted, and those
/// terms that may be other than zero. Fires where
/// - the graph proves it, by comparisons of counts (bands.h): values are never looked at;
/// - the product is of matrices or batches of them (linear, mm, bmm, matmul), all f32 or all f64, of at least 256
/// terms;
/// - blocks have at least Options::block rows (or columns), and no more than Options::most_left of the work is left,
///   with a block of 256 terms or more saved.
/// What nobody wants may be anything. A zero times an infinity or NaN is NaN: zeros times what a block leaves out are
/// summed by column (or row) and added, where that factor is not the model's own.
bool banded_product(Editor& editor, int index);

/// scaled_dot_product_attention becomes what it is defined as: a product with the keys, a scale, masks, a softmax and a
/// product with the values. A query whose keys are all masked gives zeros. Fires where
/// - kernels of ours compute products (Options::library_products is false);
/// - heads have more features than the kernel of ours that does all of it has room for (Options::most_features);
/// - all is of one type, f32, f16 or bf16, the mask of it, of f32 or of booleans; nothing is dropped; heads do not
/// share
///   keys in groups, in 16 bits nor keys of other batches;
/// - in f32 there are at most 2²⁸ scores, which lie in memory twice; in 16 bits at least 64 queries, in at most 64
/// equal
///   parts with Options::scores_at_once each, one after the other.
/// In 16 bits scores are f32 (`aten.bmm.dtype`), exponentials are rounded before the second product, and its results
/// are divided by their sum, as in PyTorch's kernels.
bool wide_attention(Editor& editor, int index);
/// The nodes of such attention without a causal limit, whose value they give in f32. `like`: a value of the operands'
/// type.
int composed_attention(Editor& editor, int query, int key, int value, int mask, double scale, int like);

/// Attention of one query a sequence whose keys and values are a product of a latent that all heads share, of fewer
/// features than these have together (multi-head latent attention over a cache of latents): q · (W c) is (Wᵀ q) · c,
/// and a weighted sum of V c is V times that of c. The latent is key and value of one head, whose queries are the
/// heads', with what keys have besides that is the same for all heads. Fires where
/// - all is of one type, f32, f16 or bf16; nothing is dropped, and a mask is the same for all heads;
/// - values, and one piece of the keys' features, are parts of one product with a parameter, without a bias, which
///   nothing else reads; other pieces are expanded to the heads;
/// - there is a quarter of the multiplications left, or less.
/// In 16 bits the weighted sum of latents stays in f32: the product behind it cancels what is common to a latent's
/// features, whose rounding it would not. Where a library computes products, all of it is f32.
/// What is not finite in a latent makes NaN of all that a sequence's query gives, on either way.
bool latent_attention(Editor& editor, int index);

/// softmax, log_softmax and logsumexp over dims of extent 1: 1 + (x - x), x - x (NaN for what is not finite) and x.
/// Fires for f32 and f64 that keep their dtype.
bool softmax_of_one(Editor& editor, int index);

/// A product of a product with a matrix, and a matrix of few columns or a vector: (x·a)·b is x·(a·b), where a·b is as
/// small as b. Biases come along. Fires where
/// - nothing lies between, nothing else reads the first product, and everything is f32;
/// - b, and a bias of the first, are the model's own: an infinity in b would have the sign of its whole column of x·a;
/// - b has at most 8 columns, and a 32 times as many or more;
/// - there are so many rows that the products cost more than a·b.
/// What is not finite in x meets the least and the greatest of the terms that its sum in a·b is of, as in
/// sum_through_product().
bool product_through_product(Editor& editor, int index);

/// Scales and shifts of channels behind a linear layer or a convolution, transposed or not, become part of its weights
/// and bias: batch norm in evaluation, and products, sums and differences with parameters or numbers. A small kernel
/// makes the weights anew at each call, as parameters are inputs of a program. Fires where
/// - all of them, and the weights, are parameters, buffers or constants of the model, of the dtype of the data, f32 or
///   f64, which stays; quotients are by numbers other than zero;
/// - nothing else reads what lies in between;
/// - the last value is written to memory whoever computes it: it is a result, or a library's operator reads it. A
/// kernel
///   that reads it does such arithmetic for nothing;
/// - there are so many results, for themselves and beside the weights, that a pass over them takes longer than making
///   the weights.
/// What is not finite in the data meets each weight it met, times a finite scale.
bool affine_into_weights(Editor& editor, int index);

/// An average pool behind a convolution with windows of one element is one before it: fewer places to convolve. Fires
/// where
/// - the convolution has stride 1, no padding and weights of the model's own, and the pool alone reads it;
/// - it has no bias, or each result of the pool is an average of elements alone;
/// - the pool leaves at most half of the places;
/// - data, f32 or f64, and results lie contiguous.
/// An infinity meets the weight that it met, times how often its window has it.
bool pool_before_convolution(Editor& editor, int index);

/// The largest of f(x) over windows (a max pool), or the largest or least over dims, is f of that of x where f never
/// falls: fewer elements to compute f of, and a pool that is folded where x is made. Fires where
/// - f is tanh, sigmoid, a bound and the like, a product with or quotient by a number above zero, or a sum with a
///   number or a parameter that is one value for each window; such numbers, and inverses of factors, are normal numbers
///   of fp32, so that no infinity or zero becomes NaN;
/// - a pool has no taps apart where it has padding: a window may lie in it alone;
/// - nothing else reads f(x), whose dtype and shape are x's, and the fold leaves fewer elements.
/// NaN stays NaN on either way, and f gives it for nothing else.
bool extremum_before_monotone(Editor& editor, int index);

/// An average pool of an average pool whose windows stand side by side is one with larger windows. Scales and shifts
/// by channel in between (affine.h) come behind it. Fires where
/// - windows of both lie within the data, with no divisor of the caller's;
/// - nothing else reads what goes; data, f32 or f64, and results lie contiguous.
bool pool_of_pool(Editor& editor, int index);

/// Means of planes behind a norm of batches (in training) or of groups of channels follow from the mean and the
/// variance of each plane of its data, as the norm's statistics do: they are folded once, and elements are not normed.
/// Fires where
/// - all that reads the norm's elements are means over all places, which may fold images and channels besides;
/// - everything is of one dtype, f32 or f64, and the data lie contiguous.
/// What is not finite makes the statistics so, and all that they norm NaN, on either way.
bool mean_behind_norm(Editor& editor, int index);

/// A linear layer of which one half of the columns gates the other is two layers: what the first gives is an operand
/// of the second one's epilogue, where the whole would be stored and read by a kernel of its own. Fires where
/// - kernels of ours compute products, all is of 16 bits, and both halves keep the device busy;
/// - nothing but the gate reads the halves: a product of two, behind functions of single elements.
bool gated_product(Editor& editor, int index);

/// A norm of groups over images with channels last: moments of each channel's plane, of which a group's follow as
/// above, and arithmetic by element. One kernel reads a few channels of each place for a group, in pieces of sectors;
/// three read whole rows. Fires where
/// - the norm has weights and bias of the data's dtype: f32, f16 or bf16;
/// - channels lie beside each other, eights of them, and nothing reads the norm's statistics;
/// - there are Options::norms_by_channels elements, and what a group has of a place is no whole 16 bytes, or all are
/// 16 MiB.
bool norm_by_channels(Editor& editor, int index);

/// An average pool behind a convolution with taps: a convolution with the pool's stride over averages of the data, one
/// for each window of elements, with the weights as they are. Scales and shifts by channel in between (affine.h) come
/// behind it. Fires where
/// - windows of the pool lie within the results, with no divisor of the caller's;
/// - the convolution has stride 1 along the dims that are pooled, and weights of the model's own;
/// - nothing else reads what goes; data, f32 or f64, and results lie contiguous;
/// - at most half of the places are left, the convolution had no fewer results than elements, and the averages take
///   less than half of its products.
/// An infinity meets each weight that it met.
bool pool_through_convolution(Editor& editor, int index);

/// An average pool behind a transposed convolution, whose windows are as many elements wide and as many apart for each
/// tap: an ordinary convolution over averages of the data, with those taps added that meet the same elements. Scales
/// and shifts come behind it. Fires where
/// - windows and strides of the pool are multiples of the convolution's strides, and there is no dilation, and one
///   group;
/// - as above what windows, weights, readers, layouts and dtypes are asked for;
/// - at most half of the places are left, the convolution had no fewer results than elements, and what is done instead
///   has no more products.
/// An infinity times a sum of weights has one sign, times weights of both signs it is NaN. So what is not finite is
/// convolved once more, in as many channels again, with weights that are zero where signs mix, and else have that sign.
bool pool_through_transposed(Editor& editor, int index);

}  // namespace planish::rewrite
