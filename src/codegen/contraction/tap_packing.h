#pragma once

#include "codegen/contraction/pack.h"
#include "codegen/contraction/product.h"

namespace planish::codegen::contraction {

/// The second factor of a product in boxes (see boxes.h) as the matrix that tensor maps read of it: for each product of
/// the batch that has one of its own, rows of taps and of each its channels, with zeros behind these up to whole rows
/// of 128 bytes. 16 bits; one part. Pure; thread-safe.
Packing print_tap_packing(const Product& product);
/// Whether a block holds all taps of some channels.
bool can_pack_taps(const Product& product);

}  // namespace planish::codegen::contraction
