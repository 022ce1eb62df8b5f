// The CUDA side of runtime and runner against the fake driver of this folder.
#include <dlfcn.h>

#include "support.h"

using namespace runtime_test;

namespace {

const std::string folder = std::string(PLANISH_BUILD_DIR) + "/lib/fake";
// Loaded under its soname, it is what the runtime's dlopen of libcuda.so.1 finds, here and (by the path) in the runner.
[[maybe_unused]] const void* fake = [] {
  setenv("LD_LIBRARY_PATH", folder.c_str(), 1);
  return dlopen((folder + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_GLOBAL);
}();

struct CudaBuffer {
  prt_buffer* buffer = nullptr;
  explicit CudaBuffer(std::uint64_t bytes) {
    prt_error error{};
    REQUIRE_MESSAGE(prt_buffer_create(0, bytes, 0, &buffer, &error) == 0, error.message);
  }
  ~CudaBuffer() { prt_buffer_free(buffer); }
  float* data() const { return static_cast<float*>(prt_buffer_data(buffer)); }
  bool intact() const {
    int ok = 0;
    prt_error error{};
    REQUIRE_MESSAGE(prt_buffer_guards(buffer, &ok, &error) == 0, error.message);
    return ok == 1;
  }
  Json describe(int index, bool writable, std::uint64_t bytes) const {
    return {{"buffer", index},
            {"bytes", bytes},
            {"offset", prt_buffer_offset(buffer)},
            {"map_bytes", prt_buffer_map_bytes(buffer)},
            {"device", "cuda"},
            {"writable", writable}};
  }
};

Json cuda_program(const char* entry, Json buffers, Json steps) {
  Json out = program(std::move(buffers), std::move(steps));
  out["target"] = "cuda";
  out["kernels"][0] = {{"language", "cuda"}, {"entry", entry}, {"flags", Json::array()}, {"source", ""}};
  return out;
}
Json affine_cuda() {
  return cuda_program("affine", {buffer("input", {250}), buffer("output", {250})},
                      {launch(0, {{{"buffer", 0}}, {{"buffer", 1}}, {{"i64", 250}}})});
}

struct Program {
  Scratch scratch;
  prt_program* program = nullptr;
  prt_error error{};
  explicit Program(const Json& document, const char* image = "\177ELF fake") {
    const std::string path = scratch.path + "/k.cubin", text = document.dump();
    std::ofstream(path) << image;
    const char* paths[] = {path.c_str()};
    prt_program_load(0, text.data(), text.size(), paths, 1, &program, &error);
  }
  ~Program() { prt_program_free(program); }
  int run(std::vector<void*> pointers, int last) {
    return prt_program_run(program, pointers.data(), static_cast<int>(pointers.size()), 0, last, nullptr, &error);
  }
};

}  // namespace

TEST_CASE("device and buffers") {
  prt_device_info info{};
  prt_error error{};
  REQUIRE(prt_device_info_get(0, &info, &error) == 0);
  CHECK(std::string(info.arch) == "sm_90a");
  CHECK(std::string(info.uuid) == "GPU-abababab-abab-abab-abab-abababababab");
  CHECK(info.driver_version == 13000);
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{1000}, std::uint64_t{2} << 20, (std::uint64_t{2} << 20) + 4}) {
    const CudaBuffer shared(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(shared.data()) % 256 == 0);
    CHECK(prt_buffer_map_bytes(shared.buffer) % (2 << 20) == 0);
    CHECK(prt_buffer_offset(shared.buffer) + bytes + 256 >= prt_buffer_map_bytes(shared.buffer));
    CHECK(shared.intact());
  }
  const CudaBuffer shared(1000);
  shared.data()[250] = 0;
  CHECK_FALSE(shared.intact());
  prt_buffer* out = nullptr;
  CHECK(prt_buffer_create(0, std::uint64_t{1} << 40, 0, &out, &error) != 0);
  CHECK(std::string(error.kind) == "out_of_memory");
  CHECK(std::string(error.message).find("CUDA_ERROR_OUT_OF_MEMORY") != std::string::npos);
}

