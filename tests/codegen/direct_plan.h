#pragma once

#include "codegen/contraction/product.h"

namespace planish::codegen::contraction {

/// A plan of tiles of this size, of 16-bit factors that are read where they lie if they can be.
inline TilePlan direct_plan(const Product& product, int bm, int bn, int bk) {
  TilePlan plan;
  plan.scheme = Scheme::plain;
  plan.bm = bm;
  plan.consumers = bm / 64;
  plan.bn = bn;
  plan.bk = bk;
  plan.stages = 2;
  plan.exchange = 32;
  if (product.direct_a) plan.load_mode_a = product.direct_a->load_mode;
  if (product.direct_b) plan.load_mode_b = product.direct_b->load_mode;
  return plan;
}

}  // namespace planish::codegen::contraction
