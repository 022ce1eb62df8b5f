#pragma once
// What is put in order: keys, numbers without a sign that compare as PyTorch compares the values (NaN is the largest of
// all, −0 and 0 are equal), and items, a key above the place of its element in the row. No two items of a row are
// equal, so that any way to put them in order gives the same one, in which equal values keep theirs. Behind types u32
// and u64 and a macro ORDER_FN, which a function begins with: processors and GPUs share this file.

/// What fp16 and bf16 have below their last bit in an fp32: keys without it are short.
ORDER_FN u32 order_key(float x, int unused_bits) {
  union {
    float value;
    u32 bits;
  } word;
  word.value = x;
  const u32 bits = x == 0 ? 0u : word.bits;
  const u32 key = x != x ? 0xffffffffu : bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
  return key >> unused_bits;
}
ORDER_FN u32 order_key(int x, int) {
  return (u32)x ^ 0x80000000u;
}
ORDER_FN u64 order_key(double x, int) {
  union {
    double value;
    u64 bits;
  } word;
  word.value = x;
  const u64 bits = x == 0 ? 0ull : word.bits;
  return x != x ? ~0ull : bits ^ (bits >> 63 ? ~0ull : 1ull << 63);
}
ORDER_FN u64 order_key(long long x, int) {
  return (u64)x ^ 1ull << 63;
}

/// An item with a key of 64 bits; one of 32 is a u64.
struct WideItem {
  u64 key;
  u32 place;
};
ORDER_FN u64 order_item(u32 key, u32 place) {
  return (u64)key << 32 | place;
}
ORDER_FN WideItem order_item(u64 key, u32 place) {
  return {key, place};
}
ORDER_FN bool comes_before(u64 a, u64 b) {
  return a < b;
}
ORDER_FN bool comes_before(const WideItem& a, const WideItem& b) {
  return a.key < b.key || (a.key == b.key && a.place < b.place);
}
ORDER_FN u32 place_of(u64 item) {
  return (u32)item;
}
ORDER_FN u32 place_of(const WideItem& item) {
  return item.place;
}
/// Behind every element.
ORDER_FN void set_last(u64& item) {
  item = ~0ull;
}
ORDER_FN void set_last(WideItem& item) {
  item.key = ~0ull;
  item.place = ~0u;
}
template <class Item>
ORDER_FN Item last_item() {
  Item item;
  set_last(item);
  return item;
}
