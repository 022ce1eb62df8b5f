#include "codegen/compose/compose.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <type_traits>
#include <variant>

#include "codegen/compose/early_reads.h"
#include "codegen/compose/even_launches.h"
#include "codegen/compose/idle_steps.h"
#include "codegen/compose/joint_packing.h"
#include "codegen/compose/joint_products.h"
#include "codegen/compose/joint_writes.h"
#include "codegen/compose/joint_zeros.h"
#include "codegen/compose/kernels.h"
#include "ir/arg_values.h"

namespace planish::codegen {
namespace {

using program::Buffer;
using program::Program;
using program::Role;

constexpr auto scalar_argument = []<typename T>(T value) -> program::LaunchArg {
  if constexpr (std::is_same_v<T, std::int32_t>) return program::I32Arg{value};
  if constexpr (std::is_same_v<T, float>) return program::F32Arg{value};
  if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, double>) return value;
};

/// A node's operator, with the buffers of the tensors that it reads.
template <typename F>
program::Aten with_buffers(const ir::GraphNode& node, F&& buffer) {
  program::Aten step;
  step.op = node.op;
  step.args = node.args;
  ir::each_value(step.args, [&](int& id) { id = buffer(id); });
  return step;
}

/// Collects buffers, kernels and steps. Buffers appear when first referenced.
class Composer {
 public:
  /// `joins`: packings of parameters and inputs run first, and zeros, as few launches. Regions and what is emitted
  /// outlive this.
  Composer(const ir::Graph& graph, const Device& device, bool joins = false)
      : graph_(graph), device_(device), producers_(graph.producers()), joins_(joins) {
    program_.target = device.target->name;
    program_.arch = device.arch;
  }

  /// Gives a value of the graph its place among the caller's buffers, before it is referenced.
  void input(int value, Role role, program::Source source) {
    sources_[value] = {role, std::move(source)};
    made_.insert(value);  // statistics that a region is given are outputs of one of its nodes, too
  }
  void output(int value) { outputs_.push_back(value); }

  int buffer(int value) {
    if (const auto known = buffers_.find(value); known != buffers_.end()) return known->second;
    const ir::Value& v = graph_.values[static_cast<std::size_t>(value)];
    Buffer b;
    b.dtype = v.dtype_name;
    b.shape = v.shape;
    b.strides = v.strides;
    if (const auto source = sources_.find(value); source != sources_.end()) {
      b.role = source->second.first;
      b.source = source->second.second;
    } else {
      b.role = std::find(outputs_.begin(), outputs_.end(), value) != outputs_.end() ? Role::output : Role::temp;
    }
    return buffers_[value] = add(std::move(b));
  }

  void aten(int node) {
    const ir::GraphNode& n = graph_.nodes[static_cast<std::size_t>(node)];
    program::Aten step = with_buffers(n, [this](int value) { return buffer(value); });
    bool useful = false;
    for (const auto& out : n.outs) {
      // A value that another step has made already is not made again.
      const bool wanted = out && !made_.contains(*out);
      step.outs.push_back(wanted ? std::optional<int>(buffer(*out)) : std::nullopt);
      if (wanted) made_.insert(*out);
      useful = useful || wanted;
    }
    if (useful) program_.steps.push_back(std::move(step));
  }

  void aten_region(const Region& region) {
    for (const int node : region.nodes) aten(node);
  }

  Status launch(const Region& region, const Emitted& e) {
    std::map<int, int> scratch;  // buffers, by scratch index
    for (const Output& output : region.kernel.outputs) {
      if (output.base >= 0) program_.steps.emplace_back(program::Copy{buffer(output.base), buffer(output.value)});
      if (output.over_zeros) make_zeros(output.value);
    }
    PLANISH_CHECK(step(region, e, e, scratch));
    for (const Emitted& next : e.after) PLANISH_CHECK(step(region, next, e, scratch));
    made_.insert(region.outputs.begin(), region.outputs.end());
    return {};
  }