TEST_CASE("launch, set, copy, temps and timing") {
  const Json document = cuda_program(
      "affine",
      {buffer("input", {250}), buffer("temp", {250}), buffer("output", {250}), buffer("output", {3, 2}, "f64", {4, 1})},
      {launch(0, {{{"buffer", 0}}, {{"buffer", 1}}, {{"i64", 250}}}),
       {{"kind", "copy"}, {"from", 1}, {"to", 2}},
       {{"kind", "set"}, {"buffer", 3}, {"value", "0x1.8p+0"}}});
  Program p(document);
  REQUIRE_MESSAGE(p.program != nullptr, p.error.message);
  std::vector<float> x(250, 4), y(250);
  std::vector<double> z(10, -1);
  REQUIRE_MESSAGE(p.run({x.data(), nullptr, y.data(), z.data()}, 3) == 0, p.error.message);
  CHECK(y[249] == 9);
  CHECK(z == std::vector<double>{1.5, 1.5, -1, -1, 1.5, 1.5, -1, -1, 1.5, 1.5});
  prt_kernel_info info{};
  CHECK(prt_program_kernel_info(p.program, 0, &info, nullptr) == 0);
  CHECK(info.registers == 40);
  void* table[] = {x.data(), nullptr, y.data(), z.data()};
  void* const* sets[] = {table};
  std::vector<double> samples(40);
  prt_timing timing{};
  for (const int64_t flush : {0, 1 << 16}) {
    REQUIRE(prt_program_time(p.program, sets, 1, 4, 5, 40, 30, 0, flush, samples.data(), &timing, &p.error) == 0);
    CHECK(timing.runs == 40);
    CHECK(timing.median_ms > 0);
    CHECK(timing.host_us > 0);
  }
}

TEST_CASE("clusters and dynamic shared memory are asked for") {
  Json step = launch(0, Json::array({{{"buffer", 0}}}));
  step["grid"] = {32, 1, 1};
  step["cluster"] = {16, 1, 1};
  step["shared"] = 200 << 10;
  Program p(cuda_program("cluster", Json::array({buffer("output", {1})}), Json::array({step})));
  REQUIRE_MESSAGE(p.program != nullptr, p.error.message);
  float y = 0;
  REQUIRE_MESSAGE(p.run({&y}, 1) == 0, p.error.message);
  CHECK(y == 16);
  step["shared"] = 300 << 10;
  const Program large(cuda_program("cluster", Json::array({buffer("output", {1})}), Json::array({step})));
  CHECK(std::string(large.error.kind) == "launch_failed");
  step["shared"] = 0;
  step["block"] = {1024, 1, 1};
  const Program wide(cuda_program("cluster", Json::array({buffer("output", {1})}), Json::array({step})));
  CHECK(std::string(wide.error.kind) == "launch_failed");
}

TEST_CASE("a cooperative launch is one, or fails as a launch") {
  Json step = launch(0, Json::array({{{"buffer", 0}}}));
  step["grid"] = {264, 1, 1};
  step["cooperative"] = true;
  Program p(cuda_program("cluster", Json::array({buffer("output", {1})}), Json::array({step})));
  REQUIRE_MESSAGE(p.program != nullptr, p.error.message);
  float y = 0;
  REQUIRE_MESSAGE(p.run({&y}, 1) == 0, p.error.message);
  CHECK(y == 101);
  step["cluster"] = {4, 1, 1};
  Program both(cuda_program("cluster", Json::array({buffer("output", {1})}), Json::array({step})));
  REQUIRE_MESSAGE(both.run({&y}, 1) == 0, both.error.message);
  CHECK(y == 104);
  // More blocks than the device runs at once: they would wait for each other forever.
  step["grid"] = {268, 1, 1};
  const Program large(cuda_program("cluster", Json::array({buffer("output", {1})}), Json::array({step})));
  CHECK(large.program == nullptr);
  CHECK(std::string(large.error.kind) == "launch_failed");
  CHECK(std::string(large.error.message).find("268 blocks wait") != std::string::npos);
  // Where the driver cannot say so, it refuses the launch.
  setenv("FAKE_NO_OCCUPANCY", "1", 1);
  Program late(cuda_program("cluster", Json::array({buffer("output", {1})}), Json::array({step})));
  unsetenv("FAKE_NO_OCCUPANCY");
  REQUIRE_MESSAGE(late.program != nullptr, late.error.message);
  CHECK(late.run({&y}, 1) != 0);
  CHECK(std::string(late.error.kind) == "launch_failed");
}

