#include <cstring>

#include "launch.h"
#include "program.h"

namespace planish::rt {
namespace {

cu::Code fill(const cu::Driver& d, std::uint64_t at, std::int64_t elements, std::int64_t size,
              const std::array<unsigned char, 8>& pattern, cu::Stream stream) {
  const auto n = static_cast<std::size_t>(elements);
  std::uint32_t low = 0, high = 0;
  std::memcpy(&low, pattern.data(), 4);
  std::memcpy(&high, pattern.data() + 4, 4);
  if (size == 1) return d.memset_8(at, pattern[0], n, stream);
  if (size == 2) return d.memset_16(at, static_cast<unsigned short>(low & 0xffffu), n, stream);
  if (size == 4) return d.memset_32(at, low, n, stream);
  if (low == high) return d.memset_32(at, low, 2 * n, stream);
  // There is no 64-bit memset: both halves as columns of a matrix of two words a row.
  if (const cu::Code code = d.memset_2d_32(at, 8, low, 1, n, stream); code != cu::success) return code;
  return d.memset_2d_32(at + 4, 8, high, 1, n, stream);
}

Status launch(prt_program* program, const Step& step, bool overlapping, void* const* pointers, std::uint64_t base,
              cu::Stream stream) {
  const cu::Driver& d = *program->driver;
  const auto k = static_cast<std::size_t>(step.kernel);
  Arguments arguments;
  PRT_CHECK(arguments.gather(*program, step, pointers, base));
  const auto& [gx, gy, gz] = step.grid;
  const auto& [bx, by, bz] = step.block;
  cu::Code code = cu::success;
  if (Attributes attributes(step, overlapping && d.launch_ex != nullptr); attributes.count > 0) {
    const cu::LaunchConfig config{{gx, gy, gz}, {bx, by, bz}, step.shared, stream, attributes.list, attributes.count};
    code = d.launch_ex(&config, program->kernels[k].function, arguments.params, nullptr);
  } else {
    code =
        d.launch(program->kernels[k].function, gx, gy, gz, bx, by, bz, step.shared, stream, arguments.params, nullptr);
  }
  if (code == cu::success) return {};
  return cu::check(code, ("launching `" + program->document.kernels[k].entry + "`").c_str(), "launch_failed");
}

Status launch_copies(const prt_program& program, const JointCopies& group, void* const* pointers, std::uint64_t base,
                     cu::Stream stream) {
  CopyLaunch copies;
  PRT_CHECK(copies.gather(program, group, pointers, base));
  const cu::KernelNode node = copies.node();
  const cu::Code code =
      program.driver->launch(node.function, node.grid[0], node.grid[1], node.grid[2], node.block[0], node.block[1],
                             node.block[2], node.shared_bytes, stream, node.params, nullptr);
  return cu::check(code, "copy steps", "launch_failed");
}

}  // namespace

Attributes::Attributes(const Step& step, bool overlapping) {
  if (step.cluster[0] * step.cluster[1] * step.cluster[2] > 1) {
    cu::LaunchAttribute& cluster = list[count++];
    cluster.id = cu::attribute_cluster;
    for (std::size_t i = 0; i < 3; ++i) cluster.value.cluster[i] = step.cluster[i];
  }
  if (step.cooperative) {
    cu::LaunchAttribute& cooperative = list[count++];
    cooperative.id = cu::attribute_cooperative;
    cooperative.value.cooperative = 1;
  }
  if (overlapping) {
    cu::LaunchAttribute& programmatic = list[count++];
    programmatic.id = cu::attribute_programmatic;
    programmatic.value.programmatic = 1;
  }
}

Status Arguments::gather(const prt_program& program, const Step& step, void* const* pointers, std::uint64_t workspace) {
  const std::size_t n = step.args.size();
  for (std::size_t i = 0; i < n; ++i) {
    const LaunchArg& arg = step.args[i];
    if (arg.buffer >= 0) {
      PRT_TRY(addresses[i], address(program, pointers, workspace, arg.buffer));
      params[i] = &addresses[i];
    } else {
      addresses[i] = 0;
      params[i] = const_cast<unsigned char*>(arg.value.data());
    }
  }
  params[n] = params[n + 1] = &scratch;  // Triton's two scratch pointers; other kernels do not read so far
  return {};
}

Status run_cuda(prt_program* program, void* const* pointers, int first, int last, cu::Stream stream) {
  PRT_TRY(const std::uint64_t base, workspace(program, pointers, stream));
  const cu::Driver& d = *program->driver;
  auto joint = program->joint_copies.begin();
  bool launched = false;  // the launch before is a step of this call
  for (int s = first; s < last; ++s) {
    while (joint != program->joint_copies.end() && joint->first < s) ++joint;
    if (joint != program->joint_copies.end() && joint->first == s && s + joint->count <= last) {
      PRT_CHECK(launch_copies(*program, *joint, pointers, base, stream));
      launched = false;  // a launch behind copies waits for them in full
      s += joint->count - 1;
      continue;
    }
    const Step& step = program->document.steps[static_cast<std::size_t>(s)];
    if (step.kind == StepKind::launch) {
      PRT_CHECK(launch(program, step, overlaps(step, !launched), pointers, base, stream));
      launched = true;
      continue;
    }
    const Runs& runs = program->runs[static_cast<std::size_t>(s)];
    const std::int64_t size = program->document.buffers[static_cast<std::size_t>(step.to)].element_bytes;
    PRT_TRY(const std::uint64_t to, address(*program, pointers, base, step.to));
    cu::Code code = cu::success;
    if (step.kind == StepKind::set) {
      runs.each([&](std::int64_t at, std::int64_t) {
        if (code == cu::success)
          code = fill(d, to + static_cast<std::uint64_t>(at * size), runs.elements, size, step.pattern, stream);
      });
    } else {
      PRT_TRY(const std::uint64_t from, address(*program, pointers, base, step.from));
      runs.each([&](std::int64_t a, std::int64_t b) {
        if (code != cu::success) return;
        code = d.memcpy_async(to + static_cast<std::uint64_t>(b * size), from + static_cast<std::uint64_t>(a * size),
                              static_cast<std::size_t>(runs.elements * size), stream);
      });
    }
    PRT_CHECK(cu::check(code, step.kind == StepKind::set ? "a set step" : "a copy step", "launch_failed"));
  }
  return {};
}

}  // namespace planish::rt