  /// A launch of `whole`, or an operator of PyTorch's that stands for one. `scratch`: what of it has a buffer.
  Status step(const Region& region, const Emitted& e, const Emitted& whole, std::map<int, int>& scratch) {
    // What an earlier launch of these has used is zeroed where it stands.
    const std::map<int, int> used = e.zeroed.empty() ? std::map<int, int>() : scratch;
    if (e.derives && is_there(region, e, whole, scratch)) return zero(e, whole, used, scratch);
    std::vector<program::LaunchArg> args;
    for (const auto& arg : e.args) {
      PLANISH_TRY(args.emplace_back(), argument(region, arg, whole, scratch));
    }
    PLANISH_CHECK(zero(e, whole, used, scratch));
    if (joins_ && e.packs && is_at_hand(region, e, whole)) {
      packings_.push_back({&e, std::move(args)});
      places_.push_back(program_.steps.size());
      return {};
    }
    if (e.library) return library(*e.library, args);
    PLANISH_CHECK(launch_one(e, std::move(args)));
    const bool writes = region.kernel.anchor == Anchor::scatter && e.after.empty() && &e == &whole;
    if (region.before.empty() && (writes || e.few_queries))
      origins_.emplace(std::get<program::Launch>(program_.steps.back()).kernel, KernelOrigin{&region, &e});
    return {};
  }

  /// The memory of a value that nothing was written to before.
  void make_zeros(int value) {
    const ir::Value& v = graph_.values[static_cast<std::size_t>(value)];
    std::int64_t last = 1;
    for (std::size_t d = 0; d < v.shape.size(); ++d) last += (v.shape[d] - 1) * v.strides[d];
    zero(buffer(value), v.elements() * size_of(v.dtype), last == v.elements());
  }

  /// By the launch before the first step, where it may be `early`, else by a step of its own.
  void zero(int buffer, std::int64_t bytes, bool early) {
    if (joins_ && early && can_be_zeroed_jointly(device_, bytes))
      zeros_.emplace_back(buffer, bytes);
    else
      program_.steps.emplace_back(std::in_place_type<program::Set>, buffer, 0.0);
  }

  /// What holds zeros from here on: scratch of all of `whole`, which its first launch names. `used`: what of it had a
  /// buffer before.
  Status zero(const Emitted& e, const Emitted& whole, const std::map<int, int>& used, std::map<int, int>& scratch) {
    for (const int index : e.zeroed) {
      PLANISH_TRY(const int own, scratch_buffer(index, whole, scratch));
      zero(own, whole.scratch_bytes[static_cast<std::size_t>(index)], !used.contains(index));
    }
    return {};
  }

  /// Whether all that it reads is there before the first step, and what it writes is little: of large parameters each
  /// fills the device, and is best packed when it is needed.
  bool is_at_hand(const Region& region, const Emitted& e, const Emitted& whole) const {
    constexpr std::int64_t most_bytes = std::int64_t{32} << 20;
    return std::ranges::all_of(e.args, [&](const Emitted::Argument& arg) {
      const auto index = static_cast<std::size_t>(arg.index);
      if (arg.kind == Emitted::Argument::Kind::scratch) return whole.scratch_bytes[index] <= most_bytes;
      if (arg.kind != Emitted::Argument::Kind::input) return false;
      const auto source = sources_.find(region.inputs[index]);
      return source != sources_.end() && source->second.first != Role::state;
    });
  }

  /// Whether an earlier launch has written what this one would, of the same inputs: then that is what is read of it. If
  /// not, it is what later ones may read. Packed images, say, of an input that two kernels multiply.
  bool is_there(const Region& region, const Emitted& e, const Emitted& whole, std::map<int, int>& scratch) {
    Derived made;
    std::vector<int> written;
    for (const Emitted::Argument& arg : e.args) {
      const auto index = static_cast<std::size_t>(arg.index);
      if (arg.kind == Emitted::Argument::Kind::input && index < region.inputs.size()) {
        const auto source = sources_.find(region.inputs[index]);
        if (source != sources_.end() && source->second.first == Role::state) return false;
        made.inputs.push_back(buffer(region.inputs[index]));
      } else if (arg.kind == Emitted::Argument::Kind::scratch && index < whole.scratch_bytes.size()) {
        if (std::ranges::find(whole.zeroed, arg.index) != whole.zeroed.end()) return false;
        made.bytes.push_back(whole.scratch_bytes[index]);
        written.push_back(arg.index);
      } else {
        return false;
      }
    }
    const auto same = std::ranges::find_if(derived_, [&](const Derived& one) {
      return one.inputs == made.inputs && one.bytes == made.bytes && same_launch(one.launch, e);
    });
    if (same != derived_.end()) {
      for (std::size_t i = 0; i < written.size(); ++i) scratch[written[i]] = same->scratch[i];
      return true;
    }
    for (const int index : written) {
      const auto own = scratch_buffer(index, whole, scratch);
      if (!own) return false;
      made.scratch.push_back(*own);
    }
    made.launch = e;
    made.launch.after.clear();
    derived_.push_back(std::move(made));
    return false;
  }