TEST_CASE("what does not load says why") {
  CHECK(std::string(Program(affine_cuda(), "garbage").error.kind) == "load_failed");
  CHECK(std::string(Program(affine_cuda(), "").error.kind) == "load_failed");
  Json renamed = affine_cuda();
  renamed["kernels"][0]["entry"] = "other";
  CHECK(std::string(Program(renamed).error.kind) == "load_failed");
  Json few = affine_cuda();
  few["steps"][0]["args"].erase(2);
  CHECK(std::string(Program(few).error.kind) == "bad_program");
  Json narrow = affine_cuda();
  narrow["steps"][0]["args"][2] = {{"i32", 250}};
  CHECK(std::string(Program(narrow).error.kind) == "bad_program");
  Json triton = affine_cuda();
  triton["kernels"][0]["language"] = "triton";
  triton["steps"][0]["args"].erase(2);
  CHECK(Program(triton).program != nullptr);  // its own scratch pointers make up for what is missing
}

TEST_CASE("the runner maps inputs read-only and reports a poisoned context by name") {
  const CudaBuffer x(1000), y(1000);
  for (int i = 0; i < 250; ++i) x.data()[i] = static_cast<float>(i);
  const Scratch scratch;
  std::ofstream(scratch.path + "/k.cubin") << "\177ELF fake";
  Runner runner({"--device", "cuda:0"});
  CHECK(runner.call("hello", {{"device", "cuda"}})["result"]["device"]["kind"] == "cuda");
  const Json load = {{"program", affine_cuda()}, {"binaries", {scratch.path + "/k.cubin"}}, {"blobs", ""}};
  REQUIRE(runner.call("load", load).contains("result"));
  const auto bind = [&](const char* name, bool writable) {
    return runner.call(
        "bind",
        {{"handle", 1}, {"data", name}, {"buffers", {x.describe(0, false, 1000), y.describe(1, writable, 1000)}}},
        {prt_buffer_fd(x.buffer), prt_buffer_fd(y.buffer)});
  };
  REQUIRE(bind("good", true).contains("result"));
  REQUIRE(runner.call("run", {{"handle", 1}, {"data", "good"}}).contains("result"));
  CHECK(y.data()[249] == 499);
  CHECK(y.intact());
  const Json timed = runner.call(
      "time",
      {{"handle", 1}, {"data", {"good"}}, {"min_runs", 5}, {"max_runs", 8}, {"interval", 0.0}, {"flush_bytes", 4096}});
  CHECK(timed["result"]["samples_ms"].size() == 8);
  REQUIRE(bind("read-only output", false).contains("result"));
  const Json failed = runner.call("run", {{"handle", 1}, {"data", "read-only output"}});
  CHECK(failed["error"]["kind"] == "illegal_address");
  CHECK(failed["error"]["message"].get<std::string>().find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos);
  CHECK(runner.call("run", {{"handle", 1}, {"data", "good"}})["error"]["kind"] == "illegal_address");
  runner.hang_up();
  CHECK(runner.wait() == 0);
}

TEST_CASE("a device that fails in the middle is told from a program that does") {
  for (const char* how : {"ecc", "gone"}) {
    const CudaBuffer x(1000);
    const Scratch scratch;
    std::ofstream(scratch.path + "/k.cubin") << "\177ELF fake";
    Runner runner({"--device", "cuda:0"});
    REQUIRE(runner.call("hello", {{"device", "cuda"}}).contains("result"));
    const Json document = cuda_program(how, {buffer("output", {250})}, Json::array({launch(0, Json::array())}));
    const Json load = {{"program", document}, {"binaries", {scratch.path + "/k.cubin"}}, {"blobs", ""}};
    const Json loaded = runner.call("load", load);
    REQUIRE_MESSAGE(loaded.contains("result"), loaded.dump());
    REQUIRE(runner
                .call("bind", {{"handle", 1}, {"data", "d"}, {"buffers", {x.describe(0, true, 1000)}}},
                      {prt_buffer_fd(x.buffer)})
                .contains("result"));
    CHECK(runner.call("run", {{"handle", 1}, {"data", "d"}})["error"]["kind"] == "device_lost");
    // And so it stays for this process, whatever is asked.
    CHECK(runner.call("time", {{"handle", 1},
                               {"data", {"d"}},
                               {"min_runs", 5},
                               {"max_runs", 8},
                               {"interval", 0.0},
                               {"flush_bytes", 0}})["error"]["kind"] == "device_lost");
    runner.hang_up();
    CHECK(runner.wait() == 0);
  }
}
