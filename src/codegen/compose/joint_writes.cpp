#include "codegen/compose/joint_writes.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/attention/decode_writes.h"
#include "codegen/attention/last_keys.h"
#include "codegen/compose/kernels.h"
#include "codegen/compose/parameters.h"

namespace planish::codegen {
namespace {

using program::Launch;
using ArgumentKind = Emitted::Argument::Kind;

class WriteJoiner {
 public:
  WriteJoiner(program::Program& program, const std::map<int, KernelOrigin>& origins, const Device& device)
      : program_(program), origins_(origins), device_(device) {}

  void join() {
    for (std::size_t s = 1; s < program_.steps.size(); ++s) {
      const auto* const reader = std::get_if<Launch>(&program_.steps[s]);
      if (reader == nullptr || !is(*reader, true)) continue;
      const auto before = write_before(s);
      if (!before) continue;
      if (auto both = joint(std::get<Launch>(program_.steps[*before]), *reader, s)) {
        program_.steps[s] = std::move(*both);
        program_.steps.erase(program_.steps.begin() + static_cast<std::ptrdiff_t>(*before));
        --s;
      }
    }
  }

 private:
  bool is(const Launch& launch, bool reader) const {
    const auto known = origins_.find(launch.kernel);
    return known != origins_.end() && known->second.emitted->few_queries.has_value() == reader;
  }

  /// The last write of what this step reads, if it can come right before it: between them are launches and copies that
  /// neither touch what it writes nor write what it reads.
  std::optional<std::size_t> write_before(std::size_t at) const {
    const auto& reader = std::get<Launch>(program_.steps[at]);
    const std::set<int> read = buffers_of(reader, program_.kernels[static_cast<std::size_t>(reader.kernel)], false);
    std::set<int> touched, written;
    for (std::size_t s = at; s-- > 0;) {
      if (const auto* const copy = std::get_if<program::Copy>(&program_.steps[s])) {
        touched.insert({copy->from, copy->to});
        written.insert(copy->to);
        continue;
      }
      const auto* const launch = std::get_if<Launch>(&program_.steps[s]);
      if (launch == nullptr) return std::nullopt;
      const program::KernelSource& kernel = program_.kernels[static_cast<std::size_t>(launch->kernel)];
      const std::set<int> all = buffers_of(*launch, kernel, false), own = buffers_of(*launch, kernel, true);
      const auto met = [](const std::set<int>& a, const std::set<int>& b) {
        return std::ranges::any_of(a, [&](int buffer) { return b.contains(buffer); });
      };
      if (is(*launch, false) && met(own, read))
        return met(own, touched) || met(all, written) ? std::nullopt : std::optional(s);
      touched.insert(all.begin(), all.end());
      written.insert(own.begin(), own.end());
    }
    return std::nullopt;
  }

  std::optional<Launch> joint(const Launch& write, const Launch& reader, std::size_t at) {
    const auto writes = origins_.find(write.kernel), reads = origins_.find(reader.kernel);
    if (writes == origins_.end() || reads == origins_.end() || !write.programmatic || !reader.programmatic)
      return std::nullopt;
    const Kernel& scatter = writes->second.region->kernel;
    const Kernel& attention = reads->second.region->kernel;
    const auto parts = attention_of(attention);
    if (!parts) return std::nullopt;
    const auto decode = decode_of(attention, *parts);
    if (!decode) return std::nullopt;
    const int keys = buffer_of(reader, reads->second, ArgumentKind::input, decode->keys.input);
    const int values = buffer_of(reader, reads->second, ArgumentKind::input, decode->values.input);
    const auto output = [&](int buffer) {
      for (int o = 0; o < static_cast<int>(scatter.outputs.size()); ++o)
        if (buffer >= 0 && buffer_of(write, writes->second, ArgumentKind::output, o) == buffer) return o;
      return -1;
    };
    const int of_keys = output(keys), of_values = output(values);
    if (of_keys < 0 || of_values < 0) return std::nullopt;
    auto rows = written_rows(attention, *decode, scatter, of_keys, of_values);
    if (!rows) return std::nullopt;
    DecodeWrites both{&scatter, std::move(*rows), is_early(keys, write, at) && is_early(values, write, at)};
    for (const int input : inputs_of_end(attention, *parts)) {
      const int buffer = buffer_of(reader, reads->second, ArgumentKind::input, input);
      both.early = both.early && buffer >= 0 && is_never_written(program_, buffer);
    }
    const auto emitted = emit_decode(attention, *parts, *decode, device_, *reads->second.emitted->few_queries, both);
    if (!emitted) return std::nullopt;
    return launch(*emitted, reader, reads->second, write, writes->second);
  }

  std::optional<Launch> launch(const Emitted& emitted, const Launch& reader, const KernelOrigin& reads,
                               const Launch& write, const KernelOrigin& writes) {
    const auto own = static_cast<int>(reads.region->kernel.inputs.size());
    Launch out = reader;
    out.args.clear();
    for (const Emitted::Argument& arg : emitted.args) {
      const bool of_write = arg.kind == ArgumentKind::input && arg.index >= own;
      const int buffer = of_write ? buffer_of(write, writes, ArgumentKind::input, arg.index - own)
                                  : buffer_of(reader, reads, arg.kind, arg.index);
      if (buffer < 0) return std::nullopt;
      out.args.emplace_back(program::BufferArg{buffer});
    }
    out.shared = emitted.shared;
    out.kernel = kernel_number(program_, {emitted.language, emitted.entry, emitted.flags, emitted.source});
    return out;
  }

  /// No launch but the write and the read has anything to do with this cache before them, nor with what it is a copy
  /// of, which may be the same memory.
  bool is_early(int buffer, const Launch& write, std::size_t at) const {
    std::vector<int> all{buffer};
    for (std::size_t s = 0; s < at; ++s)
      if (const auto* copy = std::get_if<program::Copy>(&program_.steps[s]); copy != nullptr && copy->to == buffer)
        all.push_back(copy->from);
    for (std::size_t s = 0; s < at; ++s) {
      const auto* const launch = std::get_if<Launch>(&program_.steps[s]);
      if (launch == nullptr || launch == &write) continue;
      const auto touched = buffers_of(*launch, program_.kernels[static_cast<std::size_t>(launch->kernel)], false);
      if (std::ranges::any_of(all, [&](int one) { return touched.contains(one); })) return false;
    }
    return true;
  }

  program::Program& program_;
  const std::map<int, KernelOrigin>& origins_;
  const Device& device_;
};

}  // namespace

void join_writes(program::Program& program, const std::map<int, KernelOrigin>& origins, const Device& device) {
  if (origins.size() > 1) WriteJoiner(program, origins, device).join();
}

}  // namespace planish::codegen