  /// Before the first step.
  void place_zeros() {
    for (std::size_t first = 0; first < zeros_.size(); first += most_zeroed) {
      const auto begin = zeros_.begin() + static_cast<std::ptrdiff_t>(first);
      auto [source, launch] = joint_zeros(
          device_, {begin, begin + static_cast<std::ptrdiff_t>(std::min(most_zeroed, zeros_.size() - first))});
      launch.kernel = static_cast<int>(program_.kernels.size());
      program_.kernels.push_back(std::move(source));
      program_.steps.insert(program_.steps.begin(), std::move(launch));
    }
  }

  /// Packings that were put off: those that can be one launch before the first step, the others where they were.
  void place_packings() {
    std::vector<std::pair<std::size_t, program::Launch>> launches;  // by the step before which they come
    for (const std::vector<std::size_t>& group : packing_groups(packings_)) {
      std::vector<PackingStep> steps;
      for (const std::size_t i : group) steps.push_back(packings_[i]);
      auto joint = steps.size() > 1 ? joint_packing(steps) : fail("unsupported", "there is one");
      if (joint) {
        joint->launch.kernel = static_cast<int>(program_.kernels.size());
        program_.kernels.push_back(std::move(joint->source));
        launches.emplace_back(0, std::move(joint->launch));
        continue;
      }
      for (const std::size_t i : group)
        launches.emplace_back(places_[i], launch_of(*packings_[i].emitted, packings_[i].args));
    }
    std::ranges::stable_sort(launches, {}, [](const auto& each) { return each.first; });
    std::vector<program::Step> steps;
    auto next = launches.begin();
    for (std::size_t s = 0; s <= program_.steps.size(); ++s) {
      for (; next != launches.end() && next->first == s; ++next) steps.emplace_back(std::move(next->second));
      if (s < program_.steps.size()) steps.push_back(std::move(program_.steps[s]));
    }
    program_.steps = std::move(steps);
  }

  Result<program::LaunchArg> argument(const Region& region, const Emitted::Argument& arg, const Emitted& whole,
                                      std::map<int, int>& scratch) {
    const auto index = static_cast<std::size_t>(arg.index);
    switch (arg.kind) {
      case Emitted::Argument::Kind::input:
        if (index >= region.inputs.size())
          return fail("bad_argument",
                      fmt::format("a launch names in{}, its region has {} inputs", index, region.inputs.size()));
        return program::BufferArg{buffer(region.inputs[index])};
      case Emitted::Argument::Kind::output:
        if (index >= region.outputs.size())
          return fail("bad_argument",
                      fmt::format("a launch names out{}, its region has {} outputs", index, region.outputs.size()));
        return program::BufferArg{buffer(region.outputs[index])};
      case Emitted::Argument::Kind::scratch: {
        PLANISH_TRY(const int own, scratch_buffer(arg.index, whole, scratch));
        return program::BufferArg{own};
      }
      case Emitted::Argument::Kind::scalar:
        break;
    }
    return std::visit([](auto value) { return program::LaunchArg(scalar_argument(value)); }, arg.value);
  }

  Status launch_one(const Emitted& e, std::vector<program::LaunchArg> args) {
    program_.steps.push_back(launch_of(e, std::move(args)));
    return {};
  }

