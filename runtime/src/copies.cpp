#include "copies.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <utility>

#include "program.h"

namespace planish::rt {
namespace {

/// One row of `table` a row of blocks (blockIdx.y): 16 bytes a thread and turn where both addresses allow it, the rest
/// byte by byte. The table is an argument, so that a graph's node holds it.
constexpr const char* copying_text = R"(.version 6.3
.target sm_60
.address_size 64
.visible .entry planish_copies(.param .align 8 .b8 table[3072])
{
  .reg .pred %p<3>;
  .reg .b16 %h0;
  .reg .b32 %r<7>, %v<4>;
  .reg .b64 %a<14>;
  mov.u32 %r0, %ctaid.y;
  mul.wide.u32 %a0, %r0, 24;
  mov.b64 %a1, table;
  add.s64 %a1, %a1, %a0;
  ld.param.u64 %a2, [%a1];
  ld.param.u64 %a3, [%a1+8];
  ld.param.u64 %a4, [%a1+16];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mad.lo.u32 %r5, %r1, %r2, %r3;
  mul.lo.u32 %r6, %r4, %r2;
  cvt.u64.u32 %a5, %r5;
  cvt.u64.u32 %a6, %r6;
  or.b64 %a7, %a2, %a3;
  and.b64 %a7, %a7, 15;
  setp.ne.u64 %p0, %a7, 0;
  shr.u64 %a8, %a4, 4;
  @%p0 mov.u64 %a8, 0;
  shl.b64 %a9, %a8, 4;
  mov.u64 %a10, %a5;
wide:
  setp.ge.u64 %p1, %a10, %a8;
  @%p1 bra rest;
  shl.b64 %a11, %a10, 4;
  add.s64 %a12, %a2, %a11;
  add.s64 %a13, %a3, %a11;
  ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%a12];
  st.global.v4.u32 [%a13], {%v0, %v1, %v2, %v3};
  add.s64 %a10, %a10, %a6;
  bra wide;
rest:
  add.s64 %a10, %a9, %a5;
narrow:
  setp.ge.u64 %p2, %a10, %a4;
  @%p2 bra done;
  add.s64 %a12, %a2, %a10;
  add.s64 %a13, %a3, %a10;
  ld.global.u8 %h0, [%a12];
  st.global.u8 [%a13], %h0;
  add.s64 %a10, %a10, %a6;
  bra narrow;
done:
  ret;
}
)";

/// A thread copies so much before there is another block, and so many blocks are enough for any device.
constexpr std::uint64_t bytes_a_thread = 64;
constexpr std::uint64_t most_blocks = 1024;

unsigned int blocks_for(const std::vector<JointCopies::Copy>& copies) {
  std::uint64_t most = 1;
  for (const JointCopies::Copy& copy : copies) most = std::max(most, copy.bytes);
  constexpr std::uint64_t each = bytes_a_thread * CopyLaunch::threads;
  return static_cast<unsigned int>(std::min((most + each - 1) / each, most_blocks));
}

}  // namespace

std::vector<JointCopies> find_joint_copies(const Document& document, const std::vector<Runs>& runs) {
  std::vector<JointCopies> out;
  std::set<int> read, written;  // by the group that is being made
  const auto joins = [&](std::size_t s) {
    const Step& step = document.steps[s];
    if (step.kind != StepKind::copy || runs[s].count > 1) return false;
    // A temporary's memory may be another's that is read here for the last time.
    return document.buffers[static_cast<std::size_t>(step.to)].role != Role::temp;
  };
  bool open = false;
  for (std::size_t s = 0; s < document.steps.size(); ++s) {
    const Step& step = document.steps[s];
    if (!joins(s)) {
      open = false;
      continue;
    }
    const bool depends = written.contains(step.from) || written.contains(step.to) || read.contains(step.to);
    if (!open || depends || out.back().copies.size() == most_copies) {
      out.push_back({static_cast<int>(s), 0, {}, 1});
      read.clear();
      written.clear();
      open = true;
    }
    JointCopies& group = out.back();
    ++group.count;
    read.insert(step.from);
    written.insert(step.to);
    const std::int64_t size = document.buffers[static_cast<std::size_t>(step.to)].element_bytes;
    const auto bytes = static_cast<std::uint64_t>(runs[s].elements * size);
    if (bytes > 0) group.copies.push_back({step.from, step.to, bytes});
  }
  std::erase_if(out, [](const JointCopies& group) { return group.copies.empty(); });
  for (JointCopies& group : out) group.blocks = blocks_for(group.copies);
  return out;
}

Status CopyLaunch::gather(const prt_program& program, const JointCopies& group, void* const* pointers,
                          std::uint64_t workspace) {
  used_ = 0;
  for (const JointCopies::Copy& copy : group.copies) {
    PRT_TRY(table_[used_], address(program, pointers, workspace, copy.from));
    PRT_TRY(table_[used_ + 1], address(program, pointers, workspace, copy.to));
    table_[used_ + 2] = copy.bytes;
    used_ += row;
  }
  params_[0] = table_;
  node_ = {};
  node_.function = program.copy_kernel;
  node_.grid[0] = group.blocks;
  node_.grid[1] = static_cast<unsigned int>(group.copies.size());
  node_.grid[2] = 1;
  node_.block[0] = threads;
  node_.block[1] = node_.block[2] = 1;
  node_.params = params_;
  return {};
}

cu::Function copy_kernel(const cu::Driver& driver, const cu::Gpu& gpu) {
  struct Made {
    bool tried = false;
    cu::Function function = nullptr;
  };
  static std::mutex mutex;
  static std::array<Made, 64> made;
  const std::lock_guard lock(mutex);
  Made& here = made[static_cast<std::size_t>(gpu.ordinal)];
  if (here.tried) return here.function;
  cu::Module module = nullptr;
  cu::Function function = nullptr;
  cu::Code code = driver.module_load(&module, copying_text);
  if (code == cu::success) code = driver.module_function(&function, module, "planish_copies");
  if (code == cu::success && driver.func_load != nullptr) code = driver.func_load(function);
  if (code != cu::success && module != nullptr) driver.module_unload(module);
  if (code == cu::success) here.function = function;
  here.tried = code != cu::out_of_memory;  // which says nothing of the next time
  return here.function;
}

}  // namespace planish::rt
