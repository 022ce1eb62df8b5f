#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/attention/decode.h"
#include "codegen/compiled.h"
#include "codegen/decode_machine.h"
#include "codegen/device/device_files.h"
#include "codegen/emit/expression.h"

namespace planish::codegen {

/// A kernel's attention of few queries; fails the test case where it is none.
struct DecodeParts {
  explicit DecodeParts(const Kernel& kernel) {
    auto found = attention_of(kernel);
    REQUIRE_MESSAGE(found.has_value(), (found ? "" : found.error().message));
    attention = std::move(*found);
    auto few = decode_of(kernel, attention);
    REQUIRE_MESSAGE(few.has_value(), (few ? "" : few.error().message));
    decode = std::move(*few);
  }
  Attention attention;
  Decode decode;
};

/// Why a kernel's attention is not of that kind; empty where it is.
inline std::string why_no_decode(const Kernel& kernel) {
  const auto found = attention_of(kernel);
  REQUIRE_MESSAGE(found.has_value(), (found ? "" : found.error().message));
  const auto few = decode_of(kernel, *found);
  return few ? std::string() : few.error().message;
}

/// Bytes at a multiple of 16, as copies want them.
class AtSixteen {
 public:
  AtSixteen(const void* from, std::size_t bytes) : memory_(bytes + 16) {
    at_ = memory_.data() + (16 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 16) % 16;
    std::memcpy(at_, from, bytes);
  }
  unsigned char* data() const { return at_; }

 private:
  std::vector<unsigned char> memory_;
  unsigned char* at_;
};

/// Runs the printed kernel on the machine of this folder, twice: with the same bits, and counters that are zeros again.
/// `memory`: of the graph's values, what the kernel writes among them. `early`: values that may be read before the
/// launches before have ended.
inline void run_decode(const Kernel& kernel, const DecodeParts& parts, const DecodeTiling& plan,
                       const DecodeWrites& writes, const std::map<int, const void*>& memory, const std::set<int>& early,
                       std::vector<std::uint16_t>& result) {
  const Decode& decode = parts.decode;
  const DecodeText text = print_decode(kernel, parts.attention, decode, plan, writes);
  const std::array<DeviceFile, 1> instead{{{"sm90/ptx.cuh", decode_instructions}}};
  const std::array<std::string_view, 1> files{"sm90/decode_attention.cuh"};
  std::string source = "#include <cmath>\n#include <cstdint>\n" + std::string(printing::prelude(false)) +
                       decode_language + device_text(files, instead) + text.printed;
  std::string call, before = fmt::format("asks_early = {}; ", writes.early);
  std::vector<const void*> args;
  const auto add = [&](const std::string& type, const void* at) {
    call += fmt::format("{}({})args[{}]", args.empty() ? "" : ", ", type, args.size());
    args.push_back(at);
  };
  for (const int input : text.inputs) {
    const int value = kernel.inputs[static_cast<std::size_t>(input)].value;
    const bool cache = writes.scatter != nullptr && (input == decode.keys.input || input == decode.values.input);
    before += fmt::format("arguments.push_back(args[{}]); ", args.size());
    if (writes.early && early.contains(value)) before += fmt::format("settled.push_back(args[{}]); ", args.size());
    add(cache ? "unsigned short*" : fmt::format("decltype(P::Args::in{})", input), memory.at(value));
  }
  add("unsigned short*", result.data());
  for (const int input : text.written)
    add(fmt::format("decltype(W::Args::in{})", input),
        memory.at(writes.scatter->inputs[static_cast<std::size_t>(input)].value));
  const std::int64_t blocks = decode.units * plan.splits + 1;  // one has nothing to do
  std::vector<float> partial(static_cast<std::size_t>(blocks * decode_partial_bytes(decode) / 4), NAN);
  std::vector<unsigned> arrived(static_cast<std::size_t>(decode.units), 0);
  if (plan.splits > 1) {
    add("float*", partial.data());
    add("u32*", arrived.data());
  }
  source +=
      fmt::format("extern \"C\" void run(void** args) {{ {}run_blocks({}, {}, [=] {{ planish_kernel({}); }}); }}\n",
                  before, blocks, plan.warps * 32, call);
  REQUIRE(decode_shared_bytes(decode, plan) <= (1 << 18));
  const Compiled compiled(source, fmt::format("-O1 -std=c++20 -w -I{}/tests/codegen/tools", PLANISH_SOURCE_DIR));
  const auto run = compiled.function<void(void**)>("run");
  run(const_cast<void**>(args.data()));
  CHECK(std::ranges::all_of(arrived, [](unsigned n) { return n == 0; }));
  const std::vector<std::uint16_t> first = result;
  run(const_cast<void**>(args.data()));
  CHECK(result == first);
}

}  // namespace planish::codegen