  program::Launch launch_of(const Emitted& e, std::vector<program::LaunchArg> args) {
    program::Launch step;
    step.kernel = kernel(e);
    if (e.shares > 0) products_[step.kernel] = {e.shares, e.shared_by};
    std::copy(std::begin(e.grid), std::end(e.grid), step.grid.begin());
    std::copy(std::begin(e.block), std::end(e.block), step.block.begin());
    std::copy(std::begin(e.cluster), std::end(e.cluster), step.cluster.begin());
    step.shared = e.shared;
    step.cooperative = e.cooperative;
    step.args = std::move(args);
    if (e.early && !e.cooperative) {
      step.programmatic = true;
      for (std::size_t i = 0; i < e.args.size(); ++i) {
        const bool early = e.args[i].kind == Emitted::Argument::Kind::input &&
                           std::ranges::find(*e.early, e.args[i].index) != e.early->end();
        const auto* buffer = std::get_if<program::BufferArg>(&step.args[i]);
        step.programmatic =
            step.programmatic && (!early || (buffer != nullptr && is_never_written(program_, buffer->buffer)));
      }
    }
    return step;
  }

  /// Its tensors are places in `args`.
  Status library(const ir::GraphNode& node, const std::vector<program::LaunchArg>& args) {
    bool known = true;
    const auto buffer_at = [&](int place) {
      const auto index = static_cast<std::size_t>(place);
      const auto* found = index < args.size() ? std::get_if<program::BufferArg>(&args[index]) : nullptr;
      known = known && found != nullptr;
      return found == nullptr ? -1 : found->buffer;
    };
    program::Aten step = with_buffers(node, buffer_at);
    for (const auto& out : node.outs) step.outs.push_back(out ? std::optional(buffer_at(*out)) : std::nullopt);
    if (!known) return fail("bad_argument", node.op + " names a tensor that it is not given");
    program_.steps.push_back(std::move(step));
    return {};
  }

  /// The buffer of a launch's scratch, which appears when it is first named.
  Result<int> scratch_buffer(int index, const Emitted& whole, std::map<int, int>& known) {
    const auto& bytes = whole.scratch_bytes;
    if (index < 0 || static_cast<std::size_t>(index) >= bytes.size())
      return fail("bad_argument", fmt::format("a launch names tmp{}, {} are declared", index, bytes.size()));
    if (!known.contains(index)) {
      Buffer b;
      b.dtype = "u8";
      b.shape = {bytes[static_cast<std::size_t>(index)]};
      b.strides = {1};
      if (const auto tensor = whole.tensors.find(index); tensor != whole.tensors.end()) {
        b.dtype = name(tensor->second.dtype);
        b.shape = tensor->second.shape;
        b.strides = tensor->second.strides;
      }
      known[index] = add(std::move(b));
    }
    return known[index];
  }

  void result(program::Output output, int value) {
    if (value >= 0) output.buffer = buffer(value);
    program_.outputs.push_back(std::move(output));
  }

  /// `whole`: the program is the task's, and no region's, which is timed beside PyTorch's form of it.
  Result<Program> finish(bool whole = false) {
    place_packings();
    place_zeros();
    if (whole) {
      leave_out_idle_steps(program_);
      join_writes(program_, origins_, device_);
      read_early(program_, origins_, device_);
      join_products(program_, products_);
      keep_launches_even(program_, device_);
      drop_kernels(program_);
    }
    if (auto status = program::validate(program_); !status) return wrap(status.error(), "composed an invalid program");
    return std::move(program_);
  }

 private:
  /// A launch that derives what it writes (Emitted::derives).
  struct Derived {
    Emitted launch;
    std::vector<int> inputs;
    std::vector<std::int64_t> bytes;
    std::vector<int> scratch;  ///< buffers, as many
  };

  int add(Buffer b) {
    program_.buffers.push_back(std::move(b));
    return static_cast<int>(program_.buffers.size()) - 1;
  }

  static bool same_launch(const Emitted& a, const Emitted& b) {
    return a.language == b.language && a.entry == b.entry && a.source == b.source && a.flags == b.flags &&
           std::ranges::equal(a.grid, b.grid) && std::ranges::equal(a.block, b.block) &&
           std::ranges::equal(a.cluster, b.cluster) && a.shared == b.shared;
  }

  int kernel(const Emitted& e) { return kernel_number(program_, {e.language, e.entry, e.flags, e.source}); }

