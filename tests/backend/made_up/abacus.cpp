#include "made_up/abacus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>

#include "codegen/templates/emission.h"
#include "evaluate/device.h"
#include "search/cell.h"

namespace planish::made_up {
namespace {

using codegen::Device;
using codegen::Emitted;
using codegen::Gene;
using codegen::Genome;
using codegen::Kernel;
using codegen::Outline;
using codegen::Schedule;

bool tally_flag(std::string_view flag) {
  return flag == "--quiet";
}

/// Rods that count side by side: the only choice there is.
class Rods : public Schedule {
 public:
  Rods(const Kernel& kernel, const Device& device) : kernel_(kernel), device_(device) {}
  std::vector<Gene> genes() const override { return {{"threads", {1, 2, 4, 8}}}; }
  std::string illegal(const Genome& genome) const override {
    return codegen::gene(genome, "threads", 1) > device_.sms ? "there are not so many rods" : "";
  }
  std::vector<Genome> seeds() const override { return {{{"threads", 4}}, {{"threads", 1}}}; }
  Outline outline(const Genome& genome) const override {
    Outline out;
    out.threads = static_cast<double>(codegen::gene(genome, "threads", 1));
    return out;
  }
  Result<Emitted> emit(const Genome& genome) const override {
    Emitted out;
    out.language = "tally";
    out.entry = "count";
    out.flags = {"--quiet"};
    out.block[0] = codegen::gene(genome, "threads", 1);
    out.grid[0] = std::max<std::int64_t>(1, kernel_.outer_extent());
    out.source = fmt::format("count on {} rods\n{}", out.block[0], codegen::text(kernel_));
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
      out.args.push_back({Emitted::Argument::Kind::input, static_cast<int>(i), {}});
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i)
      out.args.push_back({Emitted::Argument::Kind::output, static_cast<int>(i), {}});
    return out;
  }

 private:
  const Kernel& kernel_;
  const Device& device_;
};

class AbacusEmission : public codegen::Emission {
 public:
  std::unique_ptr<const Schedule> schedule(const codegen::Template&, const Kernel& kernel,
                                           const Device& device) const override {
    return std::make_unique<Rods>(kernel, device);
  }
};

class AbacusCells : public search::Cells {
 public:
  search::Cell of(const KernelReport& kernel, const LaunchReport& launch, std::size_t launches) const override {
    search::Cell out;
    out.strategy = kernel.instruction("fold") > 0 ? 1 : 0;
    out.footprint = launch.threads > 4 ? 2 : launch.threads > 1 ? 1 : 0;
    out.structure = launches > 1 ? 2 : 0;
    return out;
  }
  Names names() const override {
    return {{"counting", "folding", "", ""}, {"one rod", "some rods", "many rods"}, {"alone", "", "in turns"}};
  }
};

class AbacusProbe : public DeviceProbe {
 public:
  bool present() const override { return false; }  // `auto` never means it
  const char* missing() const override { return "no abacus is on the table"; }
  void describe(const worker::HelloReply&, const Nvml&, DeviceFacts& facts) const override {
    facts.arch = "bamboo";
    facts.uuid = "abacus-1";
    facts.sms = 8;
  }
};

class Tallier : public worker::KernelCompiler {
 public:
  std::string version() const override { return "tallier 1"; }
  Result<worker::Compiled> compile(const worker::CompileJob& job) override {
    if (!job.source.starts_with("count on ")) return fail("compile_error", "line 1: what is to be counted?");
    worker::Compiled out;
    out.binary = job.arch + "\n" + job.source;
    for (std::size_t at = 0, end = 0; at < job.source.size(); at = end + 1) {
      end = std::min(job.source.find('\n', at), job.source.size());
      const std::string line = job.source.substr(at, end - at);
      if (line.starts_with("%")) ++out.instructions["bead"];
      if (line.size() > 1 && line[0] == 'r' && std::isdigit(static_cast<unsigned char>(line[1])) != 0)
        ++out.instructions["fold"];
    }
    return out;
  }
};

}  // namespace

const backend::Backend& abacus() {
  static const backend::Backend& added = [] -> const backend::Backend& {
    backend::Backend made;
    made.name = "abacus";
    made.title = "abacuses";
    made.languages = {{"tally", "Tally", "tal", "beads", false, tally_flag}};
    made.held = {.blocks = 1, .threads = 8};
    made.parts.give<codegen::Emission>(std::make_shared<const AbacusEmission>());
    made.parts.give<search::Cells>(std::make_shared<const AbacusCells>());
    made.parts.give<DeviceProbe>(std::make_shared<const AbacusProbe>());
    return backend::add(std::move(made));
  }();
  return added;
}

worker::Compilers::Start abacus_compiler() {
  return [] -> Result<std::unique_ptr<worker::KernelCompiler>> { return std::make_unique<Tallier>(); };
}

}  // namespace planish::made_up
