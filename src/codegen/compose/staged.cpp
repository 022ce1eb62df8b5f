#include "codegen/compose/staged.h"

#include <algorithm>
#include <map>
#include <utility>

#include "codegen/passes.h"
#include "codegen/templates/genomes.h"
#include "ir/arg_values.h"

namespace planish::codegen {
namespace {

using Argument = Emitted::Argument;

/// Gives the arguments of each kernel's launches their places in the whole.
class Stages {
 public:
  explicit Stages(const Region& region) : region_(region) {
    for (const Region& one : region.before) {
      for (std::size_t o = 0; o < one.outputs.size(); ++o) {
        const Output& output = one.kernel.outputs[o];
        std::int64_t last = 0;
        for (std::size_t d = 0; d < output.shape.size(); ++d) last += (output.shape[d] - 1) * output.strides[d];
        const int index = static_cast<int>(scratch_bytes_.size());
        local_.emplace(one.outputs[o], index);
        scratch_bytes_.push_back((last + 1) * size_of(output.dtype));
        if (is_tensor(one.outputs[o])) tensors_[index] = {output.dtype, output.shape, output.strides, 0, -1};
      }
    }
  }

  Status add(Emitted emitted, const std::vector<int>& inputs, const std::vector<int>& outputs) {
    const int offset = static_cast<int>(scratch_bytes_.size());
    scratch_bytes_.insert(scratch_bytes_.end(), emitted.scratch_bytes.begin(), emitted.scratch_bytes.end());
    for (const int index : emitted.zeroed) zeroed_.push_back(index + offset);
    std::vector<Emitted> after = std::exchange(emitted.after, {});
    after.insert(after.begin(), std::move(emitted));
    for (Emitted& launch : after) {
      launch.scratch_bytes.clear();
      launch.zeroed.clear();
      for (Argument& argument : launch.args) {
        if (argument.kind == Argument::Kind::scratch) argument.index += offset;
        if (argument.kind == Argument::Kind::input) {
          PLANISH_CHECK(place(argument, inputs, region_.inputs));
          // What an earlier launch makes is not there before it.
          if (argument.kind == Argument::Kind::scratch) launch.packs = launch.derives = false;
        }
        if (argument.kind == Argument::Kind::output) PLANISH_CHECK(place(argument, outputs, region_.outputs));
      }
      launches_.push_back(std::move(launch));
    }
    return {};
  }

  Emitted whole() {
    Emitted first = std::move(launches_.front());
    launches_.erase(launches_.begin());
    first.scratch_bytes = std::move(scratch_bytes_);
    first.tensors = std::move(tensors_);
    first.zeroed = std::move(zeroed_);
    first.after = std::move(launches_);
    return first;
  }

 private:
  /// Whether an operator of PyTorch's reads or gives a local value.
  bool is_tensor(int value) const {
    const auto has = [&](const Region& one, const std::vector<int>& inputs) {
      return one.library && (std::ranges::find(inputs, value) != inputs.end() ||
                             std::ranges::find(one.outputs, value) != one.outputs.end());
    };
    return has(region_, region_.reads) ||
           std::ranges::any_of(region_.before, [&](const Region& one) { return has(one, one.inputs); });
  }

  /// An argument that is value `values[index]`: scratch, or its place among the region's.
  Status place(Argument& argument, const std::vector<int>& values, const std::vector<int>& known) const {
    const auto index = static_cast<std::size_t>(argument.index);
    if (index >= values.size()) return fail("bad_argument", "a launch names a value that its kernel does not have");
    if (const auto own = local_.find(values[index]); own != local_.end()) {
      argument.kind = Argument::Kind::scratch;
      argument.index = own->second;
      return {};
    }
    const auto at = std::ranges::find(known, values[index]);
    if (at == known.end()) return fail("bad_argument", "a launch names a value that the region does not have");
    argument.index = static_cast<int>(at - known.begin());
    return {};
  }

  const Region& region_;
  std::map<int, int> local_;  ///< scratch, by value
  std::vector<std::int64_t> scratch_bytes_;
  std::map<int, Input> tensors_;  ///< by scratch
  std::vector<int> zeroed_;
  std::vector<Emitted> launches_;
};

/// No search tries others of a stage that has not the most to do: it takes the first guess that rounds no factors of
/// products, without approximations, which the region's gate may forbid.
std::optional<Genome> precise_guess(const Genomes& genomes) {
  const std::vector<Genome>& guesses = genomes.seeds();
  if (guesses.empty()) return std::nullopt;
  const auto found = std::ranges::find_if(guesses, [](const Genome& one) { return !rounds_factors(one); });
  Genome guess = found != guesses.end() ? *found : guesses.front();
  if (gene(guess, "fast", 0) == 0) return guess;
  Genome exact = guess;
  exact["fast"] = 0;
  return genomes.legal(exact) ? exact : guess;
}

}  // namespace

const Kernel& searched_kernel(const Region& region, const Device& device) {
  const Kernel* found = &region.kernel;
  if (region.library) return *found;
  double most = bytes_worth(cost(*found), device);
  for (const Region& one : region.before) {
    const double worth = one.library ? 0 : bytes_worth(cost(one.kernel), device);
    if (worth <= most) continue;
    most = worth;
    found = &one.kernel;
  }
  return *found;
}

Result<Emitted> staged(const Region& region, Emitted searched, const Device& device) {
  if (region.before.empty()) return searched;
  const Kernel* const main = &searched_kernel(region, device);
  Stages stages(region);
  const auto stage = [&](const Region& one, const std::vector<int>& inputs) -> Status {
    if (&one.kernel == main) return stages.add(std::move(searched), inputs, one.outputs);
    if (one.library) return stages.add(library_step(one), inputs, one.outputs);
    const Genomes genomes(one.kernel, device);
    const auto guess = precise_guess(genomes);
    if (!guess) return fail("unsupported", "a kernel has no first guess on this device");
    PLANISH_TRY(Emitted emitted, genomes.emit(*guess));
    return stages.add(std::move(emitted), inputs, one.outputs);
  };
  for (const Region& one : region.before) PLANISH_CHECK(stage(one, one.inputs));
  PLANISH_CHECK(stage(region, region.reads));
  return stages.whole();
}

Emitted library_step(const Region& region) {
  Emitted out;
  ir::GraphNode node = *region.library;
  std::map<int, int> places;
  const auto place = [&](int value, Argument::Kind kind, const std::vector<int>& among) {
    const auto [at, added] = places.emplace(value, static_cast<int>(out.args.size()));
    if (added)
      out.args.push_back({kind, static_cast<int>(std::ranges::find(among, value) - among.begin()), std::int32_t{0}});
    return at->second;
  };
  const std::vector<int>& inputs = region.before.empty() ? region.inputs : region.reads;
  ir::each_value(node.args, [&](int& id) { id = place(id, Argument::Kind::input, inputs); });
  for (auto& made : node.outs) {
    if (made) made = place(*made, Argument::Kind::output, region.outputs);
  }
  out.library = std::move(node);
  return out;
}

Result<Emitted> emit(const Region& region, const Device& device, const Genome& genome) {
  if (!region.library) {
    PLANISH_TRY(auto emitted, emit(searched_kernel(region, device), device, genome));
    return staged(region, std::move(emitted), device);
  }
  if (!genome.empty()) return fail("illegal_genome", "an operator of PyTorch's has no genes");
  return staged(region, library_step(region), device);
}

}  // namespace planish::codegen