  const ir::Graph& graph_;
  const Device& device_;
  std::vector<int> producers_;
  const bool joins_;
  std::vector<Derived> derived_;
  std::vector<PackingStep> packings_;
  std::vector<std::pair<int, std::int64_t>> zeros_;  ///< buffers that hold zeros, with their bytes
  std::vector<std::size_t> places_;                  ///< of packings_: how many steps came before
  Program program_;
  std::map<int, int> buffers_;
  std::map<int, std::pair<Role, program::Source>> sources_;
  std::vector<int> outputs_;
  std::set<int> made_;
  std::map<int, SharedWork> products_;   ///< the work of kernels that are skinny products
  std::map<int, KernelOrigin> origins_;  ///< of cache writes, and attention that they may be part of
};

Composer task_composer(const ir::Graph& graph, const Device& device, Packings packings) {
  Composer composer(graph, device, packings == Packings::together);
  for (const auto& input : graph.inputs) {
    const bool state = input.kind == "buffer" &&
                       std::any_of(graph.outputs.begin(), graph.outputs.end(), [&](const ir::GraphOutput& o) {
                         return o.kind == "mutate_buffer" && o.target_name == input.name;
                       });
    const bool given = input.kind == "user" || input.kind == "generator";
    const Role role = given ? Role::input : input.kind == "const" ? Role::constant : state ? Role::state : Role::param;
    program::Source source{input.kind, -1, {}, {}};
    if (input.kind == "user") source.index = input.index;
    if (input.kind == "param" || input.kind == "buffer") source.name = input.name;
    if (input.kind == "const") source.blob = input.blob;
    composer.input(input.value, role, std::move(source));
  }
  for (const auto& output : graph.outputs) {
    if (output.value >= 0) composer.output(output.value);
  }
  return composer;
}

Composer region_composer(const ir::Graph& graph, const Region& region, const Device& device) {
  Composer composer(graph, device);
  for (std::size_t i = 0; i < region.inputs.size(); ++i) {
    composer.input(region.inputs[i], Role::input, {"user", static_cast<int>(i), {}, {}});
  }
  for (const int v : region.outputs) composer.output(v);
  // All of them, in order, whether or not the kernel uses each.
  for (const int v : region.inputs) composer.buffer(v);
  return composer;
}

Result<Program> finish_region(Composer& composer, const Region& region) {
  for (const int v : region.outputs) composer.result({"user", -1, {}, -1, {}}, v);
  return composer.finish();
}

}  // namespace

Result<Program> compose(const ir::Graph& graph, const Partition& partition, const std::vector<Choice>& choices,
                        const Device& device, Packings packings) {
  if (choices.size() != partition.regions.size()) {
    return fail("bad_argument", fmt::format("{} choices for {} regions", choices.size(), partition.regions.size()));
  }
  Composer composer = task_composer(graph, device, packings);
  for (const Item& item : partition.order) {
    const auto index = static_cast<std::size_t>(item.index);
    if (!item.is_region) {
      composer.aten(item.index);
    } else if (choices[index]) {
      PLANISH_CHECK(composer.launch(partition.regions[index], *choices[index]));
    } else {
      composer.aten_region(partition.regions[index]);
    }
  }
  for (const auto& output : graph.outputs) {
    composer.result({output.kind, -1, output.target_name, output.target_index, output.scalar_json}, output.value);
  }
  return composer.finish(true);
}

Result<Program> region_program(const ir::Graph& graph, const Region& region, const Emitted& emitted,
                               const Device& device) {
  Composer composer = region_composer(graph, region, device);
  PLANISH_CHECK(composer.launch(region, emitted));
  return finish_region(composer, region);
}

Result<Program> region_aten_program(const ir::Graph& graph, const Region& region, const Device& device) {
  Composer composer = region_composer(graph, region, device);
  composer.aten_region(region);
  return finish_region(composer, region);
}

Result<Program> aten_program(const ir::Graph& graph, const Device& device) {
  PartitionOptions options;
  options.fuse = false;
  PLANISH_TRY(const Partition all, partition(graph, options));
  return compose(graph, all, {}, device);
}

}  // namespace planish::codegen
